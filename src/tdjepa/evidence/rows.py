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
from tdjepa.evidence.columns import CELL, PLANNER, with_planner

_TEXT = ("text", lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_dictionary(t))
_WHOLE = ("whole numbers", pa.types.is_integer)
_REAL = ("floating-point numbers", pa.types.is_floating)
_NUMBER = ("numbers", lambda t: pa.types.is_integer(t) or pa.types.is_floating(t))
_TRUTH = ("booleans", pa.types.is_boolean)
COLUMNS = dict(scale=_TEXT, env=_TEXT, method=_TEXT, train_seed=_WHOLE, epoch=_WHOLE, solver=_TEXT, cost=_TEXT, w=_REAL)
COLUMNS |= dict(plan_seed=_WHOLE, episode=_WHOLE, start=_WHOLE, success=_TRUTH, trivial=_TRUTH, steps=_WHOLE)
# What a rows file may have beside them; the first six tell cells of sweeps apart.
OPTIONAL = {
    **dict(setting=_TEXT, refinements=_NUMBER, history=_NUMBER, candidates=_NUMBER),
    "alpha": _NUMBER,  # weight of l2 in a blend
    "planner": _TEXT,  # hash of all planner settings: tells apart what no other column shows
    "contact": _TRUTH,  # Push-T: the agent came near the block during the episode
    "start_distance": _NUMBER,  # Push-T: pixels between agent and block at the start
    "manifest": _TEXT,  # sha256 of the locked pairs
}
KEY = [*CELL, "train_seed", "plan_seed", "episode", "start"]


def read(paths: Sequence[str | Path]) -> pd.DataFrame:
    """All rows of several files, sorted by their key; columns that nothing here uses are left in the files."""
    if not paths:
        return pd.DataFrame({name: [] for name in (*COLUMNS, *PLANNER)})
    rows = pd.concat([_read_one(Path(path)).assign(file=str(path)) for path in paths], ignore_index=True)
    rows = with_planner(rows)
    for name, absent in PLANNER.items():
        known = rows[name].fillna(absent)
        rows[name] = known if isinstance(absent, str) else known.astype(type(absent))
    _refuse_duplicates(rows)
    _refuse_mixed(rows, [], "scale", "rows of several scales cannot be judged together")
    _refuse_mixed(rows, ["env", "setting"], "manifest", "rows of several manifests cannot be averaged")
    main = rows["setting"] == MAIN  # one protocol: its cells need no telling apart, and must not differ
    for name in list(PLANNER)[1:]:
        said = rows[main & (rows[name] != PLANNER[name])]
        _refuse_mixed(said, CELL[:6], name, f"one cell of the setting {MAIN} was planned in several ways")
        rows.loc[main, name] = rows[main].groupby(CELL[:6])[name].transform("max")
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
        frame = None if problem else table.validate(full=True) or table.to_pandas()
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
            kind, fits = known[name]
            found = schema.field(name).type
            if not fits(found) and not (name in OPTIONAL and pa.types.is_null(found)):
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
        first = twice.iloc[:1]
        same = twice.merge(first[KEY], on=KEY)
        files = " and ".join(dict.fromkeys(same["file"]))
        shown = {name: first[name].iloc[0] for name in KEY}
        key = ", ".join(f"{name} {value}" for name, value in shown.items() if value != PLANNER.get(name))
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
