"""Contrasts of cells of one environment: a - b, or any weighted sum, on the plan seeds and start-goal pairs that all have.

Plan seeds and pairs are resampled together. Trainings are the same only for cells of one method; two methods' are drawn
apart even under equal seed numbers, but a leaky training is paired with the honest one of its seed, and a floor, which has
no training, with all checkpoints (docs/statistics.md says why).

Two tests with different assumptions stand beside the interval: the paired t over plan seeds takes checkpoints and episodes
as given; the permutation test flips whole episodes, which is right for the checkpoints at hand. Only the interval covers new
training seeds, so it decides.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config.names import LEAKY
from tdjepa.evidence.bootstrap import FEW, Draws, levels, percentiles, resampled_means, standard_error, unseen_share
from tdjepa.evidence.bootstrap import variances as analysis
from tdjepa.evidence.summary import Cell, nanmean, plan_seed_means

PERMUTATIONS = 9_999
ENUMERATED = 13  # up to so many episodes that differ, all sign flips are tried instead of random ones


@dataclass(frozen=True)
class Group:
    """The part of a contrast that rests on one set of trainings."""

    training: str  # method
    seeds: np.ndarray  # (T,)
    values: np.ndarray  # (T, P, E) sum of coefficient * outcome, NaN = missing
    cell: Cell | None  # when it is one cell with coefficient +-1 and no gap: its resamples serve other contrasts too
    sign: float


@dataclass(frozen=True)
class Contrast:
    env: str
    groups: tuple[Group, ...]
    plan_seeds: np.ndarray  # (P,)
    clusters: np.ndarray  # (E,) episode of each start-goal pair
    support: bytes  # which seeds and pairs of the environment these are
    reach: tuple[float, float]  # the least and the most that the weighted sum can be

    @property
    def by_pair(self) -> np.ndarray:
        """(1, P, E): the contrast of each plan seed and pair, over all trainings."""
        return sum(nanmean(g.values, 0) for g in self.groups)[None]

    @property
    def estimate(self) -> float:
        return float(sum(np.nanmean(g.values) for g in self.groups))


def contrast(terms: Sequence[tuple[float, Cell]], pairs: np.ndarray | None = None) -> Contrast | None:
    """The weighted sum of cells on what all of them have, perhaps only on `pairs` (E,); None when nothing is shared."""
    if len(designs := sorted({cell.design for _, cell in terms})) > 1:
        named = ", ".join(cell.id for _, cell in terms)
        raise UserError(
            f"rows of the designs {' and '.join(designs)} in one query ({named}): ask for cells of one design"
        )
    by_method: dict[str, list[tuple[float, Cell]]] = {}
    for coefficient, cell in terms:
        by_method.setdefault(cell.method.removesuffix(LEAKY), []).append((coefficient, cell))
    summed = []
    for of_method in by_method.values():
        seeds = functools.reduce(np.intersect1d, [cell.train_seeds for _, cell in of_method])
        parts = [c * cell.success[np.isin(cell.train_seeds, seeds)] for c, cell in of_method]
        summed.append((seeds, sum(parts)))  # NaN where any is missing
    there = functools.reduce(np.logical_and, [(~np.isnan(values)).any(0) for _, values in summed])  # (P, E)
    if pairs is not None:
        there = there & pairs
    if not there.any():
        return None
    plan, pair = there.any(1), there.any(0)
    groups = []
    for (method, of_method), (seeds, values) in zip(by_method.items(), summed, strict=True):
        values = np.where(there, values, np.nan)[:, plan][:, :, pair]
        sign, cell = of_method[0]
        whole = len(of_method) == 1 and abs(sign) == 1 and not np.isnan(values).any()
        groups.append(Group(method, seeds, values, cell if whole else None, sign))
    cell, support = terms[0][1], plan.tobytes() + pair.tobytes()
    reach = tuple(float(sum(pick(c, 0) for c, _ in terms)) for pick in (min, max))
    return Contrast(cell.env, tuple(groups), cell.plan_seeds[plan], cell.episodes[pair], support, reach)


class Resampled:
    """Resampled means and training variances, computed once for each cell on each set of seeds and pairs."""

    def __init__(self, seed: int, resamples: int):
        self.draws, self.known = Draws(seed, resamples), {}

    def of(self, c: Contrast, g: Group) -> tuple[np.ndarray, dict]:
        """(B,) resampled means of a group, and what its trainings add to the variance."""
        if g.cell is None:
            return self._compute(c, g.values, g)
        key = (g.cell.id, id(g.cell), c.support)
        if key not in self.known:
            self.known[key] = self._compute(c, g.sign * g.values, g)
        means, variances = self.known[key]
        return g.sign * means, variances

    def _compute(self, c: Contrast, values: np.ndarray, g: Group) -> tuple[np.ndarray, dict]:
        means = resampled_means(values, *self.draws.weights(c.env, g.training, g.seeds, c.plan_seeds, c.clusters))
        return means, {factors: v for factors, v in analysis(values, c.clusters).items() if 0 in factors}

    def means(self, c: Contrast) -> np.ndarray:
        return sum(self.of(c, g)[0] for g in c.groups)


def spread(c: Contrast, resampled: Resampled) -> tuple[float, float]:
    """(standard error, degrees of freedom) of a contrast: its plan seeds and episodes, and each group's trainings."""
    shared = c.by_pair
    parts = [(analysis(shared, c.clusters), levels(shared, c.clusters))]
    parts += [(resampled.of(c, g)[1], levels(g.values, c.clusters)) for g in c.groups]
    return standard_error(parts)


