"""The sections of the page, each a piece of HTML from what was read. What was not run says so."""

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tdjepa.report import figures
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import COSTS, ENVS, NOT_RUN, method_label
from tdjepa.report.page import pictures
from tdjepa.report.page.html import Html, element, join, maths
from tdjepa.report.page.trace import cell_name, planner_text
from tdjepa.report.table import RULE, Strong, Table
from tdjepa.report.tables import number

TITLES = {
    "main": "Main comparison",
    "method_comparison": "Methods",
    "literature": "Literature context",
    "phases": "Failures before and after contact",
    "geometry": "Where the agent starts",
    "training_seeds": "Variance between trainings",
    "split_leak": "Leak-free and leaky splits",
    "cost_matrix": "Plan costs on the same checkpoints",
    "navigation": "Navigation: checkpoint or cost?",
    "floors": "Floors and ceilings",
    "rank_epochs": "Rank correlation by epoch",
    "disagreement": "Solved by one and not by the other",
    "probe": "The true state in the latent",
    "rank_split": "Rank correlation with the step gap",
    "data": "Demonstrations",
}
EMPTY = ("", "–", NOT_RUN)
LONG = 48  # characters; a longer text wraps


def title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " ").capitalize())


# Tables ---------------------------------------------------------------------------------------------------------------


def table(made: Table) -> Html:
    """A sortable table; a number that stands for cells is a link to what lies behind it."""
    rows, rule = [], False
    for row in made.body:
        if row is not RULE:
            rows.append(element("tr", _cells(row, made.left), class_="ruled" if rule else None))
        rule = row is RULE
    return sortable(title(made.name), made.head, rows, made.left)


def _cells(row: list[str], left: int) -> list[Html]:
    return [element("th", maths(row[0]), scope="row"), *(_cell(text, i < left) for i, text in enumerate(row[1:], 1))]


def _cell(text: str, is_text: bool) -> Html:
    shown = element("strong", maths(text)) if isinstance(text, Strong) else maths(text)
    cells = getattr(text, "cells", ())
    if cells:
        shown = element("a", shown, href=rows_link(*cells), class_="rows")
    kinds = {"text": is_text or len(text) > LONG, "long": len(text) > LONG, "empty": text in EMPTY}
    return element("td", shown, class_=" ".join(kind for kind, holds in kinds.items() if holds) or None)


def rows_link(*cells: str) -> str:
    return "#rows/" + "|".join(quote(cell, safe="/") for cell in cells)


def sortable(label: str, head: Sequence[str], rows: Sequence[Html], left: int) -> Html:
    heads = [
        element(
            "th",
            element("button", maths(name), type="button"),
            scope="col",
            class_="text" if i < left else None,
            aria_sort="none",
        )
        for i, name in enumerate(head)
    ]
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="sortable")
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def titled(name: str, shown: Html, caption: str) -> Html:
    anchor = name.replace("_", "-")
    heading = element("h3", maths(title(name)), id_=f"{anchor}-title")
    caption_ = element("p", maths(caption), class_="caption")
    return element("section", heading, shown, caption_, id_=f"table-{anchor}", aria_labelledby=f"{anchor}-title")


def cited(made: Sequence[Table]) -> set[str]:
    """The cells that any table shows."""
    texts = (text for t in made for row in t.body if row is not RULE for text in row)
    return {cell for text in texts for cell in getattr(text, "cells", ())}


def every_cell(found: Inputs) -> Html:
    """All cells of stats.json, the epochs of the curves among them."""
    d = found.params.render.digits
    head = ["Environment", "Method", "Plan cost", "Planner", "Epoch", "Success", "±", "Low", "High", "Excess"]
    head += ["Trainings", "Plan seeds", "Pairs", "Rows"]
    rows = []
    for cell in found.stats["cells"]:
        values = [number(cell[name], d) for name in ("std", "low", "high", "excess_over_random")]
        counts = [f"{cell[name]:,}" for name in ("n_train_seeds", "n_plan_seeds", "n_episodes", "n_rows")]
        success = element("a", number(cell["mean"], d), href=rows_link(cell["id"]), class_="rows")
        texts = [
            method_label(found.params, cell["method"]),
            COSTS.get(cell["cost"], "–" if cell["cost"] == "none" else cell["cost"]),
            planner_text(cell),
        ]
        rows.append(
            element(
                "tr",
                element("th", ENVS.get(cell["env"], cell["env"]), scope="row"),
                *(element("td", maths(text), class_="text") for text in texts),
                element("td", cell["epoch"] or "–"),
                element("td", success),
                *(element("td", text, class_="empty" if text in EMPTY else None) for text in values + counts),
                data_cell=cell_name(found, cell),
            )
        )
    return sortable("Every cell", head, rows, left=4)


# Figures and rollouts -------------------------------------------------------------------------------------------------


def all_figures(found: Inputs) -> Html:
    return join(_figure(name, build, found) for name, build in figures.ALL.items())


def _figure(name: str, build, found: Inputs) -> Html:
    caption = (inspect.getdoc(build) or title(name)).replace("d_psi", "d_ψ").replace("l2", "ℓ₂")
    picture = _image(pictures.figure_uri(figures.draw(build, found)), caption)
    return element("figure", picture, element("figcaption", maths(caption)), id_=f"figure-{name}")


def _image(uri: str, alt: str, **attributes) -> Html:
    return Html(element("img", src=uri, alt=alt, **attributes).removesuffix("</img>"))


def rollouts(paths: Sequence[Path], scale: str) -> Html:
    shown, left_out = pictures.rollouts(sorted(paths))
    if not shown and not left_out:
        draw, show = f"snakemake --cores all --config scale={scale} -- pictures", f"tdjepa page --scale {scale}"
        return join([not_run("They are drawn for who asks, and then shown here:"), commands([draw, show])])
    items = [
        element(
            "figure",
            element(
                "button",
                _image(one["still"], "", data_still=one["still"], data_gif=one["gif"]),
                element("span", "▶", class_="play", aria_hidden="true"),
                type="button",
                class_="rollout",
                aria_pressed="false",
                aria_label=f"Play {one['path'].stem}",
            ),
            element("figcaption", one["path"].stem.replace("_", " ")),
        )
        for one in shown
    ]
    rest = element("p", "Left out for their size: ", ", ".join(p.as_posix() for p in left_out), class_="caption")
    return element("div", *items, rest if left_out else None, class_="rollouts")


# Data ----------------------------------------------------------------------------------------------------------


def cards(found: Inputs) -> Html:
    """Every data set's card, whole."""
    known = [(env, found.cards[env]) for env in ENVS if env in found.cards]
    return join(
        element(
            "details",
            element("summary", f"Card of {ENVS[env]}"),
            element("pre", json.dumps(card, indent=1, sort_keys=True, ensure_ascii=False)),
        )
        for env, card in known
    )


def commands(lines: Sequence[str]) -> Html:
    return element("ul", *(element("li", element("code", line)) for line in lines), class_="commands")


def not_run(why: str = "") -> Html:
    return element("p", element("span", NOT_RUN, class_="badge not-run"), " ", why, class_="missing")
