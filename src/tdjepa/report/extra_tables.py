"""Tables that the paper does not have: floors, the spread of trainings, the leak of a random split, data."""

from tdjepa.config import runs
from tdjepa.config.names import LEAKY, SIMULATOR
from tdjepa.evidence import published
from tdjepa.report.captions import captioned, seeds_text
from tdjepa.report.inputs import Inputs, seed_means, spread
from tdjepa.report.labels import ENVS, NOT_RUN, UNTRAINED, cost_text, method_label, methods, methods_run, not_run_row
from tdjepa.report.phrases import difference_text, number, reproduced_text
from tdjepa.report.table import RULE, Table, Traced


def floors(inputs: Inputs) -> Table:
    """What a score is worth: floors, the replay of the log, and the means without pairs solved at the start."""
    known = published.load()["floors"]["random"]
    body = [["Random actions, published", *(number(known.get(env), 1) for env in ENVS)]]  # as others measured it
    for m, label in UNTRAINED.items():
        body.append([label, *(reproduced_text(inputs, inputs.cell(env, m)) for env in ENVS)])
    body += [RULE, *_by_method(inputs, _worth)]
    return captioned(inputs, "floors", ["Row", *ENVS.values()], body, simulator=_simulated(inputs))


def _by_method(inputs: Inputs, text) -> list[list[str]]:
    """What `text` says of each method's deployed cell, in each environment."""
    found = {m: [inputs.deployed(env, m) for env in ENVS] for m in methods_run(inputs.params)}
    texts = {m: [text(inputs, cell) if cell else NOT_RUN for cell in cells] for m, cells in found.items()}
    return [[method_label(inputs.params, m), *row] for m, row in texts.items()]


def _simulated(inputs: Inputs) -> str:
    """A simulator is slow, so few pairs: says how many."""
    found = {ENVS[env]: inputs.cell(env, SIMULATOR) for env in ENVS}
    pairs = ", ".join(f"{cell['n_episodes']} in {name}" for name, cell in found.items() if cell)
    return f"{UNTRAINED[SIMULATOR]}: pairs {pairs}. " if pairs else ""


def _worth(inputs: Inputs, cell: dict) -> str:
    """All pairs / without those that are solved at the start / excess over random actions."""
    values = (cell["mean"], cell["mean_nontrivial"], cell["excess_over_random"])
    return Traced(" / ".join(number(value, inputs.digits) for value in values), cell["id"])


def training_seeds(inputs: Inputs) -> Table:
    """How far trainings differ that differ in nothing but their seed."""
    p, body = inputs.params, [*_by_method(inputs, _trainings), RULE]
    for cost, means in published.trainings().items():
        values, plan = list(means.values()), published.cell("push_t", "tdjepa", cost)["std"]
        text = f"{' '.join(number(v, p.render.digits) for v in values)} ({spread(values):.1f}/{plan:.1f})"
        label = f"TD-JEPA, {cost_text(p, cost)}, published"
        body.append([label, *(text if env == "push_t" else "–" for env in ENVS)])
    return captioned(inputs, "training_seeds", ["Method", *ENVS.values()], body)


def _trainings(inputs: Inputs, cell: dict) -> str:
    """The mean of each training (their std / the std over plan seeds)."""
    d, by_seed, seeds = inputs.digits, seed_means(cell), runs.train_seeds_of(inputs.params, cell["method"])
    few = d if len(seeds) < 4 else 0  # digits: four columns of five numbers have no room for more
    texts = [number(by_seed[s], few) if s in by_seed else NOT_RUN for s in seeds]
    spreads = "/".join(number(cell[key], d) for key in ("std_train_seeds", "std") if cell[key] is not None)
    return Traced(f"{' '.join(texts)} ({spreads})", cell["id"])


def three_frames(inputs: Inputs) -> Table:
    """The protocol plans from one real frame although three are trained: what the other two are worth, and to whom."""
    p, name = inputs.params, "three_frames"
    sweep, body, cells = p.evaluate.sweeps.get(name), [], []
    for env in sweep.envs if sweep else ():
        for method in [m for m in methods(p) if m in sweep.methods]:
            cost = runs.planned_cost(p, env, method)
            pair = [inputs.cell(env, method, cost), inputs.swept(env, method, cost=cost, setting=name)]
            label = f"{method_label(p, method)}, {cost_text(p, cost)}"
            body.append([ENVS[env], label, *(reproduced_text(inputs, cell) for cell in pair)])
            cells += [cell for cell in pair if cell]
    head = ["Environment", "Method", "One frame, as published", "Three frames"]
    return captioned(inputs, name, head, body, left=2, seeds=seeds_text(p, cells))


def split_leak(inputs: Inputs) -> Table:
    """The same method trained on the training episodes alone and on all of them, planned on the same test pairs."""
    p, body = inputs.params, []
    twins = [(m, m + LEAKY) for m in methods(p) if m + LEAKY in p.methods_run]
    for env in ENVS:
        for honest, leaky in twins:
            for cost in p.methods[leaky].costs:
                cells = [inputs.cell(env, m, cost) for m in (honest, leaky)]
                if cells[1] is not None or env in (p.methods[leaky].envs or p.envs):
                    label = f"{method_label(p, honest)}, {cost_text(p, cost)}"
                    gain = difference_text(inputs, inputs.comparison(cells[1], cells[0]))
                    body.append([ENVS[env], label, *(reproduced_text(inputs, cell) for cell in cells), gain])
    head = ["Environment", "Method", "Leak-free", "Leaky: test episodes trained on", "Leak's gain"]
    return captioned(inputs, "split_leak", head, body or [not_run_row(p, "tdjepa" + LEAKY, len(head))], left=2)


def data(inputs: Inputs) -> Table:
    """What is in the data sets, from their cards."""

    def percent(share: float | None) -> str:
        return number(None if share is None else 100 * share, inputs.digits)

    def numbers(*values: float) -> str:
        return ", ".join(number(value, 2) for value in values)

    lines = {
        "Episodes": lambda c: f"{c['episodes']:,}",
        "Frames": lambda c: f"{c['rows']:,}",
        "Episode length (least, mean, most)": lambda c: (
            f"{c['length_min']}, {number(c['length_mean'], inputs.digits)}, {c['length_max']}"
        ),
        "Demonstrations that succeed (%)": lambda c: percent(c["success_share"]),
        "Pairs solved at the start (%)": lambda c: percent(c["trivial_share"]),
        "Action mean": lambda c: numbers(*c["action_mean"]),
        "Action std": lambda c: numbers(*c["action_std"]),
        "Action autocorrelation, lag 1": lambda c: numbers(c["action_autocorrelation"][0]),
        "Image side (px)": lambda c: str(c["image_size"]),
        "Renderer against the library's (of 255; mean, most)": lambda c: (
            f"{numbers(c['renderer_difference']['mean'])}, {number(c['renderer_difference']['max'], 0)}"
        ),
        "sha256 (first 12)": lambda c: c["sha256"][:12],
    }
    cards = [inputs.cards.get(env) for env in ENVS]
    body = [[label, *(_card_text(card, text) for card in cards)] for label, text in lines.items()]
    return captioned(inputs, "data", ["Property", *ENVS.values()], body)


def _card_text(card: dict | None, text) -> str:
    if card is None:
        return NOT_RUN
    try:
        return text(card)
    except (KeyError, IndexError, TypeError):  # a card may leave a property out
        return "–"
