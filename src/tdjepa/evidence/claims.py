"""A verdict on each claim of the ledger (ledger.py), under the paper's protocol and under ours.

Contradicted means that the interval leaves no room for the claim, inconclusive that it leaves room for both, not run that
rows are missing. A claim of k tests is reproduced when all are, and contradicted when one is whose interval at the level
1 - (1 - level) / k says so too. Under our protocol a single training is always inconclusive (docs/statistics.md).
"""

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tdjepa.base.artefacts import write_json
from tdjepa.base.errors import UserError
from tdjepa.config.records.evidence import Judge
from tdjepa.evidence import alignment, guard, ledger
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.effects import Effect, Evidence, of_cells, of_pairs
from tdjepa.evidence.judge import rounded
from tdjepa.evidence.ledger import SIZED, VERDICTS
from tdjepa.evidence.paired import holm

TRAININGS = {"paper": 1, "ours": 2}  # so many at least, or an interval is none of that protocol
MARKS = {"reproduced": "+", "contradicted": "x", "inconclusive": "?", "not run": " "}
_NOTHING = Effect(None, None, None, None)
Paths = Sequence[str | Path]
Effects = Sequence[Effect | None]


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


def run(path: Path, rows: Paths, pairs: Paths, out: Path, settings: Judge, train_seed: int | None = None) -> list[dict]:
    """Judge a ledger on these files and write out/claims.json. Without a training seed, the rows' first is the paper's."""
    claims = ledger.read(path)
    guard.require_rows(rows)
    guard.require_folder(out)
    frame = evaluation_rows.read(rows)
    if train_seed is None:
        trained = frame[~frame["method"].isin(UNTRAINED)]["train_seed"]
        train_seed = int(trained.min()) if len(trained) else 0
    evidence = Evidence(frame, alignment.last(alignment.read(pairs)), settings.seed, settings.bootstrap, settings.level)
    judged = judge(claims, evidence, train_seed)
    write_json(Path(out, "claims.json"), judged)
    return judged


def judge(claims: Sequence[Mapping], evidence: Evidence, train_seed: int) -> list[dict]:
    """The content of claims.json: the claims with a verdict on each."""
    out = []
    for claim in claims:
        tests = claim["tests"]
        found = strict = [_effects(evidence, test, train_seed) for test in tests]
        if len(tests) > 1:
            strict = [_effects(together(evidence, len(tests)), test, train_seed) for test in tests]
        entry = {key: claim[key] for key in ("id", "claim", "place")}
        entry |= {"absolute": claim.get("absolute", False), "comparison": "; ".join(map(ledger.describe, tests))}
        for i, protocol in enumerate(TRAININGS):
            entry[protocol] = _decide(tests, [both[i] for both in found], [both[i] for both in strict], protocol)
        out.append({**entry, "unit": entry["ours"]["unit"]})  # of the test that decides
    _correct([entry["ours"] for entry in out])
    return rounded(out)


def together(evidence: Evidence, tests: int) -> Evidence:
    """The same evidence at the level at which the intervals of so many tests hold together (Bonferroni)."""
    out = copy.copy(evidence)  # cells and draws are shared
    out.level = 1 - (1 - evidence.level) / tests
    return out


def _correct(decided: Sequence[dict]) -> None:
    """Adds p_holm to all claims and their parts: Holm's correction over all tests that have a p."""
    tests = [part for claim in decided for part in claim["parts"] or [claim]]
    p = [test["p"] for test in tests if test["p"] is not None]
    corrected = dict(zip(p, holm(p).tolist(), strict=True))  # equal p have equal corrections
    for claim in decided:
        for part in (claim, *claim["parts"]):
            part["p_holm"] = corrected.get(part["p"])


def _effects(evidence: Evidence, test: Mapping, train_seed: int) -> tuple[Effect | None, Effect | None]:
    """(under the paper's protocol, under ours)"""
    if ledger.of_pairs(test["sum"][0][1]):
        return of_pairs(evidence, test["env"], test["sum"]) or (None, None)
    papers, ours = (of_cells(evidence, test["env"], ledger.under(test, by), train_seed) for by in ("paper", "ours"))
    return papers and papers[0], ours and ours[1]


