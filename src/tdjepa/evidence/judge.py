"""`tdjepa judge`: evaluation rows in, statistics out (stats.json and cells.csv).

Every cell and every comparison has its own random stream, named by the cells, so that adding an environment, a method
or an epoch changes no interval of the others.
"""

import io
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tdjepa import params
from tdjepa.artefacts import write_json, write_text
from tdjepa.evidence import bootstrap, paired, summary
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.summary import Cell
from tdjepa.streams import stream

CELL_FIELDS = [
    *("id", "env", "method", "solver", "cost", "w", "epoch"),
    *("mean", "std", "low", "high", "interval", "mean_nontrivial", "excess_over_random"),
    *("n_train_seeds", "n_plan_seeds", "n_episodes", "n_trivial", "n_rows"),
]
DIGITS = 6  # significant ones, so that a small p stays a small p


def run(rows: Sequence[str | Path], out: str | Path, settings: params.Judge) -> dict:
    """Judge all rows together and write out/stats.json and out/cells.csv."""
    stats = judge(evaluation_rows.read(rows), settings)
    write_json(Path(out, "stats.json"), stats)
    table = io.StringIO()
    pd.DataFrame(stats["cells"], columns=CELL_FIELDS).to_csv(table, index=False, lineterminator="\n")
    write_text(Path(out, "cells.csv"), table.getvalue())
    return stats


def judge(frame: pd.DataFrame, settings: params.Judge) -> dict:
    """The content of stats.json."""
    cells = summary.cells(frame)
    described = [_describe(cell, cells, settings) for cell in cells]
    return rounded(
        {
            "scale": frame["scale"].iloc[0] if len(frame) else None,
            "seed": settings.seed,
            "resamples": settings.bootstrap,
            "level": settings.level,
            "cells": described,
            "comparisons": _comparisons(cells, settings),
        }
    )


def _describe(cell: Cell, cells: Sequence[Cell], settings: params.Judge) -> dict:
    rng = stream(settings.seed, "bootstrap", cell.id)
    low, high, kind = bootstrap.interval(cell.success, cell.episodes, rng, settings.bootstrap, settings.level)
    text = summary.summarise(cell)
    floor = next((c for c in cells if c.env == cell.env and c.method == "random"), None)
    excess = None if floor is None else text["mean"] - summary.mean(floor.success)
    return {**text, "low": low, "high": high, "interval": kind, "excess_over_random": excess}


def _comparisons(cells: Sequence[Cell], settings: params.Judge) -> list[dict]:
    out = []
    for _, of_env in itertools.groupby(cells, key=lambda cell: cell.env):
        found = []
        for a, b in itertools.combinations(of_env, 2):
            rng = stream(settings.seed, "paired", a.id, b.id)
            found.append(paired.compare(a, b, rng, settings.bootstrap, settings.level))
        found = [comparison for comparison in found if comparison is not None]
        corrected = paired.holm([comparison["p_permutation"] for comparison in found])
        out += [{**comparison, "p_holm": float(p)} for comparison, p in zip(found, corrected, strict=True)]
    return out


def rounded(value):
    """Floats at DIGITS significant digits, NaN as None: the same bytes wherever the last bits differ."""
    if isinstance(value, dict):
        return {key: rounded(v) for key, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None
    return value
