"""What is in a data set: the statistics that go into the card of an episodes file."""

import numpy as np

LAGS = range(1, 6)  # of the autocorrelation, in steps


def statistics(lengths: np.ndarray, actions: np.ndarray) -> dict:
    """Counts, lengths and action moments; lengths (E,), actions (rows, A).

    The action of an episode's last row leads out of it and does not count, if there is one.
    """
    inner = actions.copy()
    inner[np.cumsum(lengths) - 1] = np.nan
    return {
        "episodes": len(lengths),
        "rows": int(lengths.sum()),
        "length_mean": float(lengths.mean()),
        "length_min": int(lengths.min()),
        "length_max": int(lengths.max()),
        "action_mean": np.nanmean(inner, 0, dtype=np.float64).tolist(),
        "action_std": np.nanstd(inner, 0, dtype=np.float64).tolist(),
        "action_autocorrelation": [autocorrelation(inner, lag) for lag in LAGS],
    }


def share(these: np.ndarray | None) -> float | None:
    """How many of these (bool) are true; None if there are none."""
    return float(these.mean()) if these is not None and len(these) else None


def autocorrelation(actions: np.ndarray, lag: int) -> float:
    """Correlation of an action with the one `lag` steps later, averaged over dimensions; the NaN at an episode's end keeps
    pairs from spanning two episodes (for lag 1; longer lags lose a few pairs, never mix any)."""
    centred = actions - np.nanmean(actions, 0)
    gaps = np.cumsum(np.isnan(actions).any(1))  # rows of one episode share a number
    same = (gaps[lag:] == gaps[:-lag])[:, None]
    product = np.where(same, centred[lag:] * centred[:-lag], np.nan)
    return float(np.mean(np.nanmean(product, 0, dtype=np.float64) / np.nanvar(actions, 0, dtype=np.float64)))
