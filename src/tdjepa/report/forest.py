"""All verdicts in one picture: where our interval lies, where the paper's effect lies, and what would mean nothing."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tdjepa.base.figure_files import BLUE, GREEN, GREY, ORANGE
from tdjepa.evidence import headlines
from tdjepa.evidence.verdicts import CONTRADICTED, INCONCLUSIVE, NOT_RUN, PREMISE, REPRODUCED, SAME
from tdjepa.report.inputs import Inputs
from tdjepa.report.style import PAGE, not_run

ROW, EDGE = 0.117, 0.4  # inches per row, and for an axis with its label
REACH = {"points": 45.0, "ρ": 0.45}  # what lies further out is drawn at the edge, with an arrow
AXES = {
    "points": "points on the claim's side of what it is held against",
    "ρ": "correlation",
    "d_ψ": "units of $d_\\psi$",
}
# A colour and a mark for each verdict: the marks tell them apart in grey
LOOK = {REPRODUCED: (BLUE, "o"), CONTRADICTED: (ORANGE, "X"), SAME: (GREEN, "s")}
LOOK |= {INCONCLUSIVE: (GREY, "|"), PREMISE: (GREY, "^"), NOT_RUN: (GREY, "")}


def claims(inputs: Inputs) -> Figure:
    """Every counted claim: our effect with its interval, a hollow diamond for the published effect, a band for differences
    that mean nothing. To the right is as claimed: what is held against a number is drawn from that number, and "less" is
    drawn mirrored. Of a claim with several parts the one that decides. Arrow: further out; star: primary."""
    found = headlines.counted(inputs.claims["claims"])
    by_unit = {unit: [c for c in found if c["unit"] == unit] for unit in AXES}
    themed = {unit: headlines.by_theme(inputs.claims, of_unit) for unit, of_unit in by_unit.items() if of_unit}
    shown = {unit: [row for title, of in themes.items() for row in (title, *of)] for unit, themes in themed.items()}
    if not shown:
        figure = Figure(figsize=(PAGE, 1.2), layout="constrained")
        not_run(figure.subplots())
        return figure
    heights = [ROW * len(rows) + EDGE for rows in shown.values()]
    figure = Figure(figsize=(PAGE, sum(heights) + 0.45), layout="constrained")
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (unit, rows) in zip(axes, shown.items(), strict=True):
        _panel(ax, unit, rows)
    figure.legend(handles=_key(found), loc="outside upper center", ncols=4, columnspacing=1.0, handletextpad=0.4)
    return figure


def _panel(ax: Axes, unit: str, rows: Sequence[str | Mapping]) -> None:
    reach = REACH.get(unit) or 1.1 * max(
        (abs(c["high"]) for c in rows if not isinstance(c, str) and c["high"]), default=1
    )
    for y, row in enumerate(rows):
        if isinstance(row, str):
            ax.text(-0.01, y + 0.15, row, ha="right", va="center", weight="bold", transform=ax.get_yaxis_transform())
        else:
            _claim(ax, y, row, reach)
    ax.axvline(0, color="black", lw=0.7, zorder=1)
    ax.set(xlim=(-reach, reach), ylim=(len(rows) - 0.4, -0.6), xlabel=AXES[unit])
    ax.set_yticks([y for y, row in enumerate(rows) if not isinstance(row, str)])
    ax.set_yticklabels([row["short"] + ("*" if row["primary"] else "") for row in rows if not isinstance(row, str)])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _claim(ax: Axes, y: int, claim: Mapping, reach: float) -> None:
    colour, mark = LOOK[claim["verdict"]]
    if claim["margin"] and (claim["is"] == "equal" or not claim["origin"]):  # not around a rate to be reached
        ax.broken_barh([(-claim["margin"], 2 * claim["margin"])], (y - 0.5, 1), color="0.91", lw=0, zorder=0)
    ends = [on_claims_side(claim, claim[name]) for name in ("low", "high")]
    if None not in ends:
        low, high = (max(-reach, min(reach, end)) for end in sorted(ends))
        ax.hlines(y, low, high, color=colour, lw=1.5, zorder=3)
        for end in (end for end in ends if abs(end) > reach):
            ax.plot(end / abs(end) * reach, y, ">" if end > 0 else "<", color=colour, ms=3.2, clip_on=False, zorder=4)
    effect, published = (on_claims_side(claim, claim[name]) for name in ("effect", "published"))
    if effect is not None and abs(effect) <= reach:
        how = {"mew": 1.3, "ms": 6} if mark == "|" else {"mew": 0.5, "ms": 4.2, "mec": "white"}
        ax.plot(effect, y, mark, color=colour, zorder=5, **how)
    if published is not None:
        outside = abs(published) > reach
        at = published / abs(published) * reach if outside else published
        ax.plot(at, y, "D", mfc="none", mec="black", ms=3.4, mew=0.7, clip_on=False, zorder=6)
    word = ", ".join(filter(None, (claim["verdict"], headlines.size_text(claim))))
    ax.text(1.02, y, word, va="center", fontsize=6.2, color=colour, transform=ax.get_yaxis_transform())


def on_claims_side(claim: Mapping, value: float | None) -> float | None:
    """A value as the picture draws it: from the number that the claim names, and to the right where the claim says."""
    sign = -1 if claim["is"] in ("below", "at_most") else 1
    return None if value is None else sign * (value - claim["origin"])


def _key(found: Sequence[Mapping]) -> list:
    there = {claim["verdict"] for claim in found}
    marks = [
        Line2D([], [], color=colour, marker=mark, lw=1.5, ms=4, label=verdict)
        for verdict, (colour, mark) in LOOK.items()
        if verdict in there and mark
    ]
    hollow = Line2D([], [], color="black", marker="D", mfc="none", lw=0, ms=3.4, mew=0.7, label="published")
    return [*marks, hollow, Patch(color="0.91", lw=0, label="margin: means nothing")]
