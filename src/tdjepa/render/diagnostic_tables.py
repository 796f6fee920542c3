"""Tables of the diagnostics: does a cost rank by time, and where does planning fail on Push-T?"""

from tdjepa.evidence import published
from tdjepa.evidence.names import SPLITS
from tdjepa.render.captions import caption
from tdjepa.render.inputs import Inputs
from tdjepa.render.labels import COSTS, ENVS, NOT_RUN, cost_text, method_label
from tdjepa.render.table import RULE, Table
from tdjepa.render.texts import mean_std, number, rank_text


def rank_split(inputs: Inputs) -> Table:
    """The paper's Table 6: Spearman correlation of each cost with the step gap; by stratum where the paper has it so."""
    p = inputs.params
    columns = [("tdjepa", "d_psi"), ("tdjepa", "l2"), ("lewm", "l2")]
    names = {"all": "all pairs", "far": "far from the end", "near": "near the end"}
    printed = published.load()["ranks"]
    body = []
    for env in [e for e in ENVS if e == printed["env"] or e in p.envs]:
        for split in SPLITS if env == printed["env"] else SPLITS[:1]:
            found = [inputs.rank(env, m, cost, split) for m, cost in columns]
            body.append([ENVS[env], f"{names[split]}, reproduced", *map(rank_text, found)])
            if env == printed["env"]:
                values = [rank_text((v["mean"], v["std"], 3)) for v in (printed[split]["d_psi"], printed[split]["l2"])]
                body.append([ENVS[env], f"{names[split]}, published", *values, "–"])
    head = ["Environment", "Pairs", *(f"{method_label(p, m)}, {COSTS[cost]}" for m, cost in columns)]
    return Table("rank_split", caption(p, "rank_split"), head, body, True, left=2)


def phases(inputs: Inputs) -> Table:
    """The paper's Table 7: failures before and after contact."""
    source, p = published.load()["phases"], inputs.params
    env, d = source["env"], inputs.params.render.digits
    found = {(f["env"], f["method"], f["cost"]): f for f in inputs.stats["phases"]}
    body = []
    for cost in COSTS:
        ours = found.get((env, "tdjepa", cost))
        row = [cost_text(p, cost)]
        for phase in ("before", "after"):
            values = None if ours is None else [v for v in (ours[phase], ours[f"{phase}_std"]) if v is not None]
            row += [mean_std(source[cost][phase]), NOT_RUN if ours is None else mean_std(values, d)]
        body.append(row)
    text = caption(p, "phases", env=ENVS[env], place=source["place"])
    head = ["Plan cost", "Before contact, published", "reproduced", "After contact, published", "reproduced"]
    return Table("phases", text, head, body, wide=True)


def geometry(inputs: Inputs) -> Table:
    """The paper's Table 8: success by the distance at the start."""
    source, p = published.load()["geometry"], inputs.params
    env, d = source["env"], inputs.params.render.digits
    found = {(g["env"], g["method"], g["cost"], g["stratum"]): g["mean"] for g in inputs.stats["geometry"]}
    names = {"all": "all", "close": "close", "far": "far"}
    body = []
    for stratum, label in names.items():
        printed = source[stratum]
        ours = {cost: found.get((env, "tdjepa", cost, stratum)) for cost in COSTS}
        gap = None if None in (ours["l2"], ours["d_psi"]) else ours["l2"] - ours["d_psi"]
        texts = [NOT_RUN if value is None else number(value, d) for value in (*ours.values(), gap)]
        body.append(
            [
                f"{label}, published",
                *(number(printed[c], 1) for c in COSTS),
                number(printed["l2"] - printed["d_psi"], 1),
            ]
        )
        body.append([f"{label}, reproduced", *texts])
        body.append(RULE)
    median = inputs.stats["median_start_distance"]
    values = {"env": ENVS[env], "place": source["place"], "published_median": f"{source['median_px']:g}"}
    text = caption(p, "geometry", median=NOT_RUN if median is None else number(median, 1), **values)
    head = ["Starts", *(cost_text(p, cost) for cost in COSTS), "ℓ₂ − d_ψ"]
    return Table("geometry", text, head, body[:-1], wide=True)
