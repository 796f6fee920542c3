"""`tdjepa judge`: evaluation rows in, statistics out (stats.json, cells.csv, and metrics.json for `dvc metrics`)."""

import io
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tdjepa.base.artefacts import write_text
from tdjepa.config.names import MAIN
from tdjepa.config.records.evidence import Judge
from tdjepa.evidence import alignment, contact, guard, intervals, moves, paired, summary
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.summary import Cell

CELL_FIELDS = [
    *("id", "env", "method", "solver", "cost", "w", "epoch", "mean", "std", "low", "high", "interval"),
    *(
        "mean_nontrivial",
        "excess_over_random",
        "std_train_seeds",
        "design",
        "setting",
        "refinements",
        "history",
        "candidates",
    ),
    *("alpha", "n_train_seeds", "n_plan_seeds", "n_episodes", "n_trivial", "n_rows", "n_missing"),
]
DIGITS = 6  # significant ones, so that a small p stays a small p


def run(rows: Sequence[str | Path], out: str | Path, settings: Judge, pairs: Sequence[str | Path] = ()) -> dict:
    """Judge all rows together, and the held-out pairs of the diagnostics; write the three files into `out`."""
    guard.require_rows(rows)
    guard.require_folder(out)
    stats = judge(evaluation_rows.read(rows), settings, alignment.read(pairs))
    write_text(Path(out, "stats.json"), one_per_line(stats))
    table = io.StringIO()
    pd.DataFrame(stats["cells"], columns=CELL_FIELDS).to_csv(table, index=False, lineterminator="\n")
    write_text(Path(out, "cells.csv"), table.getvalue())
    write_text(Path(out, "metrics.json"), json.dumps(metrics(stats), indent=1, sort_keys=True) + "\n")
    return stats


def metrics(stats: dict) -> dict:
    """Mean success of the protocol's cells after the last epoch, by environment, method and cost."""
    found: dict = {}
    for cell in sorted(stats["cells"], key=lambda cell: cell["epoch"]):  # so the last epoch stays
        if cell["setting"] == cell["design"] == MAIN:
            found.setdefault(cell["env"], {}).setdefault(cell["method"], {})[cell["cost"]] = cell["mean"]
    return found


def judge(frame: pd.DataFrame, settings: Judge, pairs: pd.DataFrame | None = None) -> dict:
    """The content of stats.json."""
    cells = summary.cells(frame)
    pool = paired.pooled(cells)
    floors = {(cell.env, cell.design): summary.mean(cell.success) for cell in cells if cell.method == "random"}
    found = {
        "scale": frame["scale"].iloc[0] if len(frame) else None,
        **{"seed": settings.seed, "resamples": settings.bootstrap, "level": settings.level},
        "cells": [
            _describe(cell, floors.get((cell.env, cell.design)), expected_trainings(cell, cells), pool, settings.level)
            for cell in cells
        ],
        "comparisons": _comparisons(cells, pool, settings),
        "phases": contact.phases(frame),
        "geometry": contact.geometry(frame),
        "moves": moves.moves(frame),
        "median_start_distance": contact.median_distance(frame),
        "ranks": [] if pairs is None else alignment.spearman(pairs).to_dict("records"),
    }
    return rounded(found)


def _describe(cell: Cell, floor: float | None, expected: set[int], pool: intervals.Pool, level: float) -> dict:
    c = paired.contrast([(1, cell)])
    (group,) = c.groups
    low, high, kind = intervals.of_rate(group.values, c.clusters, paired.spread([c], pool), level)
    text = summary.summarise(cell) | {"missing_trainings": sorted(expected - set(cell.train_seeds.tolist()))}
    excess = None if floor is None else text["mean"] - floor
    return {**text, "low": low, "high": high, "interval": kind, "excess_over_random": excess}


def incomplete(cell: dict) -> list[str]:
    """What a cell of stats.json lacks, in words."""
    found = [f"{cell['n_missing']} of its rows are missing"] if cell["n_missing"] else []
    if cell["missing_trainings"]:
        seeds = ", ".join(map(str, cell["missing_trainings"]))
        found.append(f"trainings {seeds} are missing, which other cells of {cell['method']} have")
    elif cell["n_train_seeds"] == 1 and cell["design"] == cell["setting"] == MAIN and cell["method"] not in UNTRAINED:
        found.append("a single training, so its interval knows only from other methods how trainings vary")
    return found


def expected_trainings(cell: Cell, cells: Sequence[Cell]) -> set[int]:
    """The trainings that the method's other cells of the same design, setting and epoch have: this one should have them."""
    alike = [
        c
        for c in cells
        if all(getattr(c, k) == getattr(cell, k) for k in ("env", "method", "design", "setting", "epoch"))
    ]
    return {seed for c in alike for seed in c.train_seeds.tolist()}


def _comparisons(cells: Sequence[Cell], pool: intervals.Pool, settings: Judge) -> list[dict]:
    """Of every two cells of an environment and a design, without those of two different sweeps."""
    out = []
    for a, b in itertools.combinations(cells, 2):
        if (a.env, a.design) == (b.env, b.design) and (a.setting == b.setting or MAIN in (a.setting, b.setting)):
            out.append(paired.compare(a, b, pool, settings.level, settings.seed))
    return list(filter(None, out))


def rounded(value):
    """Floats at DIGITS significant digits, NaN as None: the same bytes wherever the last bits differ."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None
    return value


def one_per_line(stats: dict) -> str:
    """JSON with one record per line: small, and Git shows which cell changed."""
    parts = []
    for key, value in sorted(stats.items()):
        text = json.dumps(value, sort_keys=True)
        if value and isinstance(value, list):
            text = "[\n" + ",\n".join(f"  {json.dumps(item, sort_keys=True)}" for item in value) + "\n ]"
        parts.append(f' "{key}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"
