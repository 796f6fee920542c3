"""What is in a data set: the statistics that go into the card of an episodes file."""

import numpy as np


def statistics(
    lengths: np.ndarray, actions: np.ndarray, success: np.ndarray | None, trivial: np.ndarray, max_lag: int = 5
) -> dict:
    """Counts, lengths, success and trivial-goal share, action moments.

    lengths (E,) rows an episode; actions (rows, A), NaN at episode ends; success bool, of all that the demonstrator was
    after, None if that was nothing; trivial (pairs,) bool over all start-goal pairs of the protocol's offset.
    """
    return {
        "episodes": len(lengths),
        "rows": int(lengths.sum()),
        "length_mean": float(lengths.mean()),
        "length_min": int(lengths.min()),
        "length_max": int(lengths.max()),
        "success_share": float(success.mean()) if success is not None and len(success) else None,
        "trivial_share": float(trivial.mean()) if len(trivial) else None,
        "action_mean": np.nanmean(actions, 0, dtype=np.float64).tolist(),
        "action_std": np.nanstd(actions, 0, dtype=np.float64).tolist(),
        "action_autocorrelation": [autocorrelation(actions, lag) for lag in range(1, max_lag + 1)],
    }


def autocorrelation(actions: np.ndarray, lag: int) -> float:
    """Correlation of an action with the one `lag` steps later, averaged over dimensions; the NaN at an episode's end keeps
    pairs from spanning two episodes (for lag 1; longer lags lose a few pairs, never mix any)."""
    centred = actions - np.nanmean(actions, 0)
    gaps = np.cumsum(np.isnan(actions).any(1))  # rows of one episode share a number
    same = (gaps[lag:] == gaps[:-lag])[:, None]
    product = np.where(same, centred[lag:] * centred[:-lag], np.nan)
    return float(np.mean(np.nanmean(product, 0, dtype=np.float64) / np.nanvar(actions, 0, dtype=np.float64)))
