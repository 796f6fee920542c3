"""The report's tables: published beside reproduced, floors below, "not run" where there are no rows."""

from tdjepa.envs import base
from tdjepa.errors import UserError
from tdjepa.evidence import alignment, published
from tdjepa.params import Params
from tdjepa.render.inputs import Inputs
from tdjepa.render.labels import COSTS, ENVS, FLOORS, NOT_RUN, SOLVERS, cost_text, method_label, methods, planned_cost
from tdjepa.render.table import RULE, Strong, Table, Traced

NAVIGATION = ("two_room", "reacher")  # where the paper deploys d_psi


# Captions -------------------------------------------------------------------------------------------------------------


def seeds_text(params: Params) -> str:
    """Scale and numbers of seeds of each kind: goes with every success rate."""
    e, plan_seeds = params.evaluate, len(published.load()["plan_seeds"])
    return (
        f"Scale {params.scale}: {count(len(params.train_seeds), 'training seed')}, "
        f"{count(len(e.plan_seeds), 'plan seed')}, {e.episodes} {e.manifest} pairs, epoch {params.train.epochs}; "
        f"mean ± sample std over plan seeds [{100 * params.judge.level:g} % interval over training seeds, plan seeds "
        f"and episodes]; † fewer than planned. Published: one training seed, {plan_seeds} plan seeds."
    )


def count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"


def protocol_text(params: Params, env: str) -> str:
    """Solver and success criterion of an environment of the run."""
    p, planner = params.evaluate.protocol[env], params.evaluate.planner
    try:
        success = f"; success: {base.make(env).success_text} ({params.evaluate.budget} steps)"
    except UserError:  # planned, but this version cannot run it
        success = ""
    return (
        f"{ENVS[env]}: {SOLVERS[p.solver]}, {count(p.refinements, 'refinement')} of {planner.candidates} candidates, "
        f"w = {p.w:g}{success}."
    )


def deployed_text(params: Params) -> str:
    """d_ψ on Two-Room and Reacher, ℓ₂ on Push-T and OGB-Cube."""
    by_cost = {}
    for env, protocol in params.evaluate.protocol.items():
        by_cost.setdefault(protocol.deployed, []).append(ENVS[env])
    return ", ".join(f"{COSTS[cost]} on {' and '.join(names)}" for cost, names in by_cost.items())


def protocols_text(params: Params) -> str:
    return " ".join(protocol_text(params, env) for env in params.envs)


# Cells ----------------------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int) -> str:
    """A number, or a dash; no "-0.0"."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def published_text(cell: dict | None) -> str:
    return "–" if cell is None else f"{cell['mean']:.1f} ± {cell['std']:.1f}"


def reproduced_text(inputs: Inputs, cell: dict | None) -> str:
    if cell is None:
        return NOT_RUN
    d = inputs.params.render.digits
    spread = "" if cell["std"] is None else f" ± {number(cell['std'], d)}"
    mark = "†" if partial(inputs.params, cell) else ""
    text = f"{number(cell['mean'], d)}{spread} [{number(cell['low'], d)}, {number(cell['high'], d)}]{mark}"
    return Traced(text, cell["id"])


def partial(params: Params, cell: dict) -> bool:
    """Whether the cell has fewer rows than the parameters plan, so that a half-finished run is seen as such."""
    trained = cell["method"] not in FLOORS
    return (
        (trained and cell["n_train_seeds"] < len(params.train_seeds))
        or cell["n_plan_seeds"] < len(params.evaluate.plan_seeds)
        or cell["n_episodes"] < params.evaluate.episodes
    )


def difference_text(inputs: Inputs, comparison: dict | None) -> str:
    if comparison is None:
        return NOT_RUN
    d = inputs.params.render.digits
    low, high = number(comparison["low"], d), number(comparison["high"], d)
    text = f"{number(comparison['difference'], d)} [{low}, {high}], p {p_text(comparison['p_holm'])}"
    return Traced(text, comparison["a"], comparison["b"])


def p_text(p: float) -> str:
    return f"= {p:.3f}" if p >= 0.001 else "< 0.001"


def clear_winner(cells: list[dict | None]) -> dict | None:
    """The best of several cells, if its interval lies above all the others'."""
    there = [cell for cell in cells if cell is not None]
    if len(there) < 2:
        return None
    best = max(there, key=lambda cell: cell["mean"])
    return best if all(best["low"] > cell["high"] for cell in there if cell is not best) else None


def reproduced_row(inputs: Inputs, cells: list[dict | None], winners: list[dict | None]) -> list[str]:
    texts = [reproduced_text(inputs, cell) for cell in cells]
    marked = zip(texts, cells, winners, strict=True)
    return [Strong(text) if cell is not None and cell is winner else text for text, cell, winner in marked]


