"""A bootstrap interval for a success rate, or a contrast of several, over training seeds, plan seeds and episodes.

The design is crossed, so each factor is resampled by itself (n - 1 of its n levels, pairs of one episode together) and a
resample's rate is the mean over the product of the draws. The distances from the estimate to the percentiles are then
stretched by Student's t over z, and shrunk to the standard error of the analysis of variance where that is smaller. Where
fewer than FEW episodes ever failed (or succeeded), the interval reaches at least to where a kind of episode that was never
drawn would all fail (succeed). docs/statistics.md says why, and how often the intervals hold.

Draws are named by what they are drawn over (environment, seeds, episodes) and by nothing else. So two cells on the same
pairs and seeds are resampled together, which is what makes their difference sharp, and a new cell changes no other.
"""

import functools
import itertools
import math

import numpy as np
from scipy import special

from tdjepa.base.streams import stream
from tdjepa.evidence.summary import quotient

FEW = 5


def draw(rng: np.random.Generator, resamples: int, n: int) -> np.ndarray:
    """(resamples, n): how often each of n levels is drawn."""
    return rng.multinomial(max(n - 1, 1), np.full(n, 1 / n), size=resamples).astype(float)


class Draws:
    """The resamples of each factor, made once for every set of levels. Weights are (B, n)."""

    def __init__(self, seed: int, resamples: int):
        self.seed, self.resamples = seed, resamples
        self._of = functools.lru_cache(maxsize=64)(self._drawn)

    def _drawn(self, kind: str, name: str, levels: tuple[int, ...]) -> np.ndarray:
        return draw(stream(self.seed, kind, name, *levels), self.resamples, len(levels))

    def weights(self, env: str, training: str, train: np.ndarray, plan: np.ndarray, episodes: np.ndarray) -> tuple:
        """(B, T), (B, P), (B, E) for seeds (T,), (P,) and episodes (E,), of which equal ones go together. Two methods'
        trainings are drawn apart even under equal seed numbers, so the method names the draw."""
        labels, member = np.unique(episodes, return_inverse=True)
        named = (("trainings", f"{env}/{training}", train), ("plan seeds", env, plan), ("episodes", env, labels))
        of_train, of_plan, of_episodes = (self._of(kind, name, tuple(map(int, n))) for kind, name, n in named)
        return of_train, of_plan, of_episodes[:, member]


