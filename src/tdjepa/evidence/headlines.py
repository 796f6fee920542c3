"""What came out, in a few sentences with counts, and on one screen."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tdjepa.evidence.verdicts import CONTRADICTED, DECIDED, INCONCLUSIVE, NOT_RUN, PREMISE, REPRODUCED, SAME, VERDICTS

# Told apart without colour:
MARKS = {REPRODUCED: "✓", CONTRADICTED: "✗", SAME: "=", PREMISE: "○", INCONCLUSIVE: "?", NOT_RUN: "–"}


def counted(claims: Sequence[Mapping]) -> list[Mapping]:
    """Without the claims that restate others: their contrasts would count twice."""
    return [claim for claim in claims if not claim.get("restates")]


def counts(claims: Sequence[Mapping]) -> dict[str, int]:
    """How many counted claims came out how; all verdicts, in their order."""
    found = Counter(claim["verdict"] for claim in counted(claims))
    return {verdict: found[verdict] for verdict in VERDICTS}


def by_theme(found: Mapping, claims: Sequence[Mapping] | None = None) -> dict[str, list[Mapping]]:
    """The claims, or these of them, by the titles of their themes; only themes that have any."""
    claims = found["claims"] if claims is None else claims
    themed = {t["title"]: [c for c in claims if c["theme"] == t["name"]] for t in found["themes"]}
    return {title: of_theme for title, of_theme in themed.items() if of_theme}


def sentences(found: Mapping) -> list[str]:
    """The headlines. Whatever is not decided is counted as open."""
    claims = counted(found["claims"])
    if not claims:
        return []
    primary = [claim for claim in claims if claim["primary"]]
    return [
        f"Of {len(claims)} claims of the paper, {_counted_text(claims)}.",
        f"Of the {len(primary)} primary ones, {_counted_text(primary)}{_seen_text(primary)}.",
        _size_text(claims),
        _paper_text(claims),
    ]


def _counted_text(claims: Sequence[Mapping]) -> str:
    n = counts(claims)
    decided = f"{n[REPRODUCED]} are reproduced, {n[CONTRADICTED]} contradicted, {n[SAME]} show no meaningful difference"
    reasons = f"{n[INCONCLUSIVE]} inconclusive, {n[PREMISE]} with a premise not met, {n[NOT_RUN]} not run"
    open_ones = sum(n[verdict] for verdict in VERDICTS if verdict not in DECIDED)
    return f"{decided} and {open_ones} are open ({reasons})"


def _seen_text(claims: Sequence[Mapping]) -> str:
    seen = [claim["detectable"] for claim in claims if claim["detectable"] is not None]
    if not seen:
        return ""
    return f"; they would have seen differences from {min(seen):.1f} to {max(seen):.1f} points with 80 % power"


def _size_text(claims: Sequence[Mapping]) -> str:
    known = [claim for claim in claims if claim["size_verdict"] and claim["verdict"] in DECIDED]
    found = Counter(claim["size_verdict"] for claim in known)
    smaller = sum(claim["size_note"].startswith("smaller") for claim in known)
    contradicted = f"{found[CONTRADICTED]} do not ({smaller} are smaller)"
    return (
        f"Of the {len(known)} decided ones with a published number, {found[REPRODUCED]} have its size, {contradicted}, "
        f"{found[INCONCLUSIVE]} are open."
    )


def _paper_text(claims: Sequence[Mapping]) -> str:
    spread = [claim for claim in claims if claim["paper"]["low"] is not None]
    n = sum(claim["paper"]["verdict"] == REPRODUCED for claim in spread)
    ours = sum(claim["protocol"]["verdict"] == REPRODUCED for claim in claims)
    return (
        f"By the same rule the paper's own seeds show {n} of the {len(spread)} claims for which it gives a spread; by its "
        f"protocol, one training and its plan seeds, our first training would show {ours} of {len(claims)}."
    )


def size_text(claim: Mapping) -> str:
    """The second verdict, in a word: is the effect as large as published?"""
    if claim["verdict"] not in DECIDED:
        return ""  # what is open has no size
    words = {REPRODUCED: "as large", CONTRADICTED: claim["size_note"].split(" ")[0], INCONCLUSIVE: "size open"}
    return words.get(claim["size_verdict"], "")


def ledger_text(found: Mapping) -> str:
    """Which ledger was judged."""
    commit = found["ledger"]["commit"]
    named = f"commit {commit[:12]}" if len(commit) == 40 else commit
    return f"{found['ledger']['file']}: {named}"


def terminal(found: Mapping) -> str:
    """A line per claim by theme, then the headlines."""
    lines = []
    for title, claims in by_theme(found).items():
        lines += [title]
        for claim in claims:
            verdict = ", ".join(filter(None, (claim["verdict"], size_text(claim))))
            lines.append(f"  {MARKS[claim['verdict']]} {claim['short']:<50} {verdict}")
            lines.append(f"      {' · '.join(filter(None, (numbers(claim), claim['why'])))}")
        lines.append("")
    return "\n".join([*lines, *sentences(found), f"Margins, premises and primary claims: {ledger_text(found)}."])


def numbers(claim: Mapping) -> str:
    """Effect, interval and the published effect; empty when it was not run."""
    digits = 1 if claim["unit"] == "points" else 3
    if claim["effect"] is None:
        return ""
    text = f"{claim['effect']:+.{digits}f}"
    text += "" if claim["low"] is None else f" [{claim['low']:+.{digits}f}, {claim['high']:+.{digits}f}]"
    return text + ("" if claim["published"] is None else f", published {claim['published']:+.{digits}f}")
