"""The ledger of the paper's claims and a verdict on each, under the paper's protocol and under ours.

A claim is data (paper/claims.yaml): words of our own, its place in the paper, and one or several tests that decide it. A
test names an environment, a weighted sum of cells (success or failures by phase, in points) or of pair statistics
(correlations), and what the paper says of it:

    above      greater than zero        reproduced when the interval lies above zero
    below      less than zero           reproduced when the interval lies below zero
    at_least   of a size or more        reproduced when the interval lies at or above that size (-2: no worse by more than 2)
    at_most    of a size or less        reproduced when the interval lies at or below that size
    near       of a certain size        reproduced when that size is in an interval that leaves out zero

A cell may name another method that stands for it under our protocol (`ours`), where the paper's choice is not a fair one,
and another environment (`env`) than the test's.

Contradicted means that the interval leaves no room for the claim, inconclusive that it leaves room for both, not run that
rows are missing. A claim of several tests is reproduced when all are and contradicted when one is. Each of k tests is a
chance to contradict a true claim, so one of them does so only when its interval at the level 1 - (1 - level) / k does too;
a false claim is reproduced only when every false test of its k errs, which needs no such care. Under our protocol a single
training is always inconclusive: nothing in its rows says how another would have come out.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tdjepa.base.artefacts import write_json
from tdjepa.base.errors import UserError
from tdjepa.config.records.base import ENVS
from tdjepa.config.records.evidence import Judge
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence import alignment
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.effects import VALUES, Effect, Evidence, of_cells, of_pairs
from tdjepa.evidence.judge import rounded
from tdjepa.evidence.paired import holm

VERDICTS = ("contradicted", "not run", "inconclusive", "reproduced")  # of several tests, the first of these decides
DIRECTIONS = ("above", "below", "at_least", "at_most", "near")
SIZED = DIRECTIONS[2:]  # the others compare with zero
TRAININGS = {"paper": 1, "ours": 2}  # so many at least, or an interval is none of that protocol
CELL_KEYS = {
    "env",
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
TEST_KEYS = {"env", "sum", "is", "size"}


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
    if not isinstance(claim, dict) or set(claim) - {"absolute"} != {"id", "claim", "place", "tests"}:
        return "id, claim, place and tests are expected, perhaps absolute, and nothing else"
    if claim.get("absolute", True) is not True:
        return f"absolute is true or left out, found {claim['absolute']!r}"
    for test in claim["tests"]:
        if set(test) - TEST_KEYS or not {"env", "sum", "is"} <= set(test):
            return f"a test has env, sum, is and perhaps size; found {', '.join(map(str, test))}"
        for env in (test["env"], *(term["env"] for _, term in test["sum"] if "env" in term)):
            if env not in ENVS:
                return f"env {env!r} is not one of {', '.join(ENVS)}"
        if test["is"] not in DIRECTIONS:
            return f"is {test['is']!r} is not one of {', '.join(DIRECTIONS)}"
        if (test["is"] in SIZED) != ("size" in test):
            return f"a size belongs to {', '.join(SIZED)}, and each of these needs one"
        for _, term in test["sum"]:
            allowed = PAIR_KEYS if _of_pairs(term) else CELL_KEYS
            if set(term) - allowed:
                return f"unknown key {sorted(set(term) - allowed)[0]!r}; allowed: {', '.join(sorted(allowed))}"
            if term.get("value", "success") not in VALUES:
                return f"value {term['value']!r} is not one of {', '.join(VALUES)}"
            if "alpha" in term and "setting" not in term:
                return "alpha needs a setting: the protocol's cells have an alpha too"
        if len({_of_pairs(term) for _, term in test["sum"]}) > 1:
            return "one test cannot add success rates and correlations"
    return ""


def _of_pairs(term: Mapping) -> bool:
    return "rank" in term or "rise" in term


def verdict(effect: Effect | None, test: Mapping, protocol: str) -> str:
    """What an interval says to a test."""
    if effect is None:
        return "not run"
    if effect.low is None or _single(effect, protocol):
        return "inconclusive"
    low, high, direction, bound = effect.low, effect.high, test["is"], test.get("size", 0)
    if direction == "near":
        if not low <= bound <= high:
            return "contradicted"
        return "inconclusive" if low <= 0 <= high else "reproduced"
    if direction in ("below", "at_most"):
        low, high, bound = -high, -low, -bound
    if low > bound or (direction in SIZED and low == bound):
        return "reproduced"
    return "contradicted" if high < bound else "inconclusive"


def _single(effect: Effect, protocol: str) -> bool:
    return effect.n_train is not None and effect.n_train < TRAININGS[protocol]


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
        trained = frame[~frame["method"].isin(UNTRAINED)]["train_seed"]
        train_seed = int(trained.min()) if len(trained) else 0
    evidence = Evidence(frame, alignment.last(alignment.read(pairs)), settings.seed, settings.bootstrap, settings.level)
    judged = judge(claims, evidence, train_seed)
    write_json(Path(out, "claims.json"), judged)
    return judged


def judge(ledger: Sequence[Mapping], evidence: Evidence, train_seed: int) -> list[dict]:
    """The content of claims.json: the ledger with a verdict on each claim."""
    out = []
    for claim in ledger:
        tests = claim["tests"]
        found = [_effects(evidence, test, train_seed) for test in tests]
        strict = found
        if len(tests) > 1:
            strict = [_effects(together(evidence, len(tests)), test, train_seed) for test in tests]
        out.append(
            {
                "id": claim["id"],
                "claim": claim["claim"],
                "place": claim["place"],
                "absolute": claim.get("absolute", False),
                "comparison": "; ".join(describe(test) for test in tests),
                "paper": _decide(tests, [papers for papers, _ in found], [papers for papers, _ in strict], "paper"),
                "ours": _decide(tests, [ours for _, ours in found], [ours for _, ours in strict], "ours"),
            }
        )
    for entry in out:
        entry["unit"] = entry["ours"]["unit"]  # of the test that decides
    _correct([entry["ours"] for entry in out])
    return rounded(out)


def together(evidence: Evidence, tests: int) -> Evidence:
    """The same evidence at the level at which the intervals of so many tests hold together (Bonferroni)."""
    out = copy.copy(evidence)  # cells and draws are shared
    out.level = 1 - (1 - evidence.level) / tests
    return out


def _correct(decided: Sequence[dict]) -> None:
    """Adds p_holm to all claims and their parts: Holm's correction over all tests that have a p, for the one that is shown
    of a claim was picked among its parts. Equal p have equal corrections."""
    tests = [part for claim in decided for part in claim["parts"] or [claim]]
    p = [test["p"] for test in tests if test["p"] is not None]
    corrected = dict(zip(p, holm(p).tolist(), strict=True))
    for claim in decided:
        for part in (claim, *claim["parts"]):
            part["p_holm"] = corrected.get(part["p"])


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


def _decide(
    tests: Sequence[Mapping], effects: Sequence[Effect | None], strict: Sequence[Effect | None], protocol: str
) -> dict:
    """The verdict on all tests together, with the numbers of the one that decides it: of the worst verdict, the one whose
    interval is least on the claim's side. A reproduced claim needs all its tests, so its p is the largest of theirs.
    `strict` has the same effects with the wider intervals of `together`, for contradictions."""
    parts = [_part(test, effect, protocol) for test, effect in zip(tests, effects, strict=True)]
    for part, test, effect in zip(parts, tests, strict, strict=True):
        if part["verdict"] == "contradicted" != verdict(effect, test, protocol):
            part |= {"verdict": "inconclusive", "note": f"one of {len(tests)} tests"}
    order = [
        (VERDICTS.index(part["verdict"]), clearance(e, t)) for part, e, t in zip(parts, effects, tests, strict=True)
    ]
    decides = parts[order.index(min(order))]
    if decides["verdict"] == "reproduced":
        known = [part["p"] for part in parts]
        decides = {**decides, "p": None if None in known else max(known)}
    return {**decides, "parts": parts if len(parts) > 1 else []}


def _part(test: Mapping, effect: Effect | None, protocol: str) -> dict:
    """A test's verdict and numbers. Its p is of "no difference", so a test against a size has none; nor has a protocol
    where it cannot see how trainings differ."""
    part = {"verdict": verdict(effect, test, protocol), "unit": unit(test), **vars(effect or _NOTHING), "note": ""}
    if effect is None:
        return part
    if test["is"] in SIZED or _single(effect, protocol):
        part["p"] = None
    if protocol == "ours" and effect.n_train == 1:
        part["note"] = "one training"
    if protocol == "paper" and effect.n_plan == 1:
        part["note"] = "one plan seed"
    return part


def clearance(effect: Effect | None, test: Mapping) -> float:
    """How far on the claim's side an effect lies, in half-widths of its interval: units differ between tests."""
    if effect is None or effect.low is None:
        return 0.0
    off, half = effect.effect - test.get("size", 0), (effect.high - effect.low) / 2
    off = {"below": -off, "at_most": -off, "near": -abs(off)}.get(test["is"], off)
    return off / half if half > 0 else math.copysign(math.inf, off) if off else 0.0


