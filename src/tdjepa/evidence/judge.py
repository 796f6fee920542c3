"""`tdjepa judge`: evaluation rows in, statistics out (stats.json, cells.csv, and metrics.json for `dvc metrics`).

Holm's correction counts the questions that are asked together, not the cells that happen to lie in a file: two methods, two
plan costs of one method, a method against a floor, and so on (`family`), in each environment by itself. So neither an epoch
curve nor a leaky training costs the main comparison power.
"""

import io
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tdjepa.base.artefacts import write_text
from tdjepa.config.names import LEAKY, MAIN, SIMULATOR
from tdjepa.config.records.evidence import Judge
from tdjepa.evidence import alignment, bootstrap, contact, guard, paired, summary
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.summary import Cell

CELL_FIELDS = [
    *("id", "env", "method", "solver", "cost", "w", "epoch", "mean", "std", "low", "high", "interval"),
    *("mean_nontrivial", "excess_over_random", "std_train_seeds", "setting", "refinements", "history", "candidates"),
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
        if cell["setting"] == MAIN:
            found.setdefault(cell["env"], {}).setdefault(cell["method"], {})[cell["cost"]] = cell["mean"]
    return found


def judge(frame: pd.DataFrame, settings: Judge, pairs: pd.DataFrame | None = None) -> dict:
    """The content of stats.json."""
    cells = summary.cells(frame)
    resampled = paired.Resampled(settings.seed, settings.bootstrap)
    floors = {cell.env: summary.mean(cell.success) for cell in cells if cell.method == "random"}
    found = {
        "scale": frame["scale"].iloc[0] if len(frame) else None,
        **{"seed": settings.seed, "resamples": settings.bootstrap, "level": settings.level},
        "cells": [_describe(cell, floors.get(cell.env), resampled, settings.level) for cell in cells],
        "comparisons": _comparisons(cells, resampled, settings.level),
        "phases": contact.phases(frame),
        "geometry": contact.geometry(frame),
        "median_start_distance": contact.median_distance(frame),
        "ranks": [] if pairs is None else alignment.spearman(pairs).to_dict("records"),
    }
    return rounded(found)


def _describe(cell: Cell, floor: float | None, resampled: paired.Resampled, level: float) -> dict:
    c = paired.contrast([(1, cell)])
    (group,) = c.groups
    low, high, kind = bootstrap.interval(group.values, c.clusters, resampled.means(c), level)
    text = summary.summarise(cell)
    excess = None if floor is None else text["mean"] - floor
    return {**text, "low": low, "high": high, "interval": kind, "excess_over_random": excess}


def _comparisons(cells: Sequence[Cell], resampled: paired.Resampled, level: float) -> list[dict]:
    out = []
    for _, of_env in itertools.groupby(cells, key=lambda cell: cell.env):
        of_env = list(of_env)
        last = {cell.method: max(c.epoch for c in of_env if c.method == cell.method) for cell in of_env}
        families: dict[str, list[dict]] = {}
        for a, b in itertools.combinations(of_env, 2):
            if a.setting != b.setting and MAIN not in (a.setting, b.setting):
                continue  # two different sweeps
            if found := paired.compare(a, b, resampled, level):
                families.setdefault(family(a, b, last), []).append(found)
        for name, found in families.items():
            corrected = paired.holm([comparison["p_permutation"] for comparison in found])
            out += [{**f, "family": name, "p_holm": float(p)} for f, p in zip(found, corrected, strict=True)]
    return out


def family(a: Cell, b: Cell, last: dict[str, int]) -> str:
    """What kind of question a against b is; `last` is the last epoch of each method."""
    if SIMULATOR in (a.method, b.method):
        return "ceiling"
    if any(cell.method.endswith(LEAKY) for cell in (a, b)):
        twins = a.method != b.method and a.method.removesuffix(LEAKY) == b.method.removesuffix(LEAKY)
        return "leak" if twins and a.cost == b.cost and a.epoch == b.epoch else "leaky"
    if any(cell.setting != MAIN for cell in (a, b)):
        return "sweeps"
    if any(cell.trained and cell.epoch < last[cell.method] for cell in (a, b)):
        return "epochs"
    if not (a.trained and b.trained):
        return "floors"
    return "costs" if a.method == b.method else "methods"


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
