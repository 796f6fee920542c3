"""The claims of the paper as the page shows them: ours, and beside it what the paper's own seeds and its protocol say."""

from collections.abc import Mapping

from tdjepa.evidence import headlines
from tdjepa.evidence.verdicts import NOT_RUN
from tdjepa.report.phrases import effect_text

BESIDE = {"paper": "Paper’s own seeds", "protocol": "Our first training"}
SYMBOLS = {"d_psi": "d_ψ", "l2": "ℓ₂", ">=": "≥", "<=": "≤", " - ": " − "}
PLOT = 100  # width of the little interval plot, in its own units


def counts(found: Mapping) -> dict[str, int]:
    """How many counted claims came out how; only verdicts that there are."""
    return {verdict: n for verdict, n in headlines.counts(found["claims"]).items() if n}


def themes(found: Mapping, digits: int) -> dict[str, list[dict]]:
    """The claims by theme, as the template shows them."""
    return {title: [_view(claim, digits) for claim in of] for title, of in headlines.by_theme(found).items()}


def _view(claim: Mapping, digits: int) -> dict:
    asked = " · ".join(filter(None, (claim["place"], _plain(claim["comparison"]))))
    lines = [_line("Ours", claim, claim["unit"], digits)]
    beside = {title: claim[name] for name, title in BESIDE.items() if claim[name]["effect"] is not None}
    lines += [_line(title, found, claim["unit"], digits) for title, found in beside.items()]
    run = any(line["verdict"] != NOT_RUN for line in lines)
    notes = [headlines.size_text(claim), claim["why"]]
    notes += ["primary" if claim["primary"] else "", "restates others, not counted" if claim["restates"] else ""]
    return {**claim, "asked": asked, "lines": lines if run else [], "note": " · ".join(filter(None, notes))}


def _plain(comparison: str) -> str:
    """The comparison in words and symbols."""
    for word, symbol in SYMBOLS.items():
        comparison = comparison.replace(word, symbol)
    return comparison


def _line(title: str, found: Mapping, unit: str, digits: int) -> dict:
    ends, plot = [found[name] for name in ("low", "effect", "high")], None
    if None not in ends:  # each on its own scale around zero: units differ between claims
        reach = max(map(abs, ends)) or 1.0
        plot = [f"{PLOT / 2 * (1 + 0.92 * value / reach):.1f}" for value in ends]
    return {"title": title, "verdict": found["verdict"], "text": effect_text(found, digits, unit), "plot": plot}
