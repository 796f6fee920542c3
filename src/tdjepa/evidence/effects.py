"""The size of what a claim says: an effect with an interval and a p-value, under the paper's protocol and under ours.

The paper's: one training seed and its plan seeds; Student's interval and test over the plan seeds' differences. Ours:
training seeds, plan seeds and episodes resampled (bootstrap.py) and a permutation test over episodes (paired.py). For
correlations the paper itself takes three trainings: there its protocol is Student's interval over training seeds, and
ours resamples the episodes of the pairs as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from tdjepa.evidence import alignment, bootstrap, contact, paired, summary
from tdjepa.evidence.bootstrap import draw
from tdjepa.evidence.names import PLANNER
from tdjepa.evidence.select import select
from tdjepa.evidence.summary import Cell
from tdjepa.streams import stream

RANK_DRAWS = 500  # each weighs every pair of every checkpoint anew
VALUES = ("success", "before_contact", "after_contact")


@dataclass(frozen=True)
class Effect:
    effect: float
    low: float | None  # None where a protocol has no spread to offer
    high: float | None
    p: float | None

    def as_dict(self) -> dict:
        return {"effect": self.effect, "low": self.low, "high": self.high, "p": self.p}


class Evidence:
    """Rows and held-out pairs, ready to be asked."""

    def __init__(self, rows: pd.DataFrame, pairs: pd.DataFrame, seed: int, resamples: int, level: float):
        rows = rows.assign(**{name: absent for name, absent in PLANNER.items() if name not in rows})
        self.rows, self.pairs, self.level = rows, pairs, level
        self.resampled = paired.Resampled(seed, resamples)
        self.cells: dict[str, list[Cell]] = {}

    def of_value(self, value: str) -> list[Cell]:
        """Cells of an outcome: success, or a failure before or after contact."""
        if value not in self.cells:
            rows = self.rows
            if value != "success":
                known = "contact" in rows
                rows = rows[rows["contact"].notna()] if known else rows.iloc[:0]
                near = rows["contact"].astype(bool) if known else []
                failed = ~rows["success"].astype(bool)
                rows = rows.assign(before_contact=failed & ~near, after_contact=failed & near) if known else rows
            self.cells[value] = summary.cells(rows, value) if len(rows) else []
        return self.cells[value]

    def cell(self, env: str, wanted: Mapping) -> Cell | None:
        wanted = dict(wanted)
        cells = {cell.id: cell for cell in self.of_value(wanted.pop("value", "success"))}
        keys = ("env", "method", "solver", "cost", "w", "epoch", "setting", "refinements", "alpha", "id")
        found = select([{key: getattr(cell, key) for key in keys} for cell in cells.values()], env, **wanted)
        return cells[found["id"]] if found else None

    def stratum(self, env: str, name: str | None) -> np.ndarray | None:
        """(E,) which of the environment's pairs are in a stratum of start distances; None for all of them."""
        if name is None:
            return None
        of_env = self.rows[self.rows["env"] == env]
        labels = (
            of_env.assign(stratum=contact.strata(of_env)).groupby(["episode", "start"], sort=True)["stratum"].first()
        )
        return (labels == name).to_numpy()


def of_cells(evidence: Evidence, env: str, terms: Sequence[Sequence], train_seed: int) -> tuple | None:
    """(paper's, ours) for a weighted sum [[coefficient, cell], ...] in percentage points; None when a cell is missing."""
    by_stratum: dict[str | None, list] = {}
    for coefficient, wanted in terms:
        wanted = dict(wanted)
        stratum = wanted.pop("starts", None)
        cell = evidence.cell(env, wanted)
        if cell is None:
            return None
        by_stratum.setdefault(stratum, []).append((coefficient, cell))
    parts = {name: (of_part, evidence.stratum(env, name)) for name, of_part in by_stratum.items()}
    whole = [paired.contrast(of_part, mask) for of_part, mask in parts.values()]
    if any(c is None for c in whole):
        return None
    first = [paired.contrast([(c, _one_seed(x, train_seed)) for c, x in of_part], m) for of_part, m in parts.values()]
    simple = len(whole) == 1 and len(terms) == 2 and sum(c for c, _ in terms) == 0
    return (
        None if any(c is None for c in first) else _over_plan_seeds(first, evidence.level),
        _resampled(whole, evidence, with_p=simple),
    )


def _one_seed(cell: Cell, seed: int) -> Cell:
    """The cell with only one training seed; floors have none."""
    keep = cell.train_seeds == seed if cell.trained else np.ones(len(cell.train_seeds), bool)
    success = cell.success[keep] if keep.any() else np.full((1, *cell.success.shape[1:]), np.nan)
    return Cell(
        **{**vars(cell), "train_seeds": cell.train_seeds[keep] if keep.any() else np.array([seed]), "success": success}
    )


