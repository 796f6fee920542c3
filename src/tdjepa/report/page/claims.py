"""The claims of the paper with two verdicts each: by the paper's own protocol, and with all sources of variance resampled."""

from tdjepa.base.errors import UserError
from tdjepa.report.labels import NOT_RUN
from tdjepa.report.page.html import Html, element, join, maths
from tdjepa.report.tables import number, p_text

MARKS = {"reproduced": "✓", "contradicted": "✗", "inconclusive": "≈", NOT_RUN: "–"}  # told apart without colour
PROTOCOLS = {"paper": "Paper’s protocol", "ours": "All variance"}
SYMBOLS = {"d_psi": "d_ψ", "l2": "ℓ₂", ">=": "≥", " - ": " − "}
PLOT = 100  # width of the little interval plot, in its own units


def checked(claims, path) -> list[dict]:
    """What claims.json holds; an unknown verdict or a missing one is an error, not a blank."""
    for claim in claims if isinstance(claims, list) else [None]:
        known = isinstance(claim, dict) and {"id", "claim", *PROTOCOLS} <= set(claim)
        if not known or not all(isinstance(claim[p], dict) and claim[p].get("verdict") in MARKS for p in PROTOCOLS):
            name = claim.get("id") if isinstance(claim, dict) else claim
            raise UserError(
                f"{path}: claim {name!r}: id, claim, and in paper and ours a verdict are expected "
                f"({', '.join(MARKS)}); rerun the step that makes this file"
            )
    return claims


def counts(claims: list[dict], protocol: str) -> dict[str, int]:
    return {verdict: sum(claim[protocol]["verdict"] == verdict for claim in claims) for verdict in MARKS}


def badge(verdict: str, text: str | None = None) -> Html:
    mark = element("span", MARKS[verdict], class_="mark", aria_hidden="true")
    return element("span", mark, text or verdict, class_=f"badge {verdict.replace(' ', '-')}")


def section(claims: list[dict], digits: int) -> Html:
    """Buttons that leave one verdict (shown by the script, which makes them work), then the claims."""
    buttons = [
        element("button", badge(v, f"{n} {v}"), type="button", aria_pressed="false", data_verdict=v)
        for v, n in counts(claims, "ours").items()
        if n
    ]
    only = element("p", "Show only ", *buttons, class_="only", hidden=True)
    return join([only, element("ol", *(_claim(claim, digits) for claim in claims), class_="claims")])


def _claim(claim: dict, digits: int) -> Html:
    asked = " · ".join(filter(None, (claim.get("place"), _plain(claim.get("comparison")))))
    verdicts = [_verdict(PROTOCOLS[protocol], claim[protocol], digits) for protocol in PROTOCOLS]
    if all(claim[protocol]["verdict"] == NOT_RUN for protocol in PROTOCOLS):
        verdicts = [element("div", badge(NOT_RUN))]
    return element(
        "li",
        element("div", element("p", maths(claim["claim"])), element("p", maths(asked), class_="asked")),
        element("div", *verdicts, class_="verdicts"),
        id_=f"claim-{claim['id']}",
        data_verdict=claim["ours"]["verdict"],
    )


def _plain(comparison) -> str | None:
    """The deciding comparison in words and symbols; a structured one is spelled out."""
    if isinstance(comparison, dict):
        comparison = ", ".join(f"{name} {value}" for name, value in comparison.items())
    for word, symbol in SYMBOLS.items():
        comparison = comparison and comparison.replace(word, symbol)
    return comparison


def _verdict(title: str, found: dict, digits: int) -> Html:
    effect, low, high = (found.get(name) for name in ("effect", "low", "high"))
    digits = digits if found.get("unit", "points") == "points" else 3  # correlations are small
    p = found.get("p_holm", found.get("p"))
    text = None
    if effect is not None:
        interval = "" if low is None or high is None else f" [{number(low, digits)}, {number(high, digits)}]"
        text = f"{number(effect, digits)}{interval}" + ("" if p is None else f", p {p_text(p)}")
        text += f", {found['note']}" if found.get("note") else ""
    return element(
        "div",
        element("span", title, class_="protocol"),
        badge(found["verdict"]),
        _interval(effect, low, high),
        element("span", text, class_="effect") if text else None,
        class_="verdict",
    )


def _interval(effect, low, high) -> Html | None:
    """Where the interval lies beside zero, each claim on its own scale: units differ between claims."""
    if None in (effect, low, high):
        return None
    reach = max(abs(low), abs(high), abs(effect)) or 1.0

    def x(value: float) -> str:
        return f"{PLOT / 2 * (1 + 0.92 * value / reach):.1f}"

    return element(
        "svg",
        element("line", class_="zero", x1=PLOT / 2, x2=PLOT / 2, y1=0, y2=14),
        element("line", class_="reach", x1=x(low), x2=x(high), y1=7, y2=7),
        element("circle", cx=x(effect), cy=7, r=3),
        class_="interval",
        viewBox=f"0 0 {PLOT} 14",
        aria_hidden="true",
    )
