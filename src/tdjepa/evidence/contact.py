"""Push-T, where does an episode fail? Before the agent was ever in contact with the block, or after; from which starts.

These read columns that only Push-T's rows have: `contact` (the agent came within the contact distance, or touched the block,
during the episode; planning/costs.py has the one definition), `start_distance` (pixels between agent and block at the start)
and `to_move` (pixels that the block has to be moved).
"""

import numpy as np
import pandas as pd

from tdjepa.config.names import MAIN
from tdjepa.evidence.columns import CELL, UNTRAINED, with_planner
from tdjepa.evidence.summary import sample_std

# A kind of stratum -> the column whose median divides the pairs, the names below and above it
STRATA = {"starts": ("start_distance", "close", "far"), "block": ("to_move", "near", "far")}


def final_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the published protocol at each method's last epoch, by the main design."""
    rows = with_planner(rows)
    rows = rows[(rows["setting"] == MAIN) & (rows["design"] == MAIN) & ~rows["method"].isin(UNTRAINED)]
    return rows[rows["epoch"] == rows.groupby(["env", "method"])["epoch"].transform("max")]


def with_phases(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that know of contact, with whether they failed before or after it."""
    failed, near = ~rows["success"].astype(bool), rows["contact"].astype(bool)
    return rows.assign(before_contact=failed & ~near, after_contact=failed & near)


def phases(rows: pd.DataFrame) -> list[dict]:
    """The paper's Table 7: failed episodes before and after contact, mean and sample std over plan seeds of the mean over
    training seeds. A run's failures are their share of its known episodes times the cell's number of pairs, so that an
    episode without a row or a phase (`n_missing`) is not taken for a success."""
    if "contact" not in rows:
        return []
    out, phases = [], {"before": "before_contact", "after": "after_contact"}
    for key, group in final_rows(rows).groupby(CELL, sort=True):
        known = group[group["contact"].notna()]
        if known.empty:
            continue
        shares = with_phases(known).groupby(["train_seed", "plan_seed"])[list(phases.values())].mean()
        pairs = len(group.drop_duplicates(["episode", "start"]))
        by_plan_seed = pairs * shares.groupby("plan_seed").mean()
        runs = group["train_seed"].nunique() * group["plan_seed"].nunique()
        entry = {"env": key[0], "method": key[1], "cost": key[3], "n_plan_seeds": len(by_plan_seed)}
        entry["n_missing"] = runs * pairs - len(known)
        for phase, column in phases.items():
            values = by_plan_seed[column].to_numpy(float)
            entry |= {phase: float(values.mean()), f"{phase}_std": sample_std(values)}
        out.append(entry)
    return out


def strata(rows: pd.DataFrame, kind: str = "starts") -> pd.Series:
    """ "close" or "far" for each row by the median distance of the environment's distinct pairs; None if unknown."""
    column, below, above = STRATA[kind]
    if column not in rows or not rows[column].notna().any():
        return pd.Series(None, index=rows.index, dtype=object)
    distance = rows[column].astype(float)
    pairs = rows.assign(distance=distance).drop_duplicates(["env", "episode", "start"])
    median = rows["env"].map(pairs.groupby("env")["distance"].median())
    return pd.Series(np.where(distance.isna(), None, np.where(distance <= median, below, above)), index=rows.index)


def geometry(rows: pd.DataFrame) -> list[dict]:
    """The paper's Table 8: success in percent by distance at the start. One entry per cell, kind of stratum (STRATA) and
    stratum, "all" among them, where the rows have the column."""
    final, out = final_rows(rows), []
    for kind, (_, *names) in STRATA.items():
        stratum = strata(final, kind)
        for key, group in final[stratum.notna()].assign(stratum=stratum).groupby(CELL, sort=True):
            for name in ("all", *names):
                part = group if name == "all" else group[group["stratum"] == name]
                if len(part):
                    entry = {"env": key[0], "method": key[1], "cost": key[3], "kind": kind, "stratum": name}
                    out.append({**entry, "mean": 100 * float(part["success"].mean())})
    return out


def median_distance(rows: pd.DataFrame) -> float | None:
    """The distance that divides close from far starts."""
    if "start_distance" not in rows:
        return None
    known = rows[rows["env"] == "push_t"].drop_duplicates(["episode", "start"])["start_distance"].dropna()
    return float(known.median()) if len(known) else None
