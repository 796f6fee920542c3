"""Cells: the rows of one (environment, method, solver, cost, w, epoch) as an array, and their mean and spread."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tdjepa.evidence.rows import CELL, FLOORS


@dataclass(frozen=True)
class Cell:
    """Outcomes on axes that all cells of an environment share, so that two cells can be paired by position."""

    env: str
    method: str
    solver: str
    cost: str
    w: float
    epoch: int
    train_seeds: np.ndarray  # (T,) this cell's own
    plan_seeds: np.ndarray  # (P,) the environment's
    episodes: np.ndarray  # (E,) episode number of each start-goal pair of the environment
    trivial: np.ndarray  # (E,) bool, solved at the start
    success: np.ndarray  # (T, P, E) 1.0 or 0.0, NaN where no row exists

    @property
    def id(self) -> str:
        return f"{self.env}/{self.method}/{self.cost}/{self.solver}/w{self.w:g}/epoch{self.epoch}"

    @property
    def trained(self) -> bool:
        return self.method not in FLOORS


def cells(rows: pd.DataFrame) -> list[Cell]:
    """The cells of all rows, sorted by environment, method, solver, cost, w, epoch."""
    out = []
    for _, of_env in rows.groupby("env", sort=True):
        pairs = of_env.groupby(["episode", "start"], sort=True)["trivial"].any().reset_index()
        pair_index = pd.MultiIndex.from_frame(pairs[["episode", "start"]])
        plan_seeds = np.unique(of_env["plan_seed"])
        for key, of_cell in of_env.groupby(CELL, sort=True):
            train_seeds = np.unique(of_cell["train_seed"])
            success = np.full((len(train_seeds), len(plan_seeds), len(pairs)), np.nan)
            where = (
                np.searchsorted(train_seeds, of_cell["train_seed"]),
                np.searchsorted(plan_seeds, of_cell["plan_seed"]),
                pair_index.get_indexer(pd.MultiIndex.from_frame(of_cell[["episode", "start"]])),
            )
            success[where] = of_cell["success"]
            key = (*key[:4], float(key[4]), int(key[5]))
            axes = (train_seeds, plan_seeds, pairs["episode"].to_numpy(), pairs["trivial"].to_numpy(bool))
            out.append(Cell(*key, *axes, success))
    return out


def mean(success: np.ndarray) -> float | None:
    """Success in percent over all rows; (T, P, E) with NaN where no row exists. None without any."""
    there = success[~np.isnan(success)]
    return 100 * float(there.mean()) if len(there) else None


def plan_seed_means(success: np.ndarray) -> np.ndarray:
    """(T, P, E) -> (P,): percent of each plan seed over training seeds and episodes, NaN where it has no row."""
    there = ~np.isnan(success)
    count = there.sum((0, 2))
    return 100 * np.divide(np.nansum(success, (0, 2)), count, out=np.full(len(count), np.nan), where=count > 0)


def std_over_plan_seeds(success: np.ndarray) -> float | None:
    """The paper's +-: sample standard deviation (n-1) over plan seeds; None with fewer than two of them. (T, P, E)"""
    of_seed = plan_seed_means(success)
    of_seed = of_seed[~np.isnan(of_seed)]
    return float(np.std(of_seed, ddof=1)) if len(of_seed) > 1 else None


def summarise(cell: Cell) -> dict:
    """What stats.json says of a cell, without its interval. `mean_nontrivial` leaves out pairs solved at the start."""
    there = ~np.isnan(cell.success)
    pairs = there.any((0, 1))
    return {
        "id": cell.id,
        "env": cell.env,
        "method": cell.method,
        "solver": cell.solver,
        "cost": cell.cost,
        "w": cell.w,
        "epoch": cell.epoch,
        "mean": mean(cell.success),
        "std": std_over_plan_seeds(cell.success),
        "mean_nontrivial": mean(cell.success[:, :, ~cell.trivial]),
        "n_train_seeds": len(cell.train_seeds),
        "n_plan_seeds": int(there.any((0, 2)).sum()),
        "n_episodes": int(pairs.sum()),
        "n_trivial": int((pairs & cell.trivial).sum()),
        "n_rows": int(there.sum()),
    }
