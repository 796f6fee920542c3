"""Cells of stats.json on the page: what they are called, which of them the tables show, and the table of all of them."""

from collections.abc import Sequence
from urllib.parse import quote

from tdjepa.evidence.columns import UNTRAINED
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import COSTS, ENVS, SOLVERS, method_label
from tdjepa.report.phrases import number
from tdjepa.report.table import Table, Traced


def name(found: Inputs, cell: dict) -> str:
    """Two-Room · TD-JEPA · d_ψ, and the epoch where it is not the last."""
    parts = [ENVS.get(cell["env"], cell["env"]), method_label(found.params, cell["method"])]
    if cell["method"] not in UNTRAINED:
        parts.append(COSTS.get(cell["cost"], cell["cost"]))
        if cell["epoch"] != found.params.train.epochs:
            parts.append(f"epoch {cell['epoch']}")
    return " · ".join([*parts, *_sweep(cell)])


def _sweep(cell: dict) -> list[str]:
    """What a sweep's id says beyond that of the published protocol."""
    return cell["id"].split("/")[6:]


def planner_text(cell: dict) -> str:
    if cell["solver"] == "none":
        return "–"
    return ", ".join([SOLVERS.get(cell["solver"], cell["solver"]), f"w = {cell['w']:g}", *_sweep(cell)])


def rows_link(text: Traced) -> str:
    return "#rows/" + "|".join(quote(cell, safe="/") for cell in text.cells)


def cited(made: Sequence[Table]) -> set[str]:
    """The cells that any table shows."""
    texts = (text for table in made for row in table.body if row for text in row)
    return {cell for text in texts for cell in getattr(text, "cells", ())}


def every_cell(found: Inputs) -> Table:
    """All cells, the epochs of the curves among them."""
    d, body = found.digits, []
    for cell in found.stats["cells"]:
        cost = COSTS.get(cell["cost"], "–" if cell["cost"] == "none" else cell["cost"])
        texts = [method_label(found.params, cell["method"]), cost, planner_text(cell), str(cell["epoch"] or "–")]
        values = [number(cell[key], d) for key in ("std", "low", "high", "excess_over_random")]
        counts = [f"{cell[key]:,}" for key in ("n_train_seeds", "n_plan_seeds", "n_episodes", "n_rows")]
        success = Traced(number(cell["mean"], d), cell["id"])
        body.append([ENVS.get(cell["env"], cell["env"]), *texts, success, *values, *counts])
    head = ["Environment", "Method", "Plan cost", "Planner", "Epoch", "Success", "±", "Low", "High", "Excess"]
    return Table("every_cell", "", [*head, "Trainings", "Plan seeds", "Pairs", "Rows"], body, left=4)