def unit(test: Mapping) -> str:
    """Of a test's effect: percentage points, correlations, or what the learned distance counts in."""
    term = test["sum"][0][1]
    return "ρ" if "rank" in term else "d_ψ" if "rise" in term else "points"


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
    relation = {"above": ">", "below": "<", "at_least": ">=", "at_most": "<=", "near": "="}
    return f"{test['env']}: {text} {relation[test['is']]} {test.get('size', 0):g}"


def _named(key: str, value) -> str:
    if key in ("env", "method", "cost", "solver"):
        return str(value)
    return {
        "setting": f"(sweep {value})",
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
        digits = 1 if ours["unit"] == "points" else 3
        effect = ""
        if ours["effect"] is not None:
            effect = f"{ours['effect']:.{digits}f}"
            effect += "" if ours["low"] is None else f" [{ours['low']:.{digits}f}, {ours['high']:.{digits}f}]"
            effect += "" if ours["p_holm"] is None else f", p = {ours['p_holm']:.3g}"
            effect += f", {ours['note']}" if ours["note"] else ""
        verdicts = "".join(f"{MARKS[v]} {v:<12}" for v in (claim["paper"]["verdict"], ours["verdict"]))
        lines += [f"{verdicts}{effect}", f"    {claim['claim']} ({claim['place']})"]
    counts = {v: sum(c["ours"]["verdict"] == v for c in judged) for v in reversed(VERDICTS)}
    return "\n".join([*lines, "", "ours: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())])
