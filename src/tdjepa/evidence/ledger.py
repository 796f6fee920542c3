"""The ledger of the paper's claims (paper/claims.yaml), and what was found of them (claims.json).

A claim is data: words of our own, its place in the paper, and one or several tests. The head of that file says what a test is.
"""

from collections.abc import Mapping
from pathlib import Path

from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError
from tdjepa.config.records.base import ENVS
from tdjepa.config.yaml_file import read_yaml

VERDICTS = ("contradicted", "not run", "inconclusive", "reproduced")  # of several tests, the first of these decides
RELATIONS = {"above": ">", "below": "<", "at_least": ">=", "at_most": "<=", "near": "="}
SIZED = ("at_least", "at_most", "near")  # the others compare with zero
VALUES = ("success", "before_contact", "after_contact")
CELL_KEYS = {"env", "method", "cost", "solver", "w", "alpha", "refinements", "setting", "epoch"}
CELL_KEYS |= {"share", "value", "starts", "ours"}
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
        problem = "the id is there twice" if name in seen else _problem(claim)
        seen.add(name)
        if problem:
            raise UserError(f"{path}: {name}: {problem}")
    return ledger


def _problem(claim) -> str:
    if not isinstance(claim, dict) or set(claim) - {"absolute"} != {"id", "claim", "place", "tests"}:
        return "id, claim, place and tests are expected, perhaps absolute, and nothing else"
    if claim.get("absolute", True) is not True:
        return f"absolute is true or left out, found {claim['absolute']!r}"
    return next(filter(None, map(_test_problem, claim["tests"])), "")


def _test_problem(test: Mapping) -> str:
    if set(test) - TEST_KEYS or not {"env", "sum", "is"} <= set(test):
        return f"a test has env, sum, is and perhaps size; found {', '.join(map(str, test))}"
    terms = [term for _, term in test["sum"]]
    for env in (test["env"], *(term["env"] for term in terms if "env" in term)):
        if env not in ENVS:
            return f"env {env!r} is not one of {', '.join(ENVS)}"
    if test["is"] not in RELATIONS:
        return f"is {test['is']!r} is not one of {', '.join(RELATIONS)}"
    if (test["is"] in SIZED) != ("size" in test):
        return f"a size belongs to {', '.join(SIZED)}, and each of these needs one"
    for term in terms:
        allowed = PAIR_KEYS if of_pairs(term) else CELL_KEYS
        if set(term) - allowed:
            return f"unknown key {sorted(set(term) - allowed)[0]!r}; allowed: {', '.join(sorted(allowed))}"
        if term.get("value", "success") not in VALUES:
            return f"value {term['value']!r} is not one of {', '.join(VALUES)}"
        if "alpha" in term and "setting" not in term:
            return "alpha needs a setting: the protocol's cells have an alpha too"
    return "one test cannot add success rates and correlations" if len(set(map(of_pairs, terms))) > 1 else ""


def of_pairs(term: Mapping) -> bool:
    return "rank" in term or "rise" in term


def unit(test: Mapping) -> str:
    """Of a test's effect: percentage points, correlations, or what the learned distance counts in."""
    term = test["sum"][0][1]
    return "ρ" if "rank" in term else "d_ψ" if "rise" in term else "points"


def under(test: Mapping, protocol: str) -> list:
    """The weighted sum of a test with the methods that a protocol compares."""
    out = []
    for coefficient, term in test["sum"]:
        plain = {key: value for key, value in term.items() if key != "ours"}
        other = {"method": term["ours"]} if protocol == "ours" and "ours" in term else {}
        out.append([coefficient, plain | other])
    return out


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
    return f"{test['env']}: {text} {RELATIONS[test['is']]} {test.get('size', 0):g}"


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


def stored(path: str | Path) -> list[dict]:
    """What claims.json holds; an unknown verdict or a missing one is an error, not a blank."""
    judged = read_json(path)
    for claim in judged if isinstance(judged, list) else [None]:
        claim = claim if isinstance(claim, dict) else {"id": claim}
        found = [claim[by].get("verdict") if isinstance(claim.get(by), dict) else None for by in ("paper", "ours")]
        if not {"id", "claim"} <= set(claim) or not set(found) <= set(VERDICTS):
            wanted = f"id, claim, and in paper and ours a verdict are expected ({', '.join(reversed(VERDICTS))})"
            raise UserError(f"{path}: claim {claim.get('id')!r}: {wanted}; rerun the step that makes this file")
    return judged
