"""The ledger of the paper's claims (paper/claims.yaml), and what was found of them (claims.json).

A claim is data: words of our own, its place in the paper, and one or several tests. The head of that file says what a test is.
"""

import hashlib
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError
from tdjepa.config.records.base import ENVS
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence.verdicts import RELATIONS, VERDICTS

WORDS = 8  # of a claim's short form
SECTIONS = {"margins", "as_good", "primary", "themes", "premises", "claims"}
CLAIM_KEYS, MORE_KEYS = {"id", "theme", "short", "claim", "place", "tests"}, {"premise", "restates"}
VALUES = ("success", "before_contact", "after_contact")
STRATA = {"starts": ("close", "far"), "block": ("near", "far")}
CELL_KEYS = {"env", "method", "cost", "solver", "w", "alpha", "refinements", "setting", "epoch"}
CELL_KEYS |= {"share", "value", "beyond", *STRATA}
PAIR_KEYS = {"method", "split", "rank", "rise"}
SIZED, FIXED = ("at_least", "at_most"), ("as_good",)  # need a size; have none. The others compare with zero or a size
STORED = {
    "id",
    "theme",
    "short",
    "claim",
    "place",
    "published",
    "effect",
    "low",
    "high",
    "unit",
    "verdict",
    "size_verdict",
}
STORED |= {"detectable", "why"}


@dataclass(frozen=True)
class Ledger:
    """Tests and premises with `bound`, what they are held against, and `margin`, what means nothing in their units."""

    claims: list[dict]
    premises: dict[str, dict]  # name -> {says, test}
    themes: dict[str, str]
    primary: tuple[str, ...]


def read(path: str | Path) -> Ledger:
    return checked(read_yaml(path), path)


def checked(found, path: str | Path) -> Ledger:
    """What a file holds as a ledger; an unknown key would silently test something else."""
    if not isinstance(found, dict) or set(found) != SECTIONS:
        raise UserError(f"{path}: the sections {', '.join(sorted(SECTIONS))} are expected, and nothing else")
    for name, problem in _problems(found):
        raise UserError(f"{path}: {name}: {problem}")
    resolved = [{**c, "tests": [_resolved(test, found) for test in c["tests"]]} for c in found["claims"]]
    premises = {name: {**p, "test": _resolved(p["test"], found)} for name, p in found["premises"].items()}
    return Ledger(resolved, premises, found["themes"], tuple(found["primary"]))


def _problems(found: Mapping) -> Iterator[tuple[str, str]]:
    """(where, what is wrong)"""
    margins = found["margins"] or {}
    if not {"rho"} <= set(margins) <= {*ENVS, "rho"}:
        yield "margins", f"rho and environments ({', '.join(ENVS)}) are expected"
    if not all(isinstance(n, int | float) and n > 0 for n in (found["as_good"], *margins.values())):
        yield "margins", "they and as_good are positive numbers"
    for name, premise in found["premises"].items():
        if not isinstance(premise, dict) or set(premise) != {"says", "test"}:
            yield name, "a premise has says and test"
        elif problem := _test_problem(premise["test"], margins):
            yield name, problem
    ids: set[str] = set()
    for number, claim in enumerate(found["claims"], 1):
        name = claim.get("id", f"claim {number}") if isinstance(claim, dict) else f"claim {number}"
        if problem := "the id is there twice" if name in ids else _claim_problem(claim, found):
            yield name, problem
        ids.add(name)
    listed = [("primary", found["primary"])] + [(c["id"], c.get("restates", ())) for c in found["claims"]]
    for name, others in listed:
        yield from ((name, f"names a claim that is not there: {other!r}") for other in others if other not in ids)
    yield from _counted_twice(found["claims"])


def _claim_problem(claim, found: Mapping) -> str:
    if not isinstance(claim, dict) or set(claim) - MORE_KEYS != CLAIM_KEYS or not claim["tests"]:
        return (
            f"{', '.join(sorted(CLAIM_KEYS))} are expected, perhaps {' and '.join(sorted(MORE_KEYS))}, and nothing else"
        )
    if claim["theme"] not in found["themes"]:
        return f"theme {claim['theme']!r} is not one of {', '.join(found['themes'])}"
    if (words := len(claim["short"].split())) > WORDS:
        return f"short has {words} words, at most {WORDS} are read at a glance"
    for name in premises_of(claim):
        if name not in found["premises"]:
            return f"premise {name!r} is not one of {', '.join(found['premises'])}"
    return next(filter(None, (_test_problem(test, found["margins"]) for test in claim["tests"])), "")


