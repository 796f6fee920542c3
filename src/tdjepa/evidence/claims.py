"""`tdjepa claims`: a verdict on each claim of the ledger (ledger.py) by the rules of verdicts.py.

Ours: the main design, every training. Beside it what the paper's own seeds say (papers_own.py), and what our first training says
under the paper's protocol. One training alone decides nothing under ours. A claim of k tests is reproduced when all are; one of
them goes against the claim only at the level 1 - (1 - level) / k, because each is another chance to go against a true one.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

from tdjepa.base.artefacts import write_json
from tdjepa.base.errors import UserError
from tdjepa.config.records.evidence import Judge
from tdjepa.evidence import alignment, guard, headlines, ledger, papers_own, verdicts
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.effects import Effect, Evidence, detectable, of_cells, of_pairs
from tdjepa.evidence.judge import rounded
from tdjepa.evidence.ledger import Ledger
from tdjepa.evidence.verdicts import CONTRADICTED, INCONCLUSIVE, NOT_RUN, PREMISE, SAME
from tdjepa.evidence.wording import cell_name, describe

NUMBERS = ("effect", "low", "high", "n_train", "n_plan", "error", "freedom")  # of a test
TRAININGS = 2  # so many at least, or an interval says nothing of trainings
Paths = Sequence[str | Path]
Effects = Sequence[Effect | None]


def run(path: Path, rows: Paths, pairs: Paths, out: Path, settings: Judge, train_seed: int | None = None) -> dict:
    """Judge a ledger on these files and write out/claims.json. Without a training seed, the rows' first is the paper's."""
    declared = ledger.read(path)
    guard.require_rows(rows)
    guard.require_folder(out)
    frame = evaluation_rows.read(rows)
    if train_seed is None:
        trained = frame[~frame["method"].isin(UNTRAINED)]["train_seed"]
        train_seed = int(trained.min()) if len(trained) else 0
    evidence = Evidence(frame, alignment.last(alignment.read(pairs)), settings.seed, settings.bootstrap, settings.level)
    themes = [{"name": name, "title": title} for name, title in declared.themes.items()]  # in their order
    found = {"ledger": ledger.source(path), "themes": themes, "claims": judge(declared, evidence, train_seed)}
    write_json(Path(out, "claims.json"), found)
    return found


def judge(declared: Ledger, evidence: Evidence, train_seed: int) -> list[dict]:
    """The claims with a verdict on each."""
    premises = {name: _premise(evidence, p, train_seed) for name, p in declared.premises.items()}
    found = [_judged(claim, evidence, train_seed, premises) for claim in declared.claims]
    return rounded([{**entry, "primary": entry["id"] in declared.primary} for entry in found])


def _judged(claim: Mapping, evidence: Evidence, train_seed: int, premises: Mapping[str, str]) -> dict:
    tests, names = claim["tests"], ("id", "theme", "short", "claim", "place")
    effects = strict = [_effects(evidence, test, train_seed) for test in tests]
    if len(tests) > 1:
        strict = [_effects(together(evidence, len(tests)), test, train_seed) for test in tests]
    protocol, ours = ([both[i] for both in effects] for i in (0, 1))
    published = [papers_own.effect(test, evidence.level) for test in tests]
    parts = [_part(evidence, *of_test) for of_test in zip(tests, ours, [s[1] for s in strict], published, strict=True)]
    clear = [verdicts.clearance(e, t) for e, t in zip(ours, tests, strict=True)]
    which = verdicts.deciding([part["verdict"] for part in parts], clear)
    entry = {**{name: claim[name] for name in names}, "restates": claim.get("restates", []), **parts[which]}
    if len(parts) > 1:
        entry |= {"why": _of_parts(parts, entry), **_worst_size(parts)}
    unmet = list(filter(None, (premises[name] for name in ledger.premises_of(claim))))
    if unmet and entry["verdict"] != NOT_RUN:
        entry |= {
            "verdict": PREMISE,
            "why": unmet[0],
            "size_verdict": entry["size_verdict"] and PREMISE,
            "size_note": "",
        }
    others = {"paper": published, "protocol": protocol}
    entry |= {name: _beside(tests, found, which) for name, found in others.items()}
    return {**entry, "comparison": "; ".join(map(describe, tests)), "parts": parts if len(parts) > 1 else []}


def together(evidence: Evidence, tests: int) -> Evidence:
    """The same evidence at the level at which the intervals of so many tests hold together (Bonferroni)."""
    out = copy.copy(evidence)  # cells and draws are shared
    out.level = 1 - (1 - evidence.level) / tests
    return out


def _effects(evidence: Evidence, test: Mapping, train_seed: int) -> tuple[Effect | None, Effect | None]:
    """(our first training under the paper's protocol, ours)"""
    if ledger.of_pairs(test["sum"][0][1]):
        return of_pairs(evidence, test["env"], test["sum"]) or (None, None)
    return of_cells(evidence, test["env"], test["sum"], train_seed) or (None, None)


def _premise(evidence: Evidence, premise: Mapping, train_seed: int) -> str:
    """Why a premise is not met; empty when it is. The estimate decides."""
    test = premise["test"]
    _, found = _effects(evidence, test, train_seed)
    if found is None:
        return f"needs {premise['says']}; {_missing(evidence, test)}"
    return "" if verdicts.holds(found.effect, test) else f"needs {premise['says']}; found {found.effect:.0f}"


def _part(
    evidence: Evidence, test: Mapping, found: Effect | None, strict: Effect | None, published: Effect | None
) -> dict:
    """A test's verdicts and numbers. `strict` is the same effect with the wider interval of `together`."""
    single = found is not None and found.n_train is not None and found.n_train < TRAININGS
    verdict = INCONCLUSIVE if single else verdicts.direction(found, test)
    size, how = verdicts.size(found, published and published.effect, test)
    size, how = (INCONCLUSIVE, "") if single and size else (size, how)
    part = {"verdict": verdict, "size_verdict": size, "size_note": how, "unit": ledger.unit(test)}
    part |= {"published": published and published.effect, "bound": test["bound"], "margin": test["margin"]}
    part |= {"is": test["is"], "origin": test.get("size", 0)}
    part |= {name: getattr(found, name, None) for name in NUMBERS}
    part |= {"detectable": None, "why": "", "test": describe(test)}
    if found is None:
        return part | {"why": _missing(evidence, test)}
    part["detectable"] = detectable(found, evidence.level)
    if single:
        return part | {"why": "one training"}
    if verdict in (CONTRADICTED, SAME) and verdicts.direction(strict, test) != verdict:
        return part | {"verdict": INCONCLUSIVE, "why": f"{verdict} at this level, not at that of all parts"}
    return part | {"why": _why(part, test)}


def _why(part: Mapping, test: Mapping) -> str:
    """Why a test is open, or what else there is to say to its verdict."""
    if part["verdict"] == SAME:
        return f"within ±{part['margin']:g} {part['unit']}"
    if part["verdict"] != INCONCLUSIVE:
        return ""
    if None in (part["low"], part["detectable"]):
        return "no spread"
    if test["is"] == "equal" and part["high"] - part["low"] > 2 * part["margin"]:
        return f"interval wider than ±{part['margin']:g}"
    published, digits = part["published"], 1 if part["unit"] == "points" else 3
    if test["is"] != "equal" and published is not None and abs(published - part["bound"]) < part["detectable"]:
        needed = verdicts.shown_from(test, part["detectable"])
        if len(test["sum"]) == 1 and part["unit"] == "points" and not 0 <= needed <= 100:  # of a rate
            return "interval too wide for any rate"
        return f"shown {'up to' if test['is'] in ('below', 'at_most') else 'from'} {needed:.{digits}f}"
    return "interval holds both"


def _missing(evidence: Evidence, test: Mapping) -> str:
    """Which cell of a test has no rows."""
    for _, term in test["sum"]:
        env, plain = term.get("env", test["env"]), {k: v for k, v in term.items() if k not in ("env", *ledger.STRATA)}
        if ledger.of_pairs(term) or evidence.cell(env, plain) is None:
            return f"no rows of {env} {cell_name(term)}"
    return "no pairs that all its cells have"


def _of_parts(parts: Sequence[Mapping], decides: Mapping) -> str:
    """How many parts have the verdict of the one that decides, and what is to say to that one."""
    n = sum(part["verdict"] == decides["verdict"] for part in parts)
    every = "both" if n == 2 else f"all {n}"
    text = f"{every if n == len(parts) else f'{n} of {len(parts)}'} parts"
    return f"{text}: {decides['why']}" if decides["why"] else text


def _worst_size(parts: Sequence[Mapping]) -> dict:
    """Of several published numbers the worst verdict; the note says how many parts have it."""
    known = [part for part in parts if part["size_verdict"]]
    if not known:
        return {"size_verdict": None, "size_note": ""}
    worst = min(known, key=lambda part: verdicts.WORST.index(part["size_verdict"]))
    n = sum(part["size_verdict"] == worst["size_verdict"] for part in known)
    note = f"{worst['size_note']} in {n} of {len(known)} parts" if worst["size_note"] else ""
    return {"size_verdict": worst["size_verdict"], "size_note": note}


def _beside(tests: Sequence[Mapping], effects: Effects, which: int) -> dict:
    """A verdict on the same tests from elsewhere, with the numbers of the test that decides under ours."""
    each = [verdicts.direction(effect, test) for effect, test in zip(effects, tests, strict=True)]
    clear = [verdicts.clearance(effect, test) for effect, test in zip(effects, tests, strict=True)]
    shown = {name: getattr(effects[which], name, None) for name in ("effect", "low", "high", "n_plan")}
    return {"verdict": each[verdicts.deciding(each, clear)], **shown}


def show(path: str | Path) -> None:
    """Print the verdicts that are stored, without judging anything anew."""
    if not Path(path).exists():
        raise UserError(f"{path}: no such file: nothing was judged yet; `make reproduce` judges the claims")
    print(headlines.terminal(ledger.stored(path)))
