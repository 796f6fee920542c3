"""Tables of the diagnostics: what a cost ranks by, where planning fails, what two planners solve, what latents know."""

from tdjepa.config import runs
from tdjepa.config.names import TRUE_STATE
from tdjepa.evidence import published
from tdjepa.evidence.columns import SPLITS
from tdjepa.report.captions import captioned
from tdjepa.report.inputs import Inputs, mean
from tdjepa.report.labels import COSTS, ENVS, NOT_RUN, cost_text, main_methods, method_label, methods
from tdjepa.report.phrases import mean_std, number, partial, rank_text
from tdjepa.report.table import RULE, Table, Traced

# Rows of the table by distances at the start: by the agent's from the block, and by the block's from its goal
STARTS = {"all": ("starts", "all"), "agent close": ("starts", "close"), "agent far": ("starts", "far")}
STARTS |= {"block near": ("block", "near"), "block far": ("block", "far")}


def rank_split(inputs: Inputs) -> Table:
    """The paper's Table 6: Spearman correlation of each cost with the step gap; by stratum where the paper has it so."""
    p, printed, body = inputs.params, published.load()["ranks"], []
    columns = [("tdjepa", "d_psi"), ("tdjepa", "l2"), ("lewm", "l2")]
    names = {"all": "all pairs", "far": "far from the end", "near": "near the end"}
    for env in [e for e in ENVS if e == printed["env"] or e in p.envs]:
        for split in SPLITS if env == printed["env"] else SPLITS[:1]:
            texts = [rank_text(inputs.rank(env, m, cost, split), len(runs.train_seeds_of(p, m))) for m, cost in columns]
            body.append([ENVS[env], f"{names[split]}, reproduced", *texts])
            if env == printed["env"]:
                values = [rank_text((v["mean"], v["std"], 3)) for v in (printed[split]["d_psi"], printed[split]["l2"])]
                body.append([ENVS[env], f"{names[split]}, published", *values, "–"])
    head = ["Environment", "Pairs", *(f"{method_label(p, m)}, {COSTS[cost]}" for m, cost in columns)]
    return captioned(inputs, "rank_split", head, body, left=2)


def phases(inputs: Inputs) -> Table:
    """The paper's Table 7: failures before and after contact."""
    source, d = published.load()["phases"], inputs.digits
    env, body = source["env"], []
    found = {(f["env"], f["method"], f["cost"]): f for f in inputs.stats["phases"]}
    for cost in COSTS:
        ours, cell = found.get((env, "tdjepa", cost)), inputs.cell(env, "tdjepa", cost)
        mark = "†" if ours and ours.get("n_missing") else _mark(inputs, cell)
        row = [cost_text(inputs.params, cost)]
        for phase in ("before", "after"):
            values = ours and [v for v in (ours[phase], ours[f"{phase}_std"]) if v is not None]
            row += [mean_std(source[cost][phase]), _traced(mean_std(values, d) + mark, cell) if ours else NOT_RUN]
        body.append(row)
    head = ["Plan cost", "Before contact, published", "reproduced", "After contact, published", "reproduced"]
    return captioned(inputs, "phases", head, body, env=ENVS[env], place=source["place"])


def _mark(inputs: Inputs, *cells: dict | None) -> str:
    """Whether the rows that a diagnostic of planning is made of are fewer than planned."""
    return "†" if any(cell is not None and partial(inputs.params, cell) for cell in cells) else ""


def geometry(inputs: Inputs) -> Table:
    """The paper's Table 8: success by the distance at the start."""
    source, d = published.load()["geometry"], inputs.digits
    env, body = source["env"], []
    found = {(g["env"], g["method"], g["cost"], g["kind"], g["stratum"]): g["mean"] for g in inputs.stats["geometry"]}
    cells = {cost: [inputs.cell(env, "tdjepa", cost)] for cost in COSTS}
    cells["gap"] = cells["l2"] + cells["d_psi"]
    for label, (kind, stratum) in STARTS.items():
        printed = {cost: (source if kind == "starts" else source[kind])[stratum][cost] for cost in COSTS}
        ours = {cost: found.get((env, "tdjepa", cost, kind, stratum)) for cost in COSTS}
        for values in (printed, ours):
            values["gap"] = None if None in (values["l2"], values["d_psi"]) else values["l2"] - values["d_psi"]
        body.append([f"{label}, published", *(number(value, 1) for value in printed.values())])
        texts = {name: number(value, d) + _mark(inputs, *cells[name]) for name, value in ours.items()}
        traced = [NOT_RUN if ours[name] is None else _traced(text, *cells[name]) for name, text in texts.items()]
        body += [[f"{label}, reproduced", *traced], RULE]
    median = inputs.stats["median_start_distance"]
    values = {"env": ENVS[env], "place": source["place"], "published_median": f"{source['median_px']:g}"}
    values["median"] = NOT_RUN if median is None else number(median, 1)
    head = ["Starts", *(cost_text(inputs.params, cost) for cost in COSTS), "ℓ₂ − d_ψ"]
    return captioned(inputs, "geometry", head, body, **values)