def _test_problem(test: Mapping, margins: Mapping) -> str:
    if not isinstance(test, dict) or set(test) - {"size"} != {"env", "sum", "is"}:
        return "a test has env, sum, is and perhaps size"
    terms = [term for _, term in test["sum"]]
    for env in (test["env"], *(term["env"] for term in terms if "env" in term)):
        if env not in ENVS:
            return f"env {env!r} is not one of {', '.join(ENVS)}"
        if env not in margins:
            return f"margins has no {env}: how many points mean nothing there?"
    if test["is"] not in RELATIONS:
        return f"is {test['is']!r} is not one of {', '.join(RELATIONS)}"
    if (test["is"] in SIZED and "size" not in test) or (test["is"] in FIXED and "size" in test):
        return f"{', '.join(SIZED)} need a size, {', '.join(FIXED)} has none"
    for term in terms:
        allowed = PAIR_KEYS if of_pairs(term) else CELL_KEYS
        if set(term) - allowed:
            return f"unknown key {sorted(set(term) - allowed)[0]!r}; allowed: {', '.join(sorted(allowed))}"
        choices = {"value": VALUES, **STRATA}
        for key in choices.keys() & term.keys():
            if term[key] not in choices[key]:
                return f"{key} {term[key]!r} is not one of {', '.join(choices[key])}"
        if "alpha" in term and "setting" not in term:
            return "alpha needs a setting: the protocol's cells have an alpha too"
    return "one test cannot add success rates and correlations" if len(set(map(of_pairs, terms))) > 1 else ""


def _counted_twice(claims: list[dict]) -> Iterator[tuple[str, str]]:
    """A contrast that two counted claims hold would count twice; so would its reverse."""
    first: dict[frozenset, str] = {}
    for claim in claims:
        for test in claim["tests"] if "restates" not in claim else ():
            for sign in (1, -1):
                terms = [(sign * c, *sorted({"env": test["env"], **term}.items())) for c, term in test["sum"]]
                key = frozenset(terms)
                if first.setdefault(key, claim["id"]) != claim["id"]:
                    yield claim["id"], f"holds a contrast of {first[key]}: say that it restates it, or leave it out"


def _resolved(test: Mapping, found: Mapping) -> dict:
    envs = {test["env"], *(term["env"] for _, term in test["sum"] if "env" in term)}
    margins = {"points": max(found["margins"][env] for env in envs), "ρ": found["margins"]["rho"], "d_ψ": 0.0}
    bound = -found["as_good"] if test["is"] in FIXED else test.get("size", 0)
    return {**test, "bound": bound, "margin": margins[unit(test)]}


def premises_of(claim: Mapping) -> list[str]:
    named = claim.get("premise", [])
    return [named] if isinstance(named, str) else list(named)


def of_pairs(term: Mapping) -> bool:
    return "rank" in term or "rise" in term


def unit(test: Mapping) -> str:
    """Of a test's effect: percentage points, correlations, or what the learned distance counts in."""
    term = test["sum"][0][1]
    return "ρ" if "rank" in term else "d_ψ" if "rise" in term else "points"


def stored(path: str | Path) -> dict:
    """What claims.json holds: {ledger, claims}; an unknown verdict or a missing one is an error, not a blank."""
    found = read_json(path)
    claims = found.get("claims") if isinstance(found, dict) else None
    for claim in claims if isinstance(claims, list) else [None]:
        claim = claim if isinstance(claim, dict) else {"id": claim}
        known = set(claim) >= STORED and {claim["verdict"], claim["size_verdict"]} <= {*VERDICTS, None}
        if not known or claim["verdict"] is None:
            wanted = f"{', '.join(sorted(STORED))} are expected, verdicts are {', '.join(VERDICTS)}"
            raise UserError(f"{path}: claim {claim.get('id')!r}: {wanted}; rerun the step that makes this file")
    return found


def source(path: str | Path) -> dict:
    """Which ledger was judged: its file, its sha256, and the commit that last changed it."""
    path = Path(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    changed, commit = (_git(path, *words) for words in (("status", "--porcelain"), ("log", "-1", "--format=%H")))
    known = "no Git repository" if changed is None else "uncommitted changes" if changed or not commit else commit
    return {"file": path.name, "sha256": digest, "commit": known}


def _git(path: Path, *words: str) -> str | None:
    """What Git says of a file; None where it says nothing."""
    try:
        command = ["git", "-C", str(path.absolute().parent), *words, "--", path.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