def _decide(tests: Sequence[Mapping], effects: Effects, strict: Effects, protocol: str) -> dict:
    """The verdict on all tests together, with the numbers of the one that decides it: of the worst verdict, the one whose
    interval is least on the claim's side. A reproduced claim needs all its tests, so its p is the largest of theirs.
    `strict` has the same effects with the wider intervals of `together`, for contradictions."""
    parts = [_part(test, effect, protocol) for test, effect in zip(tests, effects, strict=True)]
    for part, test, effect in zip(parts, tests, strict, strict=True):
        if part["verdict"] == "contradicted" != verdict(effect, test, protocol):
            part |= {"verdict": "inconclusive", "note": f"one of {len(tests)} tests"}
    clear = [clearance(effect, test) for effect, test in zip(effects, tests, strict=True)]
    order = [(VERDICTS.index(part["verdict"]), c) for part, c in zip(parts, clear, strict=True)]
    decides = parts[order.index(min(order))]
    if decides["verdict"] == "reproduced":
        known = [part["p"] for part in parts]
        decides = {**decides, "p": None if None in known else max(known)}
    return {**decides, "parts": parts if len(parts) > 1 else []}


def _part(test: Mapping, effect: Effect | None, protocol: str) -> dict:
    """A test's verdict and numbers. Its p is of "no difference": a test against a size has none, nor has one training."""
    part = {"verdict": verdict(effect, test, protocol), "unit": ledger.unit(test), "note": ""}
    part |= vars(effect or _NOTHING)
    if effect is None:
        return part
    if test["is"] in SIZED or _single(effect, protocol):
        part["p"] = None
    alone = {"ours": (effect.n_train, "one training"), "paper": (effect.n_plan, "one plan seed")}
    n, note = alone[protocol]
    return {**part, "note": note if n == 1 else ""}


def clearance(effect: Effect | None, test: Mapping) -> float:
    """How far on the claim's side an effect lies, in half-widths of its interval: units differ between tests."""
    if effect is None or effect.low is None:
        return 0.0
    off, half = effect.effect - test.get("size", 0), (effect.high - effect.low) / 2
    off = {"below": -off, "at_most": -off, "near": -abs(off)}.get(test["is"], off)
    return off / half if half > 0 else math.copysign(math.inf, off) if off else 0.0


def terminal(judged: Sequence[Mapping]) -> str:
    """Two verdicts per claim, the effect under our protocol, and the counts."""
    lines = [f"{'paper':<16}{'ours':<16}effect [interval], p", ""]
    for claim in judged:
        ours, effect = claim["ours"], ""
        digits = 1 if ours.get("unit", "points") == "points" else 3
        if ours.get("effect") is not None:
            effect = f"{ours['effect']:.{digits}f}"
            effect += "" if ours["low"] is None else f" [{ours['low']:.{digits}f}, {ours['high']:.{digits}f}]"
            effect += "" if ours["p_holm"] is None else f", p = {ours['p_holm']:.3g}"
            effect += f", {ours['note']}" if ours["note"] else ""
        verdicts = "".join(f"{MARKS[v]} {v:<14}" for v in (claim["paper"]["verdict"], ours["verdict"]))
        lines += [f"{verdicts}{effect}".rstrip(), f"    {claim['claim']} ({claim['place']})"]
    counts = {v: sum(c["ours"]["verdict"] == v for c in judged) for v in reversed(VERDICTS)}
    return "\n".join([*lines, "", "ours: " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())])


def show(path: str | Path) -> None:
    """Print the verdicts that are stored, without judging anything anew."""
    if not Path(path).exists():
        raise UserError(f"{path}: no such file: nothing was judged yet; `make reproduce` judges the claims")
    print(terminal(ledger.stored(path)))
