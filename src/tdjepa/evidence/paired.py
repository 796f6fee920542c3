"""Two cells of one environment, compared on the plan seeds and start-goal pairs that both have.

Plan seeds and pairs are the same on both sides, so they are resampled together. Training seeds are the same checkpoints
only when both cells are of one method (two costs, two epochs); two methods' trainings are independent of each other
even under equal seed numbers, so there each side draws its own. A floor has no training and pairs with all checkpoints.

Three tests with different assumptions, because none is right alone: the paired t over plan seeds is the paper's habit
and takes checkpoints and episodes as given; McNemar counts every paired outcome as independent, which it is not, so its
p is too small; the permutation test flips whole episodes, which is right for the checkpoints at hand. Holm corrects the
last. Only the interval of the difference covers new training seeds.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from tdjepa.evidence.bootstrap import FEW, draw, draw_clusters, quantiles, resampled_means, unseen_share
from tdjepa.evidence.summary import Cell, mean, plan_seed_means

PERMUTATIONS = 9_999  # all 2^n sign flips are enumerated instead when there are not more of them


@dataclass(frozen=True)
class Pair:
    a: np.ndarray  # (Ta, P, E) NaN = missing; the same (P, E) as b
    b: np.ndarray  # (Tb, P, E)
    clusters: np.ndarray  # (E,) episode of each start-goal pair
    same_checkpoints: bool  # a[t] and b[t] are one training
    matched: tuple[np.ndarray, np.ndarray] | None  # (T, P, E) twice, broadcastable: outcome by outcome


def align(a: Cell, b: Cell) -> Pair | None:
    """The shared part of two cells of one environment, None when there is none."""
    same = a.method == b.method
    if same:  # one training each: only checkpoints that both have, and only outcomes that both have
        shared = np.intersect1d(a.train_seeds, b.train_seeds)
        xa, xb = _of_seeds(a, shared), _of_seeds(b, shared)
        both = ~np.isnan(xa) & ~np.isnan(xb)
        if not both.any():
            return None
        xa, xb = np.where(both, xa, np.nan), np.where(both, xb, np.nan)
        matched = (xa, xb)
    else:
        both = (~np.isnan(a.success)).any(0) & (~np.isnan(b.success)).any(0)  # (P, E)
        if not both.any():
            return None
        xa, xb = np.where(both, a.success, np.nan), np.where(both, b.success, np.nan)
        matched = _match(a, b)
    plan, pair = (~np.isnan(xa)).any((0, 2)), (~np.isnan(xa)).any((0, 1))
    xa, xb = xa[:, plan][:, :, pair], xb[:, plan][:, :, pair]
    return Pair(xa, xb, a.episodes[pair], same, matched)


def _match(a: Cell, b: Cell) -> tuple[np.ndarray, np.ndarray] | None:
    if not a.trained or not b.trained:
        return a.success, b.success  # a floor has T = 1 and broadcasts
    shared = np.intersect1d(a.train_seeds, b.train_seeds)
    return (_of_seeds(a, shared), _of_seeds(b, shared)) if len(shared) else None


def _of_seeds(cell: Cell, seeds: np.ndarray) -> np.ndarray:
    return cell.success[np.isin(cell.train_seeds, seeds)]


def difference_interval(pair: Pair, rng: np.random.Generator, resamples: int, level: float) -> tuple[float, float, str]:
    """(low, high, kind) of mean(a) - mean(b) in percentage points.

    When fewer than FEW episodes differ from the usual difference, the interval reaches at least to where an unseen
    share of episodes would all go one way (see bootstrap.py), and kind is "exact".
    """
    ta, tb = len(pair.a), len(pair.b)
    plan = draw(rng, resamples, pair.a.shape[1])
    pairs = draw_clusters(rng, resamples, pair.clusters)
    train_a = draw(rng, resamples, ta)
    train_b = train_a if pair.same_checkpoints else draw(rng, resamples, tb)
    means = resampled_means(pair.a, train_a, plan, pairs) - resampled_means(pair.b, train_b, plan, pairs)
    estimate = float(np.nanmean(pair.a) - np.nanmean(pair.b))
    low, high = quantiles(means, estimate, level)
    by_episode = cluster_differences(pair, weighted=False)
    if np.sum(~np.isclose(by_episode, np.median(by_episode))) >= FEW:
        return 100 * low, 100 * high, "bootstrap"
    share = unseen_share(len(by_episode), level)
    low, high = min(low, (1 - share) * estimate - share), max(high, (1 - share) * estimate + share)
    return 100 * low, 100 * high, "exact"


def cluster_differences(pair: Pair, weighted: bool) -> np.ndarray:
    """(C,) difference of each episode: of its two means, or weighted so that the sum is mean(a) - mean(b)."""
    labels, member = np.unique(pair.clusters, return_inverse=True)

    def per_cluster(x):  # (T, P, E) -> sum (C,), count (C,)
        total, count = np.nansum(x, (0, 1)), (~np.isnan(x)).sum((0, 1))
        return np.bincount(member, total, len(labels)), np.bincount(member, count, len(labels))

    (sum_a, n_a), (sum_b, n_b) = per_cluster(pair.a), per_cluster(pair.b)
    return sum_a / n_a.sum() - sum_b / n_b.sum() if weighted else sum_a / n_a - sum_b / n_b


def paired_t(pair: Pair) -> tuple[float | None, float | None]:
    """(t, p) over the plan seeds' means; None for fewer than two seeds or differences without spread."""
    a, b = plan_seed_means(pair.a), plan_seed_means(pair.b)
    if np.std(a - b) < 1e-9:  # also for a single seed
        return None, None
    result = stats.ttest_rel(a, b)
    return float(result.statistic), float(result.pvalue)


def mcnemar(a: np.ndarray, b: np.ndarray) -> float:
    """The exact p over paired outcomes (T, P, E); NaN on either side = no pair; 1 when the two never differ."""
    only_a, only_b = int(np.sum((a == 1) & (b == 0))), int(np.sum((a == 0) & (b == 1)))
    return float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def permutation(pair: Pair, rng: np.random.Generator) -> float:
    """Two-sided p of the mean difference when a and b are exchanged for whole episodes at a time."""
    differences = cluster_differences(pair, weighted=True)
    differences = differences[np.abs(differences) > 1e-12]  # flipping a zero changes nothing
    if len(differences) < 2:  # either sign of a single one is as extreme
        return 1.0
    result = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=PERMUTATIONS, vectorized=True, rng=rng
    )
    return float(min(1.0, result.pvalue))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down correction of p-values (n,)."""
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1.0, stepped)
    return corrected


def compare(a: Cell, b: Cell, rng: np.random.Generator, resamples: int, level: float) -> dict | None:
    """What stats.json says of a against b, without the Holm correction; None when they share nothing."""
    pair = align(a, b)
    if pair is None:
        return None
    low, high, kind = difference_interval(pair, rng, resamples, level)
    t, p_t = paired_t(pair)
    return {
        "env": a.env,
        "a": a.id,
        "b": b.id,
        "difference": mean(pair.a) - mean(pair.b),
        "low": low,
        "high": high,
        "interval": kind,
        "t": t,
        "p_t": p_t,
        "p_mcnemar": None if pair.matched is None else mcnemar(*pair.matched),
        "p_permutation": permutation(pair, rng),
        "n_plan_seeds": pair.a.shape[1],
        "n_episodes": pair.a.shape[2],
    }
