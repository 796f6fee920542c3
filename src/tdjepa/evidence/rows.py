"""Evaluation rows: one line per (checkpoint, planner setting, plan seed, start-goal pair). Everything later is a query
on them, so what is wrong with a file is said here, once, with the file's name."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tdjepa.errors import UserError
from tdjepa.params import ENVS

FLOORS = ("random", "zero", "replay")  # methods without a training: train_seed 0, epoch 0, solver and cost "none", w 1
CELL = ["env", "method", "solver", "cost", "w", "epoch"]
KEY = ["env", "method", "train_seed", "epoch", "solver", "cost", "w", "plan_seed", "episode", "start"]

_TEXT = ("text", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_dictionary(t))
_WHOLE = ("whole numbers", pa.types.is_integer)
_REAL = ("floating-point numbers", pa.types.is_floating)
_TRUTH = ("booleans", pa.types.is_boolean)
COLUMNS = {
    "scale": _TEXT,
    "env": _TEXT,
    "method": _TEXT,
    "train_seed": _WHOLE,
    "epoch": _WHOLE,
    "solver": _TEXT,
    "cost": _TEXT,
    "w": _REAL,
    "plan_seed": _WHOLE,
    "episode": _WHOLE,
    "start": _WHOLE,
    "success": _TRUTH,
    "trivial": _TRUTH,
    "steps": _WHOLE,
}


def read(paths: Sequence[str | Path]) -> pd.DataFrame:
    """All rows of several files, sorted by their key; extra columns are left in the files."""
    if not paths:
        return pd.DataFrame({name: [] for name in COLUMNS})
    rows = pd.concat([_read_one(Path(path)).assign(file=str(path)) for path in paths], ignore_index=True)
    _refuse_duplicates(rows)
    _refuse_mixed_scales(rows)
    return rows.drop(columns="file").sort_values(KEY, kind="stable", ignore_index=True)


def _read_one(path: Path) -> pd.DataFrame:
    try:
        schema = pq.read_schema(path)
        problem = _schema_problem(schema)
        columns = [*COLUMNS, *(["setting"] if "setting" in schema.names else [])]
        table = None if problem else pq.read_table(path, columns=columns, partitioning=None)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the evaluation that makes it (snakemake -n shows which)") from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: not a readable parquet file ({reason}); delete it and rerun its evaluation") from None
    problem = problem or _content_problem(table)
    if problem:
        raise UserError(f"{path}: {problem}; rerun the evaluation that makes this file")
    rows = table.to_pandas()
    return rows[rows.pop("setting") == "main"] if "setting" in rows else rows  # a sweep is not the protocol


def _schema_problem(schema: pa.Schema) -> str:
    missing = [name for name in COLUMNS if name not in schema.names]
    if missing:
        return f"missing column{'s' * (len(missing) > 1)} {', '.join(missing)}"
    for name, (kind, fits) in COLUMNS.items():
        found = schema.field(name).type
        if not fits(found):
            return f"column {name} holds {found}, but {kind} are expected"
    return ""


def _content_problem(table: pa.Table) -> str:
    if table.num_rows == 0:
        return "no rows"
    for name in COLUMNS:
        column = table.column(name)
        if column.null_count or (name == "w" and pc.any(pc.is_nan(column)).as_py()):
            return f"column {name} has empty values"
    unknown = sorted(set(table.column("env").to_pylist()) - set(ENVS))
    if unknown:
        return f"column env holds {unknown[0]!r}, but one of {', '.join(ENVS)} is expected"
    return ""


def _refuse_duplicates(rows: pd.DataFrame) -> None:
    twice = rows[rows.duplicated(KEY, keep=False)]
    if len(twice):
        first = twice.iloc[0]
        same = twice[(twice[KEY] == first[KEY]).all(axis=1)]
        files = " and ".join(dict.fromkeys(same["file"]))
        key = ", ".join(f"{name} {first[name]}" for name in KEY)
        raise UserError(f"{files}: the same row twice ({key}); name every file once and remove stale ones")


def _refuse_mixed_scales(rows: pd.DataFrame) -> None:
    scales = rows.groupby("scale")["file"].first()
    if len(scales) > 1:
        found = ", ".join(f"{scale} ({file})" for scale, file in scales.items())
        raise UserError(f"rows of several scales cannot be judged together: {found}")
