"""Where do plans fail? Success by how far the object must move, and by the kind of demonstration that a pair is from.

Reads two columns that not all rows have: `to_move` (Push-T: pixels that the block must move; Cube: centimetres of the cube) and
`kind` (which demonstrator made the episode of the pair).
"""

import pandas as pd

from tdjepa.config.names import MAIN
from tdjepa.evidence.columns import with_planner

# environment -> unit, and where the ranges begin; the first one is a pair whose object may stay where it is
RANGES = {"push_t": ("px", (0.0, 5.0, 30.0, 70.0)), "cube": ("cm", (0.0, 4.0, 10.0, 20.0))}


def moves(rows: pd.DataFrame) -> list[dict]:
    """Success in percent of the protocol's cells at their last epoch, by range and by kind of episode, with their pairs."""
    rows = with_planner(rows)
    rows = rows[(rows["setting"] == MAIN) & (rows["design"] == MAIN)]
    rows = rows[rows["epoch"] == rows.groupby(["env", "method"])["epoch"].transform("max")]
    out = []
    for (env, method, cost), group in rows.groupby(["env", "method", "cost"], sort=True):
        for pairs, part in _parts(env, group):
            if len(part):
                n = len(part.drop_duplicates(["episode", "start"]))
                rate = 100 * float(part["success"].mean())
                out.append({"env": env, "method": method, "cost": cost, "pairs": pairs, "mean": rate, "n_pairs": n})
    return out


def _parts(env: str, rows: pd.DataFrame):
    """(the name of a range or kind, its rows)"""
    if env in RANGES and "to_move" in rows and rows["to_move"].notna().all():
        unit, begins = RANGES[env]
        for low, high in zip(begins, (*begins[1:], float("inf")), strict=True):
            name = f"{low:g} to {high:g} {unit}" if high < float("inf") else f"beyond {low:g} {unit}"
            yield name, rows[(rows["to_move"] >= low) & (rows["to_move"] < high)]
    if "kind" in rows and rows["kind"].nunique() > 1:
        for kind in sorted(rows["kind"].dropna().unique()):
            yield f"from {kind}", rows[rows["kind"] == kind]
