"""Tables of the diagnostics: does a cost rank by time, where does planning fail on Push-T, do two planners solve the same
pairs, is the true state in the latent?"""

from tdjepa.config import runs
from tdjepa.config.runs import diagnosed_epochs
from tdjepa.evidence import published
from tdjepa.evidence.columns import SPLITS
from tdjepa.report.captions import caption
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import COSTS, ENVS, NOT_RUN, cost_text, method_label, methods, planned_cost
from tdjepa.report.phrases import mean_std, number, partial, rank_text
from tdjepa.report.table import RULE, Table, Traced


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
            body.append([ENVS[env], f"{names[split]}, reproduced", *(rank_text(f, len(p.train_seeds)) for f in found)])
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
        mark = "†" if ours and (ours.get("n_missing") or _partial(inputs, env, cost)) else ""
        row = [cost_text(p, cost)]
        for phase in ("before", "after"):
            values = None if ours is None else [v for v in (ours[phase], ours[f"{phase}_std"]) if v is not None]
            text = NOT_RUN if ours is None else mean_std(values, d) + mark
            row += [mean_std(source[cost][phase]), _traced(text, inputs.cell(env, "tdjepa", cost))]
        body.append(row)
    text = caption(p, "phases", env=ENVS[env], place=source["place"])
    head = ["Plan cost", "Before contact, published", "reproduced", "After contact, published", "reproduced"]
    return Table("phases", text, head, body, wide=True)


def _partial(inputs: Inputs, env: str, cost: str) -> bool:
    """Whether the rows that a diagnostic of TD-JEPA's planning is made of are fewer than planned."""
    cell = inputs.cell(env, "tdjepa", cost)
    return cell is not None and partial(inputs.params, cell)


def geometry(inputs: Inputs) -> Table:
    """The paper's Table 8: success by the distance at the start."""
    source, p = published.load()["geometry"], inputs.params
    env, d = source["env"], inputs.params.render.digits
    found = {(g["env"], g["method"], g["cost"], g["stratum"]): g["mean"] for g in inputs.stats["geometry"]}
    names = {"all": "all", "close": "close", "far": "far"}
    marks = {cost: "†" if _partial(inputs, env, cost) else "" for cost in COSTS}
    marks["gap"] = marks["l2"] or marks["d_psi"]
    body = []
    for stratum, label in names.items():
        printed = source[stratum]
        ours = {cost: found.get((env, "tdjepa", cost, stratum)) for cost in COSTS}
        ours["gap"] = None if None in (ours["l2"], ours["d_psi"]) else ours["l2"] - ours["d_psi"]
        cells = {cost: [inputs.cell(env, "tdjepa", cost)] for cost in COSTS}
        cells["gap"] = cells["l2"] + cells["d_psi"]
        texts = [
            NOT_RUN if value is None else _traced(number(value, d) + marks[name], *cells[name])
            for name, value in ours.items()
        ]
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


def _traced(text: str, *cells: dict | None) -> str:
    """The text, standing for the cells whose rows it was counted in."""
    return text if text == NOT_RUN or None in cells else Traced(text, *(cell["id"] for cell in cells))


def rank_epochs(inputs: Inputs) -> Table:
    """How early in a training each cost ranks by time."""
    p, epochs = inputs.params, diagnosed_epochs(inputs.params)
    body = []
    for env in p.envs:
        for m in [m for m in methods(p) if m in runs.methods_in(p, env) and runs.is_diagnosed(p, m)]:
            for cost in ("d_psi", "l2"):
                found = [inputs.rank(env, m, cost, epoch=epoch) for epoch in epochs]
                if any(found) or cost in p.methods[m].costs:
                    few = [rho is not None and rho[2] < len(p.train_seeds) for rho in found]
                    texts = [
                        NOT_RUN if rho is None else number(rho[0], 3) + "†" * f
                        for rho, f in zip(found, few, strict=True)
                    ]
                    body.append([ENVS[env], f"{method_label(p, m)}, {COSTS[cost]}", *texts])
        body.append(RULE)
    head = ["Environment", "Method, cost", *(f"epoch {epoch}" for epoch in epochs)]
    return Table("rank_epochs", caption(p, "rank_epochs"), head, body[:-1], True, left=2)


def disagreement(inputs: Inputs) -> Table:
    """Do two plan costs, or two methods, solve the same pairs?"""
    p, d = inputs.params, inputs.params.render.digits
    body = []
    for env in p.envs:
        planned = [("tdjepa", planned_cost(p, env, "tdjepa")), ("lewm", planned_cost(p, env, "lewm"))]
        for sides in ([("tdjepa", "d_psi"), ("tdjepa", "l2")], planned):
            found = inputs.comparison(*(inputs.cell(env, m, cost) for m, cost in sides))
            names = [f"{method_label(p, m)}, {cost_text(p, cost)}" for m, cost in sides]
            outcomes = found and found.get("outcomes")
            if not outcomes:
                body.append([ENVS[env], *names, *[NOT_RUN] * 4, "–"])
                continue
            n = sum(outcomes)
            shares = [Traced(number(100 * k / n, d), found["a"], found["b"]) for k in outcomes]
            body.append([ENVS[env], *names, *shares, f"{n:,}"])
    head = ["Environment", "A", "B", "Both", "Only A", "Only B", "Neither", "Episodes"]
    return Table("disagreement", caption(p, "disagreement"), head, body, True, left=3)


def probe(inputs: Inputs) -> Table:
    """Errors of the state read from latents, beside saying always the mean and beside nothing moving."""
    p, horizon = inputs.params, inputs.params.evaluate.planner.horizon
    body = []
    for env in ENVS:
        of_env = [found for found in inputs.probes if found["env"] == env]
        if not of_env:
            body += [[ENVS[env], NOT_RUN, *["–"] * 4], RULE]
            continue
        first = of_env[0]["quantities"]
        where = f"{ENVS[env]}: {', '.join(q['quantity'] + ' ' + q['unit'] for q in first)}"
        mean, last = _errors(of_env, lambda q: q["mean"]), len(first[0]["ahead"]) - 1
        still = [_errors(of_env, lambda q, k=k: q["still"][k]) for k in (0, last)]
        body += [[where, "Always the mean", mean, mean, mean, mean], [where, "Nothing moves", "–", "–", *still]]
        for m in [m for m in methods(p) if any(found["method"] == m for found in of_env)]:
            runs = [found for found in of_env if found["method"] == m]
            seen = [_errors(runs, lambda q, kind=kind: q[kind]) for kind in ("linear", "kernel")]
            ahead = [_errors(runs, lambda q, k=k: q["ahead"][k]) for k in (0, last)]
            body.append([where, method_label(p, m), *seen, *ahead])
        body.append(RULE)
    head = ["Quantities", "Method", "Seen, linear", "Seen, kernel", "1 imagined step", f"{horizon} imagined steps"]
    return Table("probe", caption(p, "probe"), head, body[:-1], True, left=2)


def _errors(runs: list[dict], pick) -> str:
    """Each quantity's error, mean over the trainings, to three significant digits: 23.1 / 30.5 / 0.41"""
    by_run = [[pick(quantity) for quantity in run["quantities"]] for run in runs]
    means = [sum(values) / len(values) for values in zip(*by_run, strict=True)]
    return " / ".join(f"{value:.3g}" for value in means)
