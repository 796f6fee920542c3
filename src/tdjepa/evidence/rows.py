"""Evaluation rows: one line per (checkpoint, planner setting, plan seed, start-goal pair). Everything later is a query
on them, so what is wrong with a file is said here, once, with the file's name."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tdjepa.base.errors import UserError, reason
from tdjepa.config.names import MAIN
from tdjepa.config.records.base import ENVS
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence.columns import CELL, PLANNER, with_planner

KINDS = {
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary),
    "whole numbers": (pa.types.is_integer,),
    "floating-point numbers": (pa.types.is_floating,),
    "numbers": (pa.types.is_integer, pa.types.is_floating),
    "booleans": (pa.types.is_boolean,),
}
COLUMNS, OPTIONAL = read_yaml(Path(__file__).with_name("rows.yaml")).values()
KEY = [*CELL, "train_seed", "plan_seed", "episode", "start"]


def read(paths: Sequence[str | Path]) -> pd.DataFrame:
    """All rows of several files, sorted by their key; columns that nothing here uses are left in the files."""
    if not paths:
        return pd.DataFrame({name: [] for name in (*COLUMNS, *PLANNER)})
    frames = [_read_one(Path(path)).assign(file=str(path)) for path in paths]
    rows = with_planner(pd.concat(frames, ignore_index=True))
    for name, absent in PLANNER.items():
        known = rows[name].fillna(absent)
        rows[name] = known if isinstance(absent, str) else known.astype(type(absent))
    _refuse_duplicates(rows)
    _refuse_mixed(rows, [], "scale", "rows of several scales cannot be judged together")
    _refuse_mixed(rows, ["env", "setting"], "manifest", "rows of several manifests cannot be averaged")
    main = rows["setting"] == MAIN  # one protocol: its cells need no telling apart, and must not differ
    for name in list(PLANNER)[2:]:
        said = rows[main & (rows[name] != PLANNER[name])]
        _refuse_mixed(said, CELL[:7], name, f"one cell of the setting {MAIN} was planned in several ways")
        rows.loc[main, name] = rows[main].groupby(CELL[:7])[name].transform("max")
    return rows.drop(columns="file").sort_values(KEY, kind="stable", ignore_index=True)


def unused_columns(paths: Sequence[str | Path]) -> list[str]:
    """Columns of the files that no statistic looks at; they may hold anything."""
    names = {name for path in paths for name in pq.read_schema(path).names}
    return sorted(names - set(COLUMNS) - set(OPTIONAL))


def _read_one(path: Path) -> pd.DataFrame:
    try:
        schema = pq.read_schema(path)
        problem = _schema_problem(schema)
        wanted = [*COLUMNS, *(name for name in OPTIONAL if name in schema.names)]
        table = None if problem else pq.read_table(path, columns=wanted, partitioning=None)
        frame = None if problem else table.validate(full=True) or table.to_pandas(ignore_metadata=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run the evaluation that makes it (snakemake -n shows which)") from None
    except Exception as error:  # damage shows in many ways: also as numbers too large, texts that are none
        text = f"{path}: not a readable parquet file ({reason(error)}); delete it and rerun its evaluation"
        raise UserError(text) from None
    problem = problem or _content_problem(table)
    if problem:
        raise UserError(f"{path}: {problem}; rerun the evaluation that makes this file")
    return frame


def _schema_problem(schema: pa.Schema) -> str:
    missing = [name for name in COLUMNS if name not in schema.names]
    if missing:
        return f"missing column{'s' * (len(missing) > 1)} {', '.join(missing)}"
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        return f"column {twice[0]} is there twice"
    known = {**COLUMNS, **OPTIONAL}
    for name in schema.names:
        if name in known:
            kind, found = known[name], schema.field(name).type
            fits = any(is_kind(found) for is_kind in KINDS[kind])
            if not fits and not (name in OPTIONAL and pa.types.is_null(found)):
                return f"column {name} holds {found}, but {kind} are expected"
            continue
        meant = difflib.get_close_matches(name.lower(), [o for o in OPTIONAL if o not in schema.names], 1, 0.85)
        if meant:  # a misspelled column would silently merge cells that it tells apart
            return f"unknown column {name}: {meant[0]} is what statistics look at"
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
        first = twice[KEY].iloc[:1]
        files = " and ".join(dict.fromkeys(twice.merge(first, on=KEY)["file"]))
        shown = first.iloc[0].items()
        key = ", ".join(f"{name} {value}" for name, value in shown if value != PLANNER.get(name))
        raise UserError(f"{files}: the same row twice ({key}); name every file once and remove stale ones")


def _refuse_mixed(rows: pd.DataFrame, within: list[str], column: str, why: str) -> None:
    """Where rows agree in `within`, they must agree in `column` (rows that do not say are not counted)."""
    if column not in rows or not rows[column].notna().any():
        return
    known = rows[[*within, column, "file"]].dropna(subset=[column]).drop_duplicates([*within, column])
    groups = known.groupby(within, sort=True) if within else [(None, known)]
    for _, group in groups:
        if len(group) > 1:
            values = zip(group[column], group["file"], strict=True)
            found = ", ".join(f"{column} {value} ({file})" for value, file in values)
            place = ", ".join(f"{name} {group[name].iloc[0]}" for name in within)
            raise UserError(f"{why}: {place + ': ' if place else ''}{found}; judge them apart")