def resampled_means(success: np.ndarray, train: np.ndarray, plan: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """(B,): the weighted mean of success (T, P, E), NaN = missing, under weights (B, T), (B, P), (B, E)."""
    there = ~np.isnan(success)

    def total(values):  # (T, P, E) -> (B,)
        t, p, e = values.shape
        by_pair = (values.reshape(t * p, e) @ pair.T).reshape(t, p, -1)  # (T, P, B)
        return np.einsum("tpb,bt,bp->b", by_pair, train, plan)

    if there.all():  # the usual case
        return total(success) / (train.sum(1) * plan.sum(1) * pair.sum(1))
    return quotient(total(np.where(there, success, 0.0)), total(there.astype(float)))


def variances(values: np.ndarray, clusters: np.ndarray) -> dict[tuple[int, ...], float]:
    """The analysis of variance of a mean: what each factor (0 training, 1 plan seed, 2 episode) and each interaction of
    theirs adds to its variance, as mean squares over the number of rows. values (T, P, E) with NaN = missing, which makes
    it approximate. The mean is one of pairs, so what is analysed is the sum of an episode's pairs' distances from it."""
    labels, member = np.unique(clusters, return_inverse=True)
    there = ~np.isnan(values)
    values = np.where(there, values - values[there].mean(), 0.0)  # (T, P, E)
    if len(labels) < values.shape[2]:
        values = values @ np.eye(len(labels))[member]  # (T, P, C)
    values = values * (values.size / there.sum())
    shape, axes = values.shape, [axis for axis in range(3) if values.shape[axis] > 1]
    effects, out = {(): values.mean(keepdims=True)}, {}
    for order in range(1, len(axes) + 1):
        for factors in itertools.combinations(axes, order):
            rest = tuple(axis for axis in range(3) if axis not in factors)
            below = (effects[part] for k in range(order) for part in itertools.combinations(factors, k))
            effects[factors] = values.mean(rest, keepdims=True) - sum(below)
            levels = math.prod(shape[axis] for axis in factors)
            out[factors] = float((effects[factors] ** 2).sum()) / math.prod(shape[a] - 1 for a in factors) / levels
    return out


def standard_error(parts: list[tuple[dict[tuple[int, ...], float], tuple[int, ...]]]) -> tuple[float, float]:
    """(standard error, Satterthwaite's degrees of freedom) of a sum of independent parts: their `variances` and levels
    (T, P, C). Interactions alternate in sign so that each counts once; no factor's share may be larger than the sum."""
    alternating = sum((-1) ** (len(factors) + 1) * v for of_part, _ in parts for factors, v in of_part.items())
    main = [(v, levels[factors[0]]) for of_part, levels in parts for factors, v in of_part.items() if len(factors) == 1]
    variance = max([alternating, *(v for v, _ in main)], default=0.0)
    noise = sum(v**2 / (n - 1) for v, n in main)
    return math.sqrt(variance), max(1.0, variance**2 / noise) if noise else math.inf


def percentiles(means: np.ndarray, estimate: float, error: float, freedom: float, level: float) -> tuple[float, float]:
    """The percentile interval of resampled values (B,) around the estimate, stretched and shrunk as said above."""
    means = means[~np.isnan(means)]
    low, high = _order_statistics(means, (1 - level) / 2 * (len(means) - 1))
    spread = float(means.std())
    if spread < 1e-12:
        return estimate, estimate
    upper = (1 + level) / 2
    student = float(special.stdtrit(freedom, upper)) if math.isfinite(freedom) else float(special.ndtri(upper))
    factor = student / float(special.ndtri(upper)) * min(1.0, error / spread)
    return estimate - factor * max(estimate - low, 0.0), estimate + factor * max(high - estimate, 0.0)


def _order_statistics(values: np.ndarray, rank: float) -> tuple[float, float]:
    """The values at `rank` from below and from above, interpolated; like quantile, but one partition for both."""
    n, floor = len(values), int(rank)
    ceil = min(floor + 1, n - 1)
    part = np.partition(values, sorted({floor, ceil, n - 1 - ceil, n - 1 - floor}))
    share = rank - floor
    low = part[floor] + share * (part[ceil] - part[floor])
    high = part[n - 1 - floor] + share * (part[n - 1 - ceil] - part[n - 1 - floor])
    return float(low), float(high)


def unseen_share(n: int, level: float) -> float:
    """The largest share of episodes of a kind of which n draws may well have shown none."""
    return 1 - ((1 - level) / 2) ** (1 / n)


def interval(success: np.ndarray, clusters: np.ndarray, means: np.ndarray, level: float) -> tuple[float, float, str]:
    """(low, high, kind) in percent of success (T, P, E) with clusters (E,) and resampled means (B,); kind is "bootstrap",
    or names the side that the exact bound opened: "exact_low", "exact_high", "exact"."""
    rate = float(np.nanmean(success))
    error, freedom = standard_error([(variances(success, clusters), levels(success, clusters))])
    low, high = percentiles(means, rate, error, freedom, level)
    low, high = max(low, 0.0), min(high, 1.0)
    share = unseen_share(len(np.unique(clusters)), level)
    events = (success < 1, success > 0)  # NaN compares False, so missing is no event
    few_failed, few_succeeded = (len(np.unique(clusters[event.any((0, 1))])) < FEW for event in events)
    if few_failed:
        low = min(low, (1 - share) * rate)
    if few_succeeded:
        high = max(high, (1 - share) * rate + share)
    kind = {(0, 0): "bootstrap", (1, 0): "exact_low", (0, 1): "exact_high", (1, 1): "exact"}
    return 100 * low, 100 * high, kind[few_failed, few_succeeded]


def levels(values: np.ndarray, clusters: np.ndarray) -> tuple[int, int, int]:
    """(T, P, C) of values (T, P, E) whose pairs are in clusters (E,)."""
    return (*values.shape[:2], len(np.unique(clusters)))
