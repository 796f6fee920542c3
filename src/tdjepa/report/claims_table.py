"""The verdicts as tables: how many of each theme came out how, and claim by claim."""

from collections.abc import Mapping
from dataclasses import replace

from tdjepa.evidence import headlines
from tdjepa.evidence.verdicts import NOT_RUN, SAME, VERDICTS
from tdjepa.report.captions import captioned
from tdjepa.report.inputs import Inputs
from tdjepa.report.phrases import effect_text, number
from tdjepa.report.table import RULE, Strong, Table

SHORT = {SAME: "no difference"}  # where there is little room


def themes(inputs: Inputs) -> Table:
    """Verdicts by theme, then of all counted claims and of the primary ones."""
    found = inputs.claims
    lines = {**headlines.by_theme(found), "All": found["claims"]}
    lines["Primary"] = [claim for claim in found["claims"] if claim["primary"]]
    numbers = {title: headlines.counts(claims).values() for title, claims in lines.items()}
    body = [[title, *map(str, counts), str(sum(counts))] for title, counts in numbers.items()]
    body.insert(-2, RULE)
    if not found["claims"]:
        body = [["the ledger was not judged", *[NOT_RUN] * 7]]
    head = ["Theme", *(verdict.capitalize() for verdict in VERDICTS), "Claims"]
    return captioned(inputs, "themes", head, body)


def claims(inputs: Inputs) -> Table:
    """Verdict, claim, published, ours, what could have been seen, and why it is open."""
    columns, body = 6, []
    for title, of_theme in headlines.by_theme(inputs.claims).items():
        body += [[Strong(title), *[""] * (columns - 1)], *(_line(inputs, claim) for claim in of_theme)]
    body = body or [["the ledger was not judged", NOT_RUN, *["–"] * (columns - 2)]]
    head = ["Claim", "Verdict; size", "Published", "Ours", "Seen from", "Why open, or in what parts"]
    judged = headlines.ledger_text(inputs.claims) if inputs.claims["claims"] else "not judged"
    table = captioned(inputs, "claims", head, body, left=columns, ledger=judged)
    return replace(table, widths={0: 0.315, 5: 0.165}, size="scriptsize")


def _line(inputs: Inputs, claim: Mapping) -> list[str]:
    verdict, unit, digits = claim["verdict"], claim["unit"], inputs.digits
    shown = "; ".join(filter(None, (SHORT.get(verdict, verdict), headlines.size_text(claim))))
    marks = ("*" if claim["primary"] else "") + ("‡" if claim["restates"] else "")
    return [
        claim["short"] + marks,
        shown,
        effect_text(claim["paper"], digits, unit) or "–",
        effect_text(claim, digits, unit) or "–",
        number(claim["detectable"], digits if unit == "points" else 3),
        claim["why"],
    ]
