"""The ledger of the paper's claims and a verdict on each, under the paper's protocol and under ours.

A claim is data (paper/claims.yaml): words of our own, its place in the paper, and one or several tests that decide it. A
test names an environment, a weighted sum of cells (success or failures by phase, in points) or of pair statistics
(correlations), and what the paper says of it:

    above      greater than zero                 reproduced when the interval lies above zero
    below      less than zero                    reproduced when the interval lies below zero
    not_below  no worse than zero by a margin    reproduced when the interval lies above minus the margin
    near       of a certain size                 reproduced when that size is in an interval that leaves out zero

A cell may name another method that stands for it under our protocol (`ours`), where the paper's choice is not a fair one.

Contradicted means that the interval leaves no room for the claim, inconclusive that it leaves room for both, not run that
rows are missing. A claim of several tests is reproduced when all are and contradicted when one is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tdjepa.artefacts import write_json
from tdjepa.errors import UserError
from tdjepa.evidence import alignment
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.effects import VALUES, Effect, Evidence, of_cells, of_pairs
from tdjepa.evidence.judge import rounded
from tdjepa.evidence.names import FLOORS
from tdjepa.evidence.paired import holm
from tdjepa.params import ENVS, Judge, read_yaml

VERDICTS = ("contradicted", "not run", "inconclusive", "reproduced")  # of several tests, the first of these decides
DIRECTIONS = ("above", "below", "not_below", "near")
CELL_KEYS = {
    "method",
    "cost",
    "solver",
    "w",
    "alpha",
    "refinements",
    "setting",
    "epoch",
    "share",
    "value",
    "starts",
    "ours",
}
PAIR_KEYS = {"method", "split", "rank", "rise"}
TEST_KEYS = {"env", "sum", "is", "margin", "size"}


def read(path: str | Path) -> list[dict]:
    """The ledger, checked: an unknown key would silently test something else."""
    ledger = read_yaml(path)
    if not isinstance(ledger, list) or not ledger:
        raise UserError(f"{path}: a list of claims is expected")
    seen = set()
    for number, claim in enumerate(ledger, 1):
        name = claim.get("id", f"claim {number}") if isinstance(claim, dict) else f"claim {number}"
        problem = _problem(claim)
        if name in seen:
            problem = "the id is there twice"
        seen.add(name)
        if problem:
            raise UserError(f"{path}: {name}: {problem}")
    return ledger


def _problem(claim) -> str:
    if not isinstance(claim, dict) or set(claim) != {"id", "claim", "place", "tests"}:
        return "id, claim, place and tests are expected, and nothing else"
    for test in claim["tests"]:
        if set(test) - TEST_KEYS or not {"env", "sum", "is"} <= set(test):
            return f"a test has env, sum, is and perhaps margin or size; found {', '.join(map(str, test))}"
        if test["env"] not in ENVS:
            return f"env {test['env']!r} is not one of {', '.join(ENVS)}"
        if test["is"] not in DIRECTIONS:
            return f"is {test['is']!r} is not one of {', '.join(DIRECTIONS)}"
        if test["is"] == "near" and "size" not in test:
            return "near needs a size"
        for _, term in test["sum"]:
            allowed = PAIR_KEYS if _of_pairs(term) else CELL_KEYS
            if set(term) - allowed:
                return f"unknown key {sorted(set(term) - allowed)[0]!r}; allowed: {', '.join(sorted(allowed))}"
            if term.get("value", "success") not in VALUES:
                return f"value {term['value']!r} is not one of {', '.join(VALUES)}"
        if len({_of_pairs(term) for _, term in test["sum"]}) > 1:
            return "one test cannot add success rates and correlations"
    return ""


def _of_pairs(term: Mapping) -> bool:
    return "rank" in term or "rise" in term


def verdict(effect: Effect | None, test: Mapping) -> str:
    """What an interval says to a test."""
    if effect is None:
        return "not run"
    if effect.low is None:
        return "inconclusive"
    low, high, direction = effect.low, effect.high, test["is"]
    if direction == "below":
        low, high = -high, -low
    if direction == "near":
        if not low <= test["size"] <= high:
            return "contradicted"
        return "inconclusive" if low <= 0 <= high else "reproduced"
    bound = -test.get("margin", 0) if direction == "not_below" else 0
    if low > bound or (direction == "not_below" and low >= bound):
        return "reproduced"
    return "contradicted" if high < bound else "inconclusive"


def run(
    ledger: str | Path,
    rows: Sequence[str | Path],
    pairs: Sequence[str | Path],
    out: str | Path,
    settings: Judge,
    train_seed: int | None = None,
) -> list[dict]:
    """Judge the ledger on these files and write out/claims.json. Without a training seed, the rows' first is the paper's."""
    claims = read(ledger)
    frame = evaluation_rows.read(rows)
    if train_seed is None:
        trained = frame[~frame["method"].isin(FLOORS)]["train_seed"]
        train_seed = int(trained.min()) if len(trained) else 0
    evidence = Evidence(frame, alignment.last(alignment.read(pairs)), settings.seed, settings.bootstrap, settings.level)
    judged = judge(claims, evidence, train_seed)
    write_json(Path(out, "claims.json"), judged)
    return judged


def judge(ledger: Sequence[Mapping], evidence: Evidence, train_seed: int) -> list[dict]:
    """The content of claims.json: the ledger with a verdict on each claim."""
    out = []
    for claim in ledger:
        tests = [_effects(evidence, test, train_seed) for test in claim["tests"]]
        out.append(
            {
                "id": claim["id"],
                "claim": claim["claim"],
                "place": claim["place"],
                "comparison": "; ".join(describe(test) for test in claim["tests"]),
                "paper": _decide([(test, papers) for test, (papers, _) in zip(claim["tests"], tests, strict=True)]),
                "ours": _decide([(test, ours) for test, (_, ours) in zip(claim["tests"], tests, strict=True)]),
            }
        )
    for entry in out:
        entry["unit"] = entry["ours"]["unit"]  # of the test that decides
    tested = [entry["ours"] for entry in out if entry["ours"]["p"] is not None]
    for entry in out:
        entry["ours"]["p_holm"] = None
    for ours, p in zip(tested, holm([ours["p"] for ours in tested]), strict=True):
        ours["p_holm"] = float(p)
    return rounded(out)


def _effects(evidence: Evidence, test: Mapping, train_seed: int) -> tuple[Effect | None, Effect | None]:
    """(under the paper's protocol, under ours)"""
    if _of_pairs(test["sum"][0][1]):
        return of_pairs(evidence, test["env"], test["sum"]) or (None, None)
    papers, ours = (of_cells(evidence, test["env"], under(test, by), train_seed) for by in ("paper", "ours"))
    return papers and papers[0], ours and ours[1]


def under(test: Mapping, protocol: str) -> list:
    """The weighted sum of a test with the methods that a protocol compares."""
    out = []
    for coefficient, term in test["sum"]:
        plain = {key: value for key, value in term.items() if key != "ours"}
        other = {"method": term["ours"]} if protocol == "ours" and "ours" in term else {}
        out.append([coefficient, plain | other])
    return out


def _decide(tests: list[tuple[Mapping, Effect | None]]) -> dict:
    """The verdict on all tests together, with the numbers of the one that decides it."""
    parts = [
        {"verdict": verdict(effect, test), "unit": unit(test), **(effect or _NOTHING).as_dict()}
        for test, effect in tests
    ]

    def rank(i):
        sign = -1 if tests[i][0]["is"] == "below" else 1
        effect = parts[i]["effect"]
        return VERDICTS.index(parts[i]["verdict"]), 0.0 if effect is None else sign * effect

    decides = parts[min(range(len(parts)), key=rank)]
    known = [part["p"] for part in parts if part["p"] is not None]
    return {**decides, "p": max(known) if len(known) == len(parts) else None, "parts": parts if len(parts) > 1 else []}


def unit(test: Mapping) -> str:
    """Of a test's effect: correlations or percentage points."""
    return "ρ" if _of_pairs(test["sum"][0][1]) else "points"


_NOTHING = Effect(None, None, None, None)


def describe(test: Mapping) -> str:
    """A test in one line: "push_t: tdjepa l2 - lewm l2 > 0"."""
    if any("ours" in term for _, term in test["sum"]):
        papers, ours = (describe({**test, "sum": under(test, by)}) for by in ("paper", "ours"))
        return f"{papers} (ours: {ours.removeprefix(test['env'] + ': ')})"
    text = ""
    for coefficient, term in test["sum"]:
        named = " ".join(_named(key, value) for key, value in term.items())
        sign = "+" if coefficient > 0 else "-"
        size = "" if abs(coefficient) == 1 else f"{abs(coefficient):g} × "
        text += f" {sign} {size}{named}" if text else f"{'' if coefficient > 0 else '- '}{size}{named}"
    margin = test.get("margin", 0)
    relation = {
        "above": "> 0",
        "below": "< 0",
        "not_below": f">= {-margin:g}" if margin else ">= 0",
        "near": f"= {test.get('size', 0):g}",
    }
    return f"{test['env']}: {text} {relation[test['is']]}"


def _named(key: str, value) -> str:
    if key in ("method", "cost", "solver", "setting"):
        return str(value)
    return {
        "value": f"({str(value).replace('_', ' ')})",
        "starts": f"({value} starts)",
        "split": f"({value} pairs)",
        "rank": f"ρ({value}, τ)",
        "rise": f"rise of {value}",
        "share": f"at {value} of the epochs",
    }.get(key, f"{key}={value:g}" if isinstance(value, int | float) else f"{key}={value}")


MARKS = {"reproduced": "+", "contradicted": "x", "inconclusive": "?", "not run": " "}


def terminal(judged: Sequence[Mapping]) -> str:
    """Two verdicts a claim, the effect under our protocol, and the counts."""
    lines = ["paper         ours          effect [interval], p", ""]
    for claim in judged:
        ours = claim["ours"]
        digits = 2 if claim["unit"] == "ρ" else 1
        effect = ""
        if ours["effect"] is not None:
            effect = f"{ours['effect']:.{digits}f}"
            effect += "" if ours["low"] is None else f" [{ours['low']:.{digits}f}, {ours['high']:.{digits}f}]"
            effect += "" if ours["p_holm"] is None else f", p = {ours['p_holm']:.3g}"
        verdicts = "".join(f"{MARKS[v]} {v:<12}" for v in (claim["paper"]["verdict"], ours["verdict"]))
        lines += [f"{verdicts}{effect}", f"    {claim['claim']} ({claim['place']})"]
    counts = {v: sum(c["ours"]["verdict"] == v for c in judged) for v in reversed(VERDICTS)}
    return "\n".join([*lines, "", "ours: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())])
