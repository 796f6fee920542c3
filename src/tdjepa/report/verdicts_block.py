"""verdicts.md, for the README: the headlines, the picture, counts by theme, and every claim for who unfolds it."""

from tdjepa.evidence import headlines
from tdjepa.report import claims_table
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import NOT_RUN
from tdjepa.steps.paths import path


def markdown(found: Inputs) -> str:
    sentences = headlines.sentences(found.claims)
    if not sentences:
        return f"Claims: {NOT_RUN}.\n"
    counts, every = claims_table.themes(found), claims_table.claims(found)
    picture = path("report", found.params.scale, name="figures/claims.png")
    lines = [f"- {sentence}" for sentence in sentences]
    lines += ["", f"![Verdicts, claim by claim]({picture})", "", *counts.to_markdown().splitlines()[:-2]]
    lines += ["", "<details><summary>Every claim</summary>", "", every.to_markdown().strip(), "", "</details>"]
    return "\n".join(lines) + "\n"
