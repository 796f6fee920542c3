"""Tables that the paper does not have: floors, the spread of trainings, the leak of a random split, data, verdicts."""

from tdjepa.evidence import published
from tdjepa.render.captions import caption
from tdjepa.render.inputs import Inputs, seed_means
from tdjepa.render.labels import ENVS, FLOORS, NOT_RUN, cost_text, method_label, methods, planned_cost
from tdjepa.render.table import RULE, Strong, Table, Traced
from tdjepa.render.texts import difference_text, number, p_text, reproduced_text

VERDICT_MARKS = {"reproduced": "+", "contradicted": "×", "inconclusive": "?", NOT_RUN: "–"}
LEAKY = "_leaky"  # a method of this ending was trained on windows of all episodes, the evaluated ones included


def floors(inputs: Inputs) -> Table:
    """What a score is worth: floors, the replay of the log, and the means without pairs solved at the start."""
    p, d = inputs.params, inputs.params.render.digits
    body = []
    for env in ENVS:
        lines = [(FLOORS[floor], inputs.cell(env, floor)) for floor in FLOORS]
        for m in [m for m in methods(p) if m in p.methods_run]:
            cost = planned_cost(p, env, m)
            lines.append((f"{method_label(p, m)}, {cost_text(p, cost)}", inputs.cell(env, m, cost)))
        if all(cell is None for _, cell in lines):
            body += [[ENVS[env], FLOORS["random"], elsewhere(env), NOT_RUN, "", ""], RULE]
            continue
        for label, cell in lines:
            known = elsewhere(env) if label == FLOORS["random"] else "–"
            rest = [number(cell["mean_nontrivial"], d), number(cell["excess_over_random"], d)] if cell else ["", ""]
            body.append([ENVS[env], label, known, reproduced_text(inputs, cell), *rest])
        body.append(RULE)
    head = ["Environment", "Row", "Published", "Reproduced", "Without trivial pairs", "Excess"]
    return Table("floors", caption(p, "floors"), head, body[:-1], True, left=2)


def elsewhere(env: str) -> str:
    """The random floor that others measured under this protocol."""
    return number(published.load()["floors"]["random"].get(env), 1)


def training_seeds(inputs: Inputs) -> Table:
    """How far trainings differ that differ in nothing but their seed."""
    p, d = inputs.params, inputs.params.render.digits
    seeds = list(p.train_seeds)
    body = []
    for env in ENVS:
        for m in [m for m in methods(p) if m in p.methods_run]:
            cost = planned_cost(p, env, m)
            cell = inputs.cell(env, m, cost)
            by_seed = {} if cell is None else seed_means(cell)
            texts = [number(by_seed[s], d) if s in by_seed else NOT_RUN for s in seeds]
            spread = "" if cell is None else f"{number(cell['std_train_seeds'], d)} / {number(cell['std'], d)}"
            label = f"{method_label(p, m)}, {cost_text(p, cost)}"
            named = Traced(label, cell["id"]) if cell else label
            if cell is not None or env in p.envs:
                body.append([ENVS[env], named, *texts, spread])
    printed = published.trainings()
    if body:
        body.append(RULE)
    for cost, means in printed.items():
        values = list(means.values())
        mean = sum(values) / len(values)
        spread = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
        texts = [number(means.get(s), 1) for s in seeds]
        plan = published.cell("push_t", "tdjepa", cost)["std"]
        body.append(["Push-T", f"TD-JEPA, {cost_text(p, cost)}, published", *texts, f"{spread:.1f} / {plan:.1f}"])
    head = ["Environment", "Method", *(str(seed) for seed in seeds), "Std: trainings / plan seeds"]
    return Table("training_seeds", caption(p, "training_seeds"), head, body, True, left=2)


def split_leak(inputs: Inputs) -> Table:
    """Trained on what is evaluated, or not: rows of the methods `tdjepa_leaky` and `lewm_leaky` beside their own."""
    p = inputs.params
    body = []
    for env in ENVS:
        for m in ("tdjepa", "lewm"):
            cost = planned_cost(p, env, m)
            clean, leaky = inputs.cell(env, m, cost), inputs.cell(env, m + LEAKY, cost)
            if leaky is None and env not in p.envs:
                continue
            label = f"{method_label(p, m)}, {cost_text(p, cost)}"
            gain = difference_text(inputs, inputs.comparison(leaky, clean))
            body.append([ENVS[env], label, reproduced_text(inputs, clean), reproduced_text(inputs, leaky), gain])
    head = ["Environment", "Method", "Split by episode", "Windows at random", "Leak's gain"]
    return Table("split_leak", caption(p, "split_leak"), head, body, True, left=2)


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
    return Table("data", caption(p, "data"), ["Property", *ENVS.values()], body, wide=True)


def _card_text(card: dict | None, text) -> str:
    if card is None:
        return NOT_RUN
    try:
        return text(card)
    except (KeyError, IndexError, TypeError):  # a card may leave a property out
        return "–"


def claims(inputs: Inputs) -> Table:
    """The ledger with its verdicts."""
    p = inputs.params
    body = []
    for i, claim in enumerate(inputs.claims, 1):
        verdicts = [claim["paper"]["verdict"], claim["ours"]["verdict"]]
        texts = [Strong(v) if v in ("reproduced", "contradicted") else v for v in verdicts]
        body.append([str(i), claim["claim"], claim["place"], texts[0], texts[1], effect_text(claim, p.render.digits)])
    if not body:
        body = [["–", "the ledger was not judged", "–", NOT_RUN, NOT_RUN, "–"]]
    head = ["", "Claim", "Place", "Its protocol", "Ours", "Effect, ours"]
    return Table("claims", caption(p, "claims"), head, body, True, left=6, widths={1: 0.40, 2: 0.13})


def effect_text(claim: dict, digits: int) -> str:
    """Effect, interval and p of the test that decides a claim under our protocol."""
    ours = claim["ours"]
    if ours["effect"] is None:
        return "–"
    digits = 2 if claim.get("unit") == "ρ" else digits
    low, high = number(ours["low"], digits), number(ours["high"], digits)
    p = "" if ours.get("p_holm") is None else f", p {p_text(ours['p_holm'])}"
    return f"{number(ours['effect'], digits)} [{low}, {high}]{p}"