# Tables ---------------------------------------------------------------------------------------------------------------


def main(inputs: Inputs) -> Table:
    """The paper's Table 2: each method with the cost it deploys."""
    p = inputs.params
    names = methods(p)
    found = {m: [inputs.cell(env, m, planned_cost(p, env, m)) for env in ENVS] for m in names}
    winners = [clear_winner([found[m][i] for m in names]) for i in range(len(ENVS))]
    body = []
    for m in names:
        printed = [published.deployed(env, m) for env in ENVS]
        if any(printed):
            body.append([f"{method_label(p, m)}, published", *map(published_text, printed)])
        body.append([f"{method_label(p, m)}, reproduced", *reproduced_row(inputs, found[m], winners)])
        body.append(RULE)
    body += [floor_row(inputs, "random")]
    caption = (
        f"Planning success (%). Methods with a temporal head plan with {deployed_text(p)}; the others with ℓ₂. Bold: "
        f"its interval lies above all others. {seeds_text(p)} {protocols_text(p)}"
    )
    return Table("main", caption, ["Method", *ENVS.values()], body, wide=True)


def floor_row(inputs: Inputs, floor: str) -> list[str]:
    return [FLOORS[floor], *(reproduced_text(inputs, inputs.cell(env, floor)) for env in ENVS)]


def cost_matrix(inputs: Inputs) -> Table:
    """The paper's Table 11: one checkpoint, several plan costs."""
    p = inputs.params
    costs = p.methods["tdjepa"].costs if "tdjepa" in p.methods else tuple(COSTS)
    found = {cost: [inputs.cell(env, "tdjepa", cost) for env in ENVS] for cost in costs}
    winners = [clear_winner([found[cost][i] for cost in costs]) for i in range(len(ENVS))]
    body = []
    for cost in costs:
        printed = [published_text(published.cell(env, "tdjepa", cost)) for env in ENVS]
        body.append([f"{cost_text(p, cost)}, published", *printed])
        body.append([f"{cost_text(p, cost)}, reproduced", *reproduced_row(inputs, found[cost], winners)])
        body.append(RULE)
    body += [floor_row(inputs, "random")]
    caption = (
        f"Plan costs on the same {method_label(p, 'tdjepa')} checkpoints: success (%). Bold: its interval lies above "
        f"all others. {seeds_text(p)} {protocols_text(p)}"
    )
    return Table("cost_matrix", caption, ["Plan cost", *ENVS.values()], body, wide=True)


def navigation(inputs: Inputs) -> Table:
    """The paper's Table 5: is it the checkpoint or the cost? With the paired difference from LeWM."""
    p = inputs.params
    body = []
    for env in NAVIGATION:
        baseline = inputs.cell(env, "lewm", "l2")
        for method, cost in (("lewm", "l2"), ("tdjepa", "d_psi"), ("tdjepa", "l2")):
            cell = inputs.cell(env, method, cost)
            against = "" if method == "lewm" else difference_text(inputs, inputs.comparison(cell, baseline))
            setting = f"{method_label(p, method)}, {COSTS[cost]}"
            printed = published_text(published.cell(env, method, cost))
            body.append([ENVS[env], setting, printed, reproduced_text(inputs, cell), against])
        body += [[ENVS[env], FLOORS["random"], "–", reproduced_text(inputs, inputs.cell(env, "random")), ""], RULE]
    caption = (
        "Navigation: success (%) and the difference from LeWM in points, paired by plan seed and episode, with its "
        f"interval and the permutation p after Holm's correction. {seeds_text(p)} {protocols_text(p)}"
    )
    head = ["Environment", "Planner setting", "Published", "Reproduced", "Difference from LeWM"]
    return Table("navigation", caption, head, body[:-1], wide=True, left=2)


def floors(inputs: Inputs) -> Table:
    """What a score is worth: floors, the replay of the log, and the means without pairs solved at the start."""
    p, d = inputs.params, inputs.params.render.digits
    body = []
    for env in ENVS:
        lines = [(FLOORS[floor], inputs.cell(env, floor)) for floor in FLOORS]
        for m in p.methods_run:
            cost = planned_cost(p, env, m)
            lines.append((f"{method_label(p, m)}, {COSTS[cost]}", inputs.cell(env, m, cost)))
        if all(cell is None for _, cell in lines):
            body += [[ENVS[env], FLOORS["random"], elsewhere(env), NOT_RUN, "", ""], RULE]
            continue
        for label, cell in lines:
            known = elsewhere(env) if label == FLOORS["random"] else "–"
            rest = [number(cell["mean_nontrivial"], d), number(cell["excess_over_random"], d)] if cell else ["", ""]
            body.append([ENVS[env], label, known, reproduced_text(inputs, cell), *rest])
        body.append(RULE)
    caption = (
        "Floors and ceilings: success (%), the same without the pairs that are solved at the start, and the excess "
        f"over random actions in points. The paper gives no floor; the published ones are others' (CLEAR-LeWM), for "
        f"the released data. {seeds_text(p)} {protocols_text(p)}"
    )
    head = ["Environment", "Row", "Published", "Reproduced", "Without trivial pairs", "Excess"]
    return Table("floors", caption, head, body[:-1], True, left=2)


