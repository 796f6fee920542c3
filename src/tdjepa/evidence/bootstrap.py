"""A bootstrap interval for a success rate over training seeds, plan seeds and episodes.

The design is crossed: every checkpoint is evaluated with the same plan seeds on the same start-goal pairs. So each of
the three factors is resampled by itself and a resample's rate is the mean over the product of the three draws (the
"pigeonhole" bootstrap, which is conservative for the noise within a combination). Pairs from one episode are drawn
together. Of n levels, n - 1 are drawn, which makes the variance unbiased for the two or three training seeds that are
usual here; a factor with one level cannot vary, and the interval is then conditional on it. Percentile interval. On
simulated data the nominal 95 % are 95 to 99 % where episodes vary most, 100 % for pure noise, and 85 % in the worst
case: three training seeds that differ more than anything else.

Few failures make any bootstrap overconfident: with no failure at all it says [100, 100]. Yet a kind of episode that was
never drawn may make up a share u of all episodes, where (1 - u)^n = (1 - level) / 2. When fewer than FEW episodes ever
failed (or ever succeeded), the interval therefore reaches at least to where all of that share would fail (succeed). For
a cell without failures this is the Clopper-Pearson bound over the distinct episodes.
"""

import numpy as np

FEW = 5


def draw(rng: np.random.Generator, resamples: int, n: int) -> np.ndarray:
    """(resamples, n): how often each of n levels is drawn."""
    return rng.multinomial(max(n - 1, 1), np.full(n, 1 / n), size=resamples).astype(float)


def draw_clusters(rng: np.random.Generator, resamples: int, clusters: np.ndarray) -> np.ndarray:
    """(resamples, E): how often each pair is drawn when pairs of one cluster, (E,) labels, go together."""
    labels, member = np.unique(clusters, return_inverse=True)
    return draw(rng, resamples, len(labels))[:, member]


def resampled_means(success: np.ndarray, train: np.ndarray, plan: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """(B,): the weighted mean of success (T, P, E), NaN = missing, under weights (B, T), (B, P), (B, E)."""
    there = ~np.isnan(success)

    def total(values):  # (T, P, E) -> (B,)
        by_pair = np.einsum("tpe,be->btp", values, pair, optimize=True)
        return np.einsum("btp,bt,bp->b", by_pair, train, plan, optimize=True)

    count = total(there.astype(float))
    summed = total(np.where(there, success, 0.0))
    return np.divide(summed, count, out=np.full(len(count), np.nan), where=count > 0)


def unseen_share(n: int, level: float) -> float:
    """The largest share of episodes of a kind of which n draws may well have shown none."""
    return 1 - ((1 - level) / 2) ** (1 / n)


def interval(
    success: np.ndarray, clusters: np.ndarray, rng: np.random.Generator, resamples: int, level: float
) -> tuple[float, float, str]:
    """(low, high, kind) in percent of success (T, P, E) with clusters (E,).

    kind is "bootstrap", or names the side that the exact bound opened: "exact_low", "exact_high", "exact".
    """
    success, clusters = drop_empty(success, clusters)
    t, p, _ = success.shape
    means = resampled_means(
        success, draw(rng, resamples, t), draw(rng, resamples, p), draw_clusters(rng, resamples, clusters)
    )
    rate = np.nanmean(success)
    low, high = quantiles(means, rate, level)
    share = unseen_share(len(np.unique(clusters)), level)
    few_failed = episodes_with(success < 1, clusters) < FEW
    few_succeeded = episodes_with(success > 0, clusters) < FEW
    if few_failed:
        low = min(low, (1 - share) * rate)
    if few_succeeded:
        high = max(high, (1 - share) * rate + share)
    kind = {(0, 0): "bootstrap", (1, 0): "exact_low", (0, 1): "exact_high", (1, 1): "exact"}
    return 100 * low, 100 * high, kind[few_failed, few_succeeded]


def quantiles(means: np.ndarray, estimate: float, level: float) -> tuple[float, float]:
    """The percentile interval of resampled values (B,), never leaving out the estimate itself."""
    low, high = np.nanquantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(min(low, estimate)), float(max(high, estimate))


def episodes_with(event: np.ndarray, clusters: np.ndarray) -> int:
    """In how many clusters (E,) the event (T, P, E) ever happened; NaN compares False, so missing is no event."""
    return len(np.unique(clusters[event.any((0, 1))]))


def drop_empty(success: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without the training seeds, plan seeds and pairs that have no row at all."""
    there = ~np.isnan(success)
    t, p, e = there.any((1, 2)), there.any((0, 2)), there.any((0, 1))
    return success[np.ix_(t, p, e)], clusters[e]