def contrast_interval(c: Contrast, resampled: Resampled, level: float) -> tuple[float, float, str]:
    """(low, high, kind) in percentage points. When fewer than FEW episodes differ from the usual value, it reaches at
    least to where an unseen share of episodes would all go one way, and kind is "exact"."""
    low, high = percentiles(resampled.means(c), c.estimate, *spread(c, resampled), level)
    low, high = max(low, c.reach[0]), min(high, c.reach[1])
    by_episode = cluster_values(c, weighted=False)
    if np.sum(~np.isclose(by_episode, np.median(by_episode))) >= FEW:
        return 100 * low, 100 * high, "bootstrap"
    share = unseen_share(len(by_episode), level)
    seen = (1 - share) * c.estimate
    return 100 * min(low, seen + share * c.reach[0]), 100 * max(high, seen + share * c.reach[1]), "exact"


def cluster_values(c: Contrast, weighted: bool) -> np.ndarray:
    """(C,) the contrast of each episode, or weighted so that they sum to the estimate."""
    labels, member = np.unique(c.clusters, return_inverse=True)
    out = np.zeros(len(labels))
    for g in c.groups:
        total = np.bincount(member, np.nansum(g.values, (0, 1)), len(labels))
        count = np.bincount(member, (~np.isnan(g.values)).sum((0, 1)), len(labels))
        out += total / (count.sum() if weighted else count)
    return out


def paired_t(differences: np.ndarray) -> tuple[float | None, float | None]:
    """(t, p) over the differences (n,) of the plan seeds; None for fewer than two or without spread."""
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if n < 2 or np.std(differences) < 1e-9:
        return None, None
    t = float(differences.mean() / (differences.std(ddof=1) / math.sqrt(n)))
    return t, float(2 * special.stdtr(n - 1, -abs(t)))


def disagreement(a: np.ndarray, b: np.ndarray) -> tuple[int, int, int, int]:
    """Of paired outcomes (T, P, E), how many are solved by both, only by a, only by b, by neither; NaN = no pair."""
    return tuple(int(np.sum((a == of_a) & (b == of_b))) for of_a, of_b in ((1, 1), (1, 0), (0, 1), (0, 0)))


def permutation(c: Contrast, seed: int) -> float:
    """Two-sided p of a difference when its two sides are exchanged for whole episodes at a time."""
    values = cluster_values(c, weighted=True)
    values = values[np.abs(values) > 1e-12]  # flipping a zero changes nothing
    if len(values) < 2:  # either sign of a single one is as extreme
        return 1.0
    exact = len(values) <= ENUMERATED
    flips = _all_flips(len(values)) if exact else _random_flips(seed, len(values))
    extreme = int(np.sum(np.abs(flips @ values) >= abs(values.sum()) * (1 - 1e-12) - 1e-14))
    return extreme / len(flips) if exact else (extreme + 1) / (len(flips) + 1)


@functools.cache
def _all_flips(n: int) -> np.ndarray:
    """(2^n, n) of +-1"""
    return 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)


@functools.lru_cache(maxsize=256)
def _random_flips(seed: int, n: int) -> np.ndarray:
    """(PERMUTATIONS, n) of +-1"""
    return stream(seed, "flips", n).choice(np.array([-1.0, 1.0], np.float32), (PERMUTATIONS, n))


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's step-down correction of p-values (n,)."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, stepped)
    return corrected


def matched(a: Cell, b: Cell) -> tuple[np.ndarray, np.ndarray] | None:
    """Outcomes of two cells side by side, (T, P, E) twice; None when no training seed is shared."""
    if not a.trained or not b.trained:
        return a.success, b.success  # a floor has T = 1 and broadcasts
    shared = np.intersect1d(a.train_seeds, b.train_seeds)
    return tuple(cell.success[np.isin(cell.train_seeds, shared)] for cell in (a, b)) if len(shared) else None


def compare(a: Cell, b: Cell, resampled: Resampled, level: float) -> dict | None:
    """What stats.json says of a against b; None when they share nothing."""
    c = contrast([(1, a), (-1, b)])
    if c is None:
        return None
    low, high, kind = contrast_interval(c, resampled, level)
    t, p_t = paired_t(plan_seed_means(c.by_pair))
    outcomes = matched(a, b)
    found = dict(
        env=a.env, a=a.id, b=b.id, difference=100 * c.estimate, low=low, high=high, interval=kind, t=t, p_t=p_t
    )
    return found | {
        "p_permutation": permutation(c, resampled.draws.seed),
        "outcomes": None if outcomes is None else list(disagreement(*outcomes)),
        "n_plan_seeds": len(c.plan_seeds),
        "n_episodes": len(c.clusters),
    }
