"""Intervals of success rates and of their weighted sums, over trainings and episodes.

Plan seeds are averaged first: their noise is keyed by pair and plan, so a plan seed has no effect of its own. The variance of
a mean is then that between episodes, plus what trainings differ by beyond the noise of their evaluation. Three to five
trainings say little of how trainings vary, so each method's variance is moderated towards the environment's: as if PRIOR
more degrees of freedom had shown the pooled one. Rates near 0 or 100 % have Wilson's interval, and where fewer than FEW
episodes ever failed (succeeded), one that reaches at least to where a kind of episode that was never drawn would all
fail (succeed). docs/statistics.md has the rule and how often the intervals hold.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

PRIOR = 4.0  # degrees of freedom
FEW = 5
LEAST = 0.5  # share of the variance between episodes that a negative estimate of the trainings' may not go below


@dataclass(frozen=True)
class Trainings:
    """How the trainings of one method vary in a mean or a contrast of one environment."""

    env: str
    method: str
    kind: str  # "cell", "cells" (several of them), "strata": what it may be pooled with
    n: int
    variance: float  # between their means; expects the trainings' own plus `noise`
    noise: float  # of one training's mean, by its episodes
    scale: float  # what the trainings' own variance is taken to be proportional to: sum of (coefficient * p * (1 - p))²


@dataclass(frozen=True)
class Spread:
    error: float
    freedom: float


def quantile(share: float, freedom: float) -> float:
    """Student's, or the normal one for infinitely many degrees of freedom."""
    return float(special.stdtrit(freedom, share)) if math.isfinite(freedom) else float(special.ndtri(share))


class Pool:
    """The variance between trainings of an environment, pooled over its methods, as a multiple of `scale`."""

    def __init__(self, known: Iterable[Trainings] = ()):
        self.known = [t for t in known if t.n > 1]

    def prior(self, of: Trainings) -> tuple[float, float]:
        """(variance between trainings, its degrees of freedom): at most PRIOR, and none beyond what other methods have."""
        alike = [t for t in self.known if (t.env, t.kind) == (of.env, of.kind)]
        costs = {m: sum(t.method == m for t in alike) for m in {t.method for t in alike}}  # they share their trainings
        freedom = sum(t.n - 1 for t in {t.method: t for t in alike if t.method != of.method}.values())
        weights = [(t.n - 1) / costs[t.method] for t in alike]
        size = sum(w * t.scale for w, t in zip(weights, alike, strict=True))
        excess = sum(w * (t.variance - t.noise) for w, t in zip(weights, alike, strict=True))
        return (max(0.0, excess / size) * of.scale if size > 0 else 0.0), min(PRIOR, freedom)

    def moderated(self, of: Trainings) -> tuple[float, float]:
        """(variance between the trainings' means, degrees of freedom)"""
        own, (prior, freedom) = of.n - 1, self.prior(of)
        if own + freedom == 0:
            return of.noise, math.inf  # one training of the only method: nothing is known, and nothing is added
        return (freedom * (prior + of.noise) + own * (of.variance if own else 0.0)) / (own + freedom), own + freedom


def by_cluster(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """(T, C) from values (T, E), NaN = missing: distances from the mean so that a row's mean is its mean's distance. The
    rate is one of pairs, so an episode weighs as much as it has pairs."""
    labels, member = np.unique(clusters, return_inverse=True)
    there = ~np.isnan(values)
    away = np.where(there, values - values[there].mean(), 0.0)
    if len(labels) < values.shape[1]:
        away = away @ np.eye(len(labels))[member]
    return away * (away.size / there.sum())


def of_trainings(env: str, method: str, kind: str, parts: Sequence[tuple[np.ndarray, np.ndarray]], scale: float):
    """Trainings from parts (values (T, E), clusters (E,)) that are added, such as strata of the pairs."""
    means, noise = 0.0, 0.0
    for values, clusters in parts:
        z = by_cluster(values, clusters)
        t, c = z.shape
        means = means + z.mean(1)
        if t > 1 and c > 1:
            rest = z - z.mean(1, keepdims=True) - z.mean(0) + z.mean()
            noise += float((rest**2).sum()) / ((t - 1) * (c - 1) * c)
    n = len(means)
    return Trainings(env, method, kind, n, float(means.var(ddof=1)) if n > 1 else 0.0, noise, scale)


def of_episodes(by_pair: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """(variance of a mean over pairs (E,) by its episodes, degrees of freedom): of n episodes of equal size n - 1, fewer
    where some have many more pairs than others."""
    z = by_cluster(by_pair[None], clusters)[0]
    size = np.unique(clusters[~np.isnan(by_pair)], return_counts=True)[1]
    freedom = max(1.0, size.sum() ** 2 / (size**2).sum() - 1)
    return (float(z.var(ddof=1)) / len(z), freedom) if len(z) > 1 else (0.0, 0.0)


def combined(episodes: Sequence[tuple[float, float]], trainings: Sequence[Trainings], pool: Pool) -> Spread:
    """Standard error and Satterthwaite's degrees of freedom of a sum of independent parts."""
    between = sum(v for v, _ in episodes)
    variance, noise = between, sum(v**2 / n for v, n in episodes if n)
    for t in trainings:
        moderated, freedom = pool.moderated(t)
        variance += (moderated - t.noise) / t.n
        noise += (moderated / t.n) ** 2 / freedom
    variance = max(variance, LEAST * between)
    return Spread(math.sqrt(variance), max(1.0, variance**2 / noise) if noise else math.inf)


def unseen_share(n: int, level: float) -> float:
    """The largest share of episodes of a kind of which n draws may well have shown none."""
    return 1 - ((1 - level) / 2) ** (1 / n)


def rarer(k: int, n: int, level: float) -> float:
    """How many times as rare as it looks a kind may be of which n draws have shown k (Clopper and Pearson)."""
    return float(special.betaincinv(k, n - k + 1, (1 - level) / 2)) * n / k if k else 1.0


def of_rate(success: np.ndarray, clusters: np.ndarray, spread: Spread, level: float) -> tuple[float, float, str]:
    """(low, high, kind) in percent of success (T, P, E) with clusters (E,); kind is "wilson", or names the side that the
    exact bound opened: "exact_low", "exact_high", "exact"."""
    there, episodes = ~np.isnan(success), len(np.unique(clusters))
    rate, t = float(success[there].mean()), quantile((1 + level) / 2, spread.freedom)
    within = rate * (1 - rate)
    low = high = rate
    if within > 0 and spread.error > 0:
        n = min(within / spread.error**2, float(there.sum()))  # as many independent rows as would have this error
        middle, half = rate + t**2 / (2 * n), t * math.sqrt(within / n + t**2 / (4 * n**2))
        low, high = max(0.0, (middle - half) / (1 + t**2 / n)), min(1.0, (middle + half) / (1 + t**2 / n))
    share = unseen_share(episodes, level)
    events = (success < 1, success > 0)  # NaN compares False, so missing is no event
    failed, succeeded = (len(np.unique(clusters[event.any((0, 1))])) for event in events)
    few_failed, few_succeeded = failed < FEW, succeeded < FEW
    if few_failed:
        low, high = min(low, (1 - share) * rate), max(high, 1 - rarer(failed, episodes, level) * (1 - rate))
    if few_succeeded:
        low = min(low, rarer(succeeded, episodes, level) * rate)
        high = max(high, (1 - share) * rate + share)
    kind = {(0, 0): "wilson", (1, 0): "exact_low", (0, 1): "exact_high", (1, 1): "exact"}
    return 100 * min(low, rate), 100 * max(high, rate), kind[few_failed, few_succeeded]