def elsewhere(env: str) -> str:
    """The random floor that others measured under this protocol."""
    return f"{published.load()['floors']['random'][env]:.1f}"


def rank_split(inputs: Inputs) -> Table:
    """The paper's Table 6: Spearman correlation of each cost with the step gap, by stratum."""
    p = inputs.params
    columns = [("tdjepa", "d_psi"), ("tdjepa", "l2"), ("lewm", "l2")]
    names = {"all": "all pairs", "far": "far from the end", "near": "near the end"}
    printed = published.load()["ranks"]
    body = []
    for env in [e for e in ENVS if e == printed["env"] or e in p.envs]:
        for split in alignment.SPLITS:
            found = [
                alignment.over_seeds(inputs.ranks, env=env, method=m, measure=cost, split=split) for m, cost in columns
            ]
            body.append([ENVS[env], f"{names[split]}, reproduced", *map(rank_text, found)])
            if env == printed["env"]:
                values = [rank_text((v["mean"], v["std"], 3)) for v in (printed[split]["d_psi"], printed[split]["l2"])]
                body.append([ENVS[env], f"{names[split]}, published", *values, "–"])
        body.append(RULE)
    caption = (
        f"Spearman correlation with the step gap τ (1 to {p.mine.goal_offset} environment steps) on {p.mine.pairs} "
        f"held-out pairs a checkpoint: mean ± sample std over {count(len(p.train_seeds), 'training seed')}. Scale "
        f"{p.scale}. Near: the goal lies at most {p.mine.near_end} steps before its episode's end; far: at "
        f"least {p.mine.far_end}."
    )
    head = ["Environment", "Pairs", *(f"{method_label(p, m)}, {COSTS[cost]}" for m, cost in columns)]
    return Table("rank_split", caption, head, body[:-1], True, left=2)


def rank_text(found: tuple[float, float | None, int] | None) -> str:
    if found is None:
        return NOT_RUN
    mean, std, _ = found
    return number(mean, 3) if std is None else f"{number(mean, 3)} ± {number(std, 3)}"


def data(inputs: Inputs) -> Table:
    """What is in the data sets, from their cards."""
    p, d = inputs.params, inputs.params.render.digits
    lines = {
        "Episodes": lambda c: f"{c['episodes']:,}",
        "Frames": lambda c: f"{c['rows']:,}",
        "Episode length (least, mean, most)": lambda c: (
            f"{c['length_min']}, {number(c['length_mean'], d)}, {c['length_max']}"
        ),
        "Demonstrations that succeed (%)": lambda c: number(100 * c["success_share"], d),
        "Pairs solved at the start (%)": lambda c: number(
            None if c["trivial_share"] is None else 100 * c["trivial_share"], d
        ),
        "Action mean": lambda c: ", ".join(number(v, 2) for v in c["action_mean"]),
        "Action std": lambda c: ", ".join(number(v, 2) for v in c["action_std"]),
        "Action autocorrelation, lag 1": lambda c: number(c["action_autocorrelation"][0], 2),
        "Image side (px)": lambda c: str(c["image_size"]),
        "Renderer against the library's, mean (of 255)": lambda c: number(c["renderer_difference"]["mean"], 2),
        "Renderer against the library's, most (of 255)": lambda c: number(c["renderer_difference"]["max"], 0),
        "sha256 (first 12)": lambda c: c["sha256"][:12],
    }
    body = []
    for label, text in lines.items():
        body.append([label, *(_card_text(inputs.cards.get(env), text) for env in ENVS)])
    caption = (
        f"The demonstrations, as their cards describe them. Scale {p.scale}; a pair is a start and the goal "
        f"{p.mine.goal_offset} environment steps later in the same episode."
    )
    return Table("data", caption, ["Property", *ENVS.values()], body, wide=True)


def _card_text(card: dict | None, text) -> str:
    if card is None:
        return NOT_RUN
    try:
        return text(card)
    except (KeyError, IndexError, TypeError):  # a card may leave a property out
        return "–"


ALL = (main, cost_matrix, navigation, floors, rank_split, data)
