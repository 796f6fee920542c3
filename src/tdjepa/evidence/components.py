"""Variance components of an environment from its rows: the world (simulate.py) in which such rows are likely.

Two outcomes on one pair go together by what they share: two methods the episode, two trainings of a method also what the
method makes of the episode, two plan seeds of a training everything but the draw. Trainings are the pooled variance.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy import optimize, special

from tdjepa.evidence import paired
from tdjepa.evidence.simulate import World
from tdjepa.evidence.summary import Cell, nanmean

WIDEST = 4.0  # standard deviation of a logit
UNSEEN = 0.5  # that of a training in an episode, which one plan seed cannot tell from chance
X, WEIGHTS = hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def fitted(cells: Sequence[Cell], env: str) -> tuple[World, float] | None:
    """(the world, the mean rate) of an environment's trained cells; None without two trainings of two methods."""
    pool = paired.pooled(cells)
    alike = [t for t in pool.known if (t.env, t.kind) == (env, "cell")]
    last = {t.method for t in alike}
    found = [c for c in paired.poolable(cells) if c.env == env and c.method in last]
    if len(last) < 2:
        return None
    rate = float(np.mean([np.nanmean(c.success) for c in found]))
    by_pair = {(c.method, c.cost): nanmean(c.success, 1) for c in found}  # (T, E)
    methods = [
        covariance(nanmean(a, 0), nanmean(b, 0))
        for (m, a), (n, b) in itertools.combinations(by_pair.items(), 2)
        if m[0] != n[0]
    ]
    trainings = [covariance(a, b) for y in by_pair.values() for a, b in itertools.combinations(y, 2)]
    draws = [covariance(a, b) for c in found for y in c.success for a, b in itertools.combinations(y, 2)]
    single, several = (_multiple(pool, env, kind) for kind in ("cell", "cells"))
    covariances = [float(np.nanmean(v)) for v in (methods, trainings)]
    total = (
        whole(float(np.nanmean(draws)), rate)
        if draws
        else np.sqrt(whole(covariances[1], rate) ** 2 + UNSEEN**2 + single)
    )
    episode, both = (deviation(v, rate, total) for v in covariances)
    rest = [
        float(np.sqrt(max(0.0, b**2 - a**2))) for a, b in ((episode, both), (np.hypot(both, np.sqrt(single)), total))
    ]
    shared = float(np.clip(1 - several / single, 0, 0.95)) if single else 0.5
    return World(float(np.sqrt(single)), episode, *rest, shared), rate


def _multiple(pool, env: str, kind: str) -> float:
    """The pooled variance between trainings as one of logits."""
    alike = [t for t in pool.known if (t.env, t.kind) == (env, kind)]
    size = sum((t.n - 1) * t.scale for t in alike)
    return max(0.0, sum((t.n - 1) * (t.variance - t.noise) for t in alike) / size) if size else 0.0


def covariance(a: np.ndarray, b: np.ndarray) -> float:
    """Over the pairs (E,) that both have; NaN with fewer than three."""
    there = ~np.isnan(a) & ~np.isnan(b)
    return float(np.cov(a[there], b[there])[0, 1]) if there.sum() > 2 else np.nan


def deviation(covariance: float, rate: float, total: float) -> float:
    """Of the part of a logit that two outcomes share, which have this covariance; `total` is that of the whole logit."""
    level = _level(rate, total)

    def between(shared: float) -> float:
        rest = np.sqrt(max(0.0, total**2 - shared**2))
        chances = special.expit(level + shared * X[:, None] + rest * X) @ WEIGHTS  # given what is shared
        return float(WEIGHTS @ (chances - rate) ** 2)

    if not covariance > 0 or not 0 < rate < 1 or total <= 0:
        return 0.0
    if covariance >= between(total):
        return total
    return float(optimize.brentq(lambda shared: between(shared) - covariance, 0.0, total))


def whole(covariance: float, rate: float) -> float:
    """Of a logit of which two outcomes share everything."""

    def between(total: float) -> float:
        return float(WEIGHTS @ (special.expit(_level(rate, total) + total * X) - rate) ** 2)

    if not covariance > 0 or not 0 < rate < 1:
        return 0.0
    return (
        float(optimize.brentq(lambda t: between(t) - covariance, 0.0, WIDEST))
        if covariance < between(WIDEST)
        else WIDEST
    )


def _level(rate: float, total: float) -> float:
    return float(optimize.brentq(lambda z: WEIGHTS @ special.expit(z + total * X) - rate, -60, 60))
