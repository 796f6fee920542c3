"""Cells: the rows of one (environment, method, planner setting, epoch) as an array, and their mean and spread."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tdjepa.config.names import MAIN
from tdjepa.evidence.columns import CELL, PLANNER, UNTRAINED, with_planner


@dataclass(frozen=True)
class Cell:
    """Outcomes on axes that all cells of an environment share, so that two cells can be paired by position."""

    env: str
    method: str
    solver: str
    cost: str
    w: float
    epoch: int
    design: str  # "main", or "protocol": the first training with the paper's plan seeds and pairs
    setting: str  # "main" is the published protocol; a sweep's cells are told apart by the three numbers below as well
    refinements: int  # 0 where the rows do not say
    history: int
    candidates: int
    alpha: float  # weight of l2 in a blend, -1 where the rows do not say
    planner: str  # hash of all planner settings, "" where the rows do not say
    train_seeds: np.ndarray  # (T,) this cell's own
    plan_seeds: np.ndarray  # (P,) the environment's
    episodes: np.ndarray  # (E,) episode number of each start-goal pair of the environment
    trivial: np.ndarray  # (E,) bool, solved at the start
    success: np.ndarray  # (T, P, E) 1.0 or 0.0, NaN where no row exists
    variant: str = ""  # part of the planner's hash where nothing else tells two cells apart

    @property
    def id(self) -> str:
        text = f"{self.env}/{self.method}/{self.cost}/{self.solver}/w{self.w:g}/epoch{self.epoch}"
        text += "" if self.design == MAIN else f"/{self.design}"
        if self.setting == MAIN:
            return text
        said = [name for name in list(PLANNER)[2:-1] if getattr(self, name) != PLANNER[name]]
        text += f"/{self.setting}" + "".join(f"/{name}{getattr(self, name):g}" for name in said)
        return f"{text}/{self.variant}" if self.variant else text

    @property
    def trained(self) -> bool:
        return self.method not in UNTRAINED


def cells(rows: pd.DataFrame, value: str = "success") -> list[Cell]:
    """The cells of all rows, sorted by environment, method and setting; outcomes are those of the column `value`."""
    rows = with_planner(rows)
    out = []
    for _, of_env in rows.groupby("env", sort=True):
        pairs = of_env.groupby(["episode", "start"], sort=True)["trivial"].any().reset_index()
        pair_index = pd.MultiIndex.from_frame(pairs[["episode", "start"]])
        plan_seeds = np.unique(of_env["plan_seed"])
        for key, of_cell in of_env.groupby(CELL, sort=True):
            train_seeds = np.unique(of_cell["train_seed"])
            success = np.full((len(train_seeds), len(plan_seeds), len(pairs)), np.nan)
            t, p = (
                np.searchsorted(train_seeds, of_cell["train_seed"]),
                np.searchsorted(plan_seeds, of_cell["plan_seed"]),
            )
            e = pair_index.get_indexer(pd.MultiIndex.from_frame(of_cell[["episode", "start"]]))
            success[t, p, e] = of_cell[value]
            key = (*key[:4], float(key[4]), int(key[5]), *key[6:8], *map(int, key[8:11]), float(key[11]), key[12])
            axes = (train_seeds, plan_seeds, pairs["episode"].to_numpy(), pairs["trivial"].to_numpy(bool))
            out.append(Cell(*key, *axes, success))
    alike = Counter(cell.id for cell in out)
    return [replace(cell, variant=cell.planner[:6]) if alike[cell.id] > 1 else cell for cell in out]


def solved_only_by(this: Cell, that: Cell) -> Cell:
    """What one plan cost solves and another does not, on the same checkpoints: the trainings that both have."""
    shared = np.intersect1d(this.train_seeds, that.train_seeds)
    a, b = (cell.success[np.isin(cell.train_seeds, shared)] for cell in (this, that))
    return replace(this, train_seeds=shared, success=a * (1 - b))


def mean(success: np.ndarray) -> float | None:
    """Success in percent over all rows; (T, P, E) with NaN where no row exists. None without any."""
    there = success[~np.isnan(success)]
    return 100 * float(there.mean()) if len(there) else None


def plan_seed_means(success: np.ndarray) -> np.ndarray:
    """(T, P, E) -> (P,): percent of each plan seed over training seeds and episodes, NaN where it has no row."""
    return 100 * nanmean(success, (0, 2))


def nanmean(values: np.ndarray, axes) -> np.ndarray:
    """The mean over these axes of the values that are there, NaN where none is."""
    if not np.isnan(values).any():  # the usual case
        return values.mean(axes)
    return quotient(np.nansum(values, axes), (~np.isnan(values)).sum(axes))


def quotient(a: np.ndarray, b: np.ndarray, least: float = 0) -> np.ndarray:
    """a / b, NaN where b is not above `least`."""
    return np.divide(a, b, out=np.full(b.shape, np.nan), where=b > least)


def sample_std(values: np.ndarray) -> float | None:
    """Sample standard deviation (n-1) of the values that are there, None with fewer than two."""
    values = values[~np.isnan(values)]
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def summarise(cell: Cell) -> dict:
    """What stats.json says of a cell, without its interval. `mean_nontrivial` leaves out pairs solved at the start,
    `n_missing` counts the rows that the cell's seeds and pairs lack, `rates` is (T, P)."""
    there = ~np.isnan(cell.success)
    plan, pairs = there.any((0, 2)), there.any((0, 1))
    return {
        **{name: getattr(cell, name) for name in ("id", *CELL)},
        "mean": mean(cell.success),
        "std": sample_std(plan_seed_means(cell.success)),  # the paper's +-
        "std_train_seeds": sample_std(100 * nanmean(cell.success, (1, 2))),
        "mean_nontrivial": mean(cell.success[:, :, ~cell.trivial]),
        "n_train_seeds": len(cell.train_seeds),
        "n_plan_seeds": int(plan.sum()),
        "n_episodes": int(pairs.sum()),
        "n_trivial": int((pairs & cell.trivial).sum()),
        "n_rows": int(there.sum()),
        "n_missing": int(len(cell.train_seeds) * plan.sum() * pairs.sum() - there.sum()),
        "train_seeds": cell.train_seeds.tolist(),
        "plan_seeds": cell.plan_seeds[plan].tolist(),
        "rates": (100 * nanmean(cell.success, 2)[:, plan]).tolist(),
    }
