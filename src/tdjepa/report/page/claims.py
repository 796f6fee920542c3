"""The claims of the paper with two verdicts each: by the paper's own protocol, and with all sources of variance resampled."""

from collections.abc import Sequence

from tdjepa.report.labels import NOT_RUN
from tdjepa.report.phrases import effect_text

MARKS = {"reproduced": "✓", "contradicted": "✗", "inconclusive": "≈", NOT_RUN: "–"}  # told apart without colour
PROTOCOLS = {"paper": "Paper’s protocol", "ours": "All variance"}
SYMBOLS = {"d_psi": "d_ψ", "l2": "ℓ₂", ">=": "≥", " - ": " − "}
PLOT = 100  # width of the little interval plot, in its own units


def counts(claims: Sequence[dict]) -> dict[str, int]:
    """How many claims came out how, with all sources of variance; only verdicts that there are."""
    found = [claim["ours"]["verdict"] for claim in claims]
    return {verdict: found.count(verdict) for verdict in MARKS if verdict in found}


def view(claim: dict, digits: int) -> dict:
    """A claim as the template shows it."""
    asked = " · ".join(filter(None, (claim.get("place"), _plain(claim.get("comparison")))))
    verdicts = [_verdict(title, claim[protocol], digits) for protocol, title in PROTOCOLS.items()]
    run = any(found["verdict"] != NOT_RUN for found in verdicts)
    return {**claim, "asked": asked, "verdict": claim["ours"]["verdict"], "verdicts": verdicts if run else []}


def _plain(comparison) -> str | None:
    """The deciding comparison in words and symbols; a structured one is spelled out."""
    if isinstance(comparison, dict):
        comparison = ", ".join(f"{name} {value}" for name, value in comparison.items())
    for word, symbol in SYMBOLS.items():
        comparison = comparison and comparison.replace(word, symbol)
    return comparison


def _verdict(title: str, found: dict, digits: int) -> dict:
    ends, plot = [found.get(name) for name in ("low", "effect", "high")], None
    if None not in ends:  # each on its own scale around zero: units differ between claims
        reach = max(map(abs, ends)) or 1.0
        plot = [f"{PLOT / 2 * (1 + 0.92 * value / reach):.1f}" for value in ends]
    text = effect_text(found, digits, found.get("unit", "points"))
    return {"title": title, "verdict": found["verdict"], "text": text, "plot": plot}