def _over_plan_seeds(contrasts: list[paired.Contrast], level: float) -> Effect:
    shared = sorted(set.intersection(*(set(c.plan_seeds.tolist()) for c in contrasts)))
    values = np.zeros(len(shared))
    for c in contrasts:
        values += summary.plan_seed_means(c.by_pair)[np.isin(c.plan_seeds, shared)]
    low, high = student_interval(values, level)
    return Effect(float(values.mean()), low, high, paired.paired_t(values)[1])


def student_interval(values: np.ndarray, level: float) -> tuple[float | None, float | None]:
    """Student's interval of a mean (n,); (None, None) for fewer than two values."""
    n = len(values)
    if n < 2:
        return None, None
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * float(values.std(ddof=1)) / math.sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def _resampled(contrasts: list[paired.Contrast], evidence: Evidence, with_p: bool) -> Effect:
    if len(contrasts) == 1:
        (c,) = contrasts
        low, high, _ = paired.contrast_interval(c, evidence.resampled, evidence.level)
        p = paired.permutation(c, evidence.resampled.draws.seed) if with_p else None
        return Effect(100 * c.estimate, low, high, p)
    estimate = sum(c.estimate for c in contrasts)
    means = sum(evidence.resampled.means(c) for c in contrasts)
    freedom = min(paired.spread(c, evidence.resampled)[1] for c in contrasts)
    low, high = bootstrap.percentiles(means, estimate, math.inf, freedom, evidence.level)
    return Effect(100 * estimate, 100 * low, 100 * high, None)


def of_pairs(evidence: Evidence, env: str, terms: Sequence[Sequence]) -> tuple | None:
    """(paper's, ours) for a weighted sum [[coefficient, {method, split, rank | rise}], ...] of statistics of held-out pairs:
    `rank: d_psi` is that cost's correlation with the gap, `rise: d_psi` the smallest rise of its mean over the gaps."""
    groups = [(coefficient, *_checkpoints(evidence.pairs, env, wanted)) for coefficient, wanted in terms]
    if any(not frames for _, frames, _ in groups):
        return None
    by_seed = [c * np.array([statistic(f["x"], f["tau"])[0] for f in frames]) for c, frames, statistic in groups]
    if any(np.isnan(values).any() for values in by_seed):
        return None
    estimate = float(sum(values.mean() for values in by_seed))
    if len({len(values) for values in by_seed}) == 1:
        together = sum(by_seed)
        low, high = student_interval(together, evidence.level)
        papers = Effect(estimate, low, high, paired.paired_t(together)[1])
    else:
        papers = Effect(estimate, None, None, None)
    return papers, _resampled_pairs(evidence, env, terms, groups, by_seed, estimate)


def _checkpoints(pairs: pd.DataFrame, env: str, wanted: Mapping):
    """The pairs of each checkpoint of a method in a split, and the statistic that is asked for."""
    part = pairs[(pairs["env"] == env) & (pairs["method"] == wanted["method"])]
    split, (measure, kind) = wanted.get("split", "all"), next((wanted[k], k) for k in ("rank", "rise") if k in wanted)
    if split != "all":
        part = part[part[split].astype(bool)]
    part = part.dropna(subset=[measure])
    columns = {"x": measure, "tau": "tau", "episode": "episode" if "episode" in part else "tau"}
    frames = [
        {name: f[column].to_numpy() for name, column in columns.items()}
        for _, f in part.groupby("train_seed", sort=True)
    ]
    return frames, alignment.correlation if kind == "rank" else alignment.smallest_rise


def _resampled_pairs(evidence, env, terms, groups, by_seed, estimate) -> Effect:
    """Episodes are drawn once for all checkpoints of a draw, as they share their pairs; trainings once a method."""
    draws = min(RANK_DRAWS, evidence.resampled.draws.resamples)
    seed = evidence.resampled.draws.seed
    total, fixed = np.zeros(draws), np.zeros(draws)
    for (coefficient, frames, statistic), (_, wanted) in zip(groups, terms, strict=True):
        weights = draw(stream(seed, "trainings", f"{env}/{wanted['method']}", len(frames)), draws, len(frames))
        values = np.empty((draws, len(frames)))
        for i, frame in enumerate(frames):
            labels, member = np.unique(frame["episode"], return_inverse=True)
            episodes = draw(stream(seed, "episodes of pairs", env, *map(int, labels)), draws, len(labels))
            values[:, i] = coefficient * statistic(frame["x"], frame["tau"], episodes[:, member])
        total += (values * weights).sum(1) / weights.sum(1)
        fixed += values.mean(1)
    factors = [(v.var(ddof=1) / len(v), len(v) - 1) for v in by_seed if len(v) > 1]
    factors.append((float(np.nanvar(fixed)), len(np.unique(groups[0][1][0]["episode"])) - 1))
    variance, noise = sum(v for v, _ in factors), sum(v**2 / max(df, 1) for v, df in factors)
    freedom = max(1.0, variance**2 / noise) if noise else math.inf
    low, high = bootstrap.percentiles(total, estimate, math.inf, freedom, evidence.level)
    return Effect(estimate, low, high, None)