def failures(inputs: Inputs) -> Table:
    """Success by how far the object must move and by the demonstrator of the pair's episode."""
    p, found = inputs.params, {}
    for entry in inputs.stats["moves"]:
        found.setdefault((entry["env"], entry["pairs"]), {})[entry["method"], entry["cost"]] = entry
    shown = [TRUE_STATE, *main_methods(p)]
    body = []
    for (env, pairs), cells in sorted(found.items(), key=lambda item: list(ENVS).index(item[0][0])):
        planned = [cells.get((m, "none" if m == TRUE_STATE else runs.planned_cost(p, env, m))) for m in shown]
        counted = next((str(cell["n_pairs"]) for cell in planned[::-1] if cell), "–")
        texts = ["–" if cell is None else number(cell["mean"], inputs.digits) for cell in planned]
        body.append([ENVS[env], pairs, counted, *texts])
    body = body or [[ENVS[env], NOT_RUN, "–", *["–"] * len(shown)] for env in ("push_t", "cube")]
    head = ["Environment", "Object must move; episodes", "Pairs", *(method_label(p, m) for m in shown)]
    return captioned(inputs, "failures", head, body, left=2)


def _traced(text: str, *cells: dict | None) -> str:
    """The text, standing for the cells whose rows it was counted in."""
    return text if None in cells else Traced(text, *(cell["id"] for cell in cells))


def rank_epochs(inputs: Inputs) -> Table:
    """How early in a training each cost ranks by time."""
    p, epochs, body = inputs.params, runs.diagnosed_epochs(inputs.params), []
    for env in p.envs:
        for m in [m for m in methods(p) if m in runs.methods_in(p, env) and runs.is_diagnosed(p, m)]:
            for cost in ("d_psi", "l2"):
                found = [inputs.rank(env, m, cost, epoch=epoch) for epoch in epochs]
                if any(found) or cost in p.methods[m].costs:
                    means = [rho and (rho[0], None, rho[2]) for rho in found]
                    texts = [rank_text(rho, len(runs.train_seeds_of(p, m))) for rho in means]
                    body.append([ENVS[env], f"{method_label(p, m)}, {COSTS[cost]}", *texts])
        body.append(RULE)
    head = ["Environment", "Method, cost", *(f"epoch {epoch}" for epoch in epochs)]
    return captioned(inputs, "rank_epochs", head, body, left=2)


def disagreement(inputs: Inputs) -> Table:
    """Do two plan costs, or two methods, solve the same pairs?"""
    p, body = inputs.params, []
    for env in p.envs:
        planned = [(m, runs.planned_cost(p, env, m)) for m in ("tdjepa", "lewm")]
        for sides in ([("tdjepa", "d_psi"), ("tdjepa", "l2")], planned):
            found = inputs.comparison(*(inputs.cell(env, m, cost) for m, cost in sides))
            names = [f"{method_label(p, m)}, {cost_text(p, cost)}" for m, cost in sides]
            outcomes = found and found.get("outcomes")
            if not outcomes:
                body.append([ENVS[env], *names, *[NOT_RUN] * 4, "–"])
                continue
            n = sum(outcomes)
            shares = [Traced(number(100 * k / n, inputs.digits), found["a"], found["b"]) for k in outcomes]
            body.append([ENVS[env], *names, *shares, f"{n:,}"])
    head = ["Environment", "A", "B", "Both", "Only A", "Only B", "Neither", "Episodes"]
    return captioned(inputs, "disagreement", head, body, left=3)


def probe(inputs: Inputs) -> Table:
    """Errors of the state read from latents, beside saying always the mean and beside nothing moving."""
    p, horizon, body = inputs.params, inputs.params.evaluate.planner.horizon, []
    for env in ENVS:
        of_env = [found for found in inputs.probes if found["env"] == env]
        if not of_env:
            body += [[ENVS[env], NOT_RUN, *["–"] * 6], RULE]
            continue
        first = of_env[0]["quantities"]
        where = f"{ENVS[env]}: {', '.join(q['quantity'] + ' ' + q['unit'] for q in first)}"
        always, last = _errors(of_env, lambda q: q["mean"]), len(first[0]["ahead"]) - 1
        body += [[where, "Always the mean", *[always] * 4, "–", "–"]]
        body += [[where, "Nothing moves", "–", "–", *_along(of_env, "still", last)]]
        for m in [m for m in methods(p) if any(found["method"] == m for found in of_env)]:
            trained = [found for found in of_env if found["method"] == m]
            seen = [_errors(trained, lambda q, kind=kind: q[kind]) for kind in ("linear", "kernel")]
            body.append([where, method_label(p, m), *seen, *_along(trained, "ahead", last)])
        body.append(RULE)
    head = ["Quantities", "Method", "Seen, linear", "Seen, kernel", "1 imagined step", f"{horizon} imagined steps"]
    return captioned(inputs, "probe", [*head, f"{horizon}, white", f"{horizon}, coloured"], body, left=2)


def _along(trained: list[dict], what: str, last: int) -> list[str]:
    """Errors after the first and the last imagined step along logged actions, and after the last along drawn ones."""
    logged = [_errors(trained, lambda q, k=k: q[what][k]) for k in (0, last)]
    known = [found for found in trained if all("white" in q for q in found["quantities"])]
    kinds = ("white", "coloured")
    return logged + [_errors(known, lambda q, kind=kind: q[kind][what][last]) if known else "–" for kind in kinds]


def _errors(trained: list[dict], pick) -> str:
    """Each quantity's error, mean over the trainings, to three significant digits: 23.1 / 30.5 / 0.41"""
    by_training = [[pick(quantity) for quantity in found["quantities"]] for found in trained]
    return " / ".join(f"{mean(values):.3g}" for values in zip(*by_training, strict=True))
