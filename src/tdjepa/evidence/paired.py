"""Contrasts of cells of one environment: a - b, or any weighted sum, on the plan seeds and start-goal pairs that all have.

Trainings are the same only for cells of one method; two methods' are taken apart even under equal seed numbers, but a leaky
training is paired with the honest one of its seed, and a floor, which has no training, with all checkpoints
(docs/statistics.md says why).

Two tests with different assumptions stand beside the interval: the paired t over plan seeds takes checkpoints and episodes
as given; the permutation test flips whole episodes, which is right for the checkpoints at hand. Only the interval covers new
training seeds, so it decides.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config.names import LEAKY, MAIN
from tdjepa.evidence import intervals
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.intervals import FEW, Pool, Spread, Trainings, quantile, unseen_share
from tdjepa.evidence.summary import Cell, nanmean, plan_seed_means

PERMUTATIONS = 9_999
ENUMERATED = 13  # up to so many episodes that differ, all sign flips are tried instead of random ones


@dataclass(frozen=True)
class Group:
    """The part of a contrast that rests on one set of trainings."""

    training: str  # method
    seeds: np.ndarray  # (T,)
    values: np.ndarray  # (T, P, E) sum of coefficient * outcome, NaN = missing
    several: bool  # more than one cell
    scale: float  # sum of (coefficient * p * (1 - p))² over its cells

    @property
    def trained(self) -> bool:
        return self.training not in UNTRAINED


@dataclass(frozen=True)
class Contrast:
    env: str
    groups: tuple[Group, ...]
    plan_seeds: np.ndarray  # (P,)
    clusters: np.ndarray  # (E,) episode of each start-goal pair
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
        rates = [(c, float(np.nanmean(np.where(there, cell.success, np.nan)))) for c, cell in of_method]
        scale = sum((c * p * (1 - p)) ** 2 for c, p in rates)
        groups.append(Group(method, seeds, values, len(of_method) > 1, scale))
    cell, reach = terms[0][1], tuple(float(sum(pick(c, 0) for c, _ in terms)) for pick in (min, max))
    return Contrast(cell.env, tuple(groups), cell.plan_seeds[plan], cell.episodes[pair], reach)


def pooled(cells: Sequence[Cell]) -> Pool:
    """What the cells of the published protocol say of trainings: single ones, and two costs of one method against each
    other."""
    main = poolable(cells)
    two = [((1, a), (-1, b)) for a, b in itertools.combinations(main, 2) if (a.env, a.method) == (b.env, b.method)]
    found = [contrast(terms) for terms in [*(((1, c),) for c in main), *two]]
    return Pool(of_trainings([c])[0] for c in found if c is not None)


def poolable(cells: Sequence[Cell]) -> list[Cell]:
    """The main design's at each method's last epoch. A leaky training repeats its honest twin, so it is left out."""
    main = [c for c in cells if c.setting == c.design == MAIN and c.trained and not c.method.endswith(LEAKY)]
    last: dict[tuple, int] = {}
    for c in main:
        last[c.env, c.method] = max(c.epoch, last.get((c.env, c.method), 0))
    return [c for c in main if c.epoch == last[c.env, c.method]]


def of_trainings(contrasts: Sequence[Contrast]) -> list[Trainings]:
    """How the trainings of each method vary in a sum of contrasts. Strata of an environment share its trainings."""
    by_method: dict[tuple, list[tuple[Contrast, Group]]] = {}
    for c in contrasts:
        for g in c.groups:
            if g.trained:
                by_method.setdefault((c.env, g.training, *g.seeds.tolist()), []).append((c, g))
    out = []
    for (env, method, *_), found in by_method.items():
        parts = [(nanmean(g.values, 1), c.clusters) for c, g in found]
        scale = sum(g.scale for _, g in found)
        kind = "strata" if len(found) > 1 else "cells" if found[0][1].several else "cell"
        out.append(intervals.of_trainings(env, method, kind, parts, scale))
    return out


def spread(contrasts: Sequence[Contrast], pool: Pool) -> Spread:
    """Standard error and degrees of freedom of a sum of contrasts of several environments or strata."""
    episodes = [intervals.of_episodes(nanmean(c.by_pair[0], 0), c.clusters) for c in contrasts]
    return intervals.combined(episodes, of_trainings(contrasts), pool)


def contrast_interval(contrasts: Sequence[Contrast], pool: Pool, level: float) -> tuple[float, float, str]:
    """(low, high, kind) of a sum of contrasts in percentage points: Student's, and the root of the sum of squares over the
    parts. Where fewer than FEW episodes of a part differ from the usual value, that part reaches at least to where an unseen
    share of episodes would all go one way, and kind is "exact"."""
    whole, estimate = spread(contrasts, pool), sum(c.estimate for c in contrasts)
    half = quantile((1 + level) / 2, whole.freedom) * whole.error
    below = above = half
    exact = [c for c in contrasts if few_differ(c)]
    if exact:
        sides = [_exact(c, pool, level) for c in contrasts]
        below, above = (max(half, math.hypot(*side)) for side in zip(*sides, strict=True))
    least, most = (sum(c.reach[i] for c in contrasts) for i in (0, 1))
    low, high = max(estimate - below, least), min(estimate + above, most)
    return 100 * low, 100 * high, "exact" if exact else "student"


def few_differ(c: Contrast) -> bool:
    by_episode = cluster_values(c, weighted=False)
    return int(np.sum(~np.isclose(by_episode, np.median(by_episode)))) < FEW


def _exact(c: Contrast, pool: Pool, level: float) -> tuple[float, float]:
    """How far below and above its estimate one part may lie."""
    own = spread([c], pool)
    half = quantile((1 + level) / 2, own.freedom) * own.error
    if not few_differ(c):
        return half, half
    share = unseen_share(len(np.unique(c.clusters)), level)
    return max(half, share * (c.estimate - c.reach[0])), max(half, share * (c.reach[1] - c.estimate))


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


def matched(a: Cell, b: Cell) -> tuple[np.ndarray, np.ndarray] | None:
    """Outcomes of two cells side by side, (T, P, E) twice; None when no training seed is shared."""
    if not a.trained or not b.trained:
        return a.success, b.success  # a floor has T = 1 and broadcasts
    shared = np.intersect1d(a.train_seeds, b.train_seeds)
    return tuple(cell.success[np.isin(cell.train_seeds, shared)] for cell in (a, b)) if len(shared) else None


def compare(a: Cell, b: Cell, pool: Pool, level: float, seed: int) -> dict | None:
    """What stats.json says of a against b; None when they share nothing."""
    c = contrast([(1, a), (-1, b)])
    if c is None:
        return None
    low, high, kind = contrast_interval([c], pool, level)
    t, p_t = paired_t(plan_seed_means(c.by_pair))
    outcomes = matched(a, b)
    found = {"env": a.env, "design": a.design, "a": a.id, "b": b.id, "difference": 100 * c.estimate}
    found |= {"low": low, "high": high, "interval": kind, "t": t, "p_t": p_t, "p_permutation": permutation(c, seed)}
    return found | {
        "outcomes": None if outcomes is None else list(disagreement(*outcomes)),
        "n_train_seeds": min((len(g.seeds) for g in c.groups if g.trained), default=None),
        "n_plan_seeds": len(c.plan_seeds),
        "n_episodes": len(c.clusters),
    }
