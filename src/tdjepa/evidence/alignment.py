"""How well a cost ranks held-out pairs of frames by their step gap tau, and whether d_psi counts steps."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tdjepa.base.errors import UserError, reason
from tdjepa.evidence.columns import MEASURES, SPLITS
from tdjepa.evidence.guard import require_keys
from tdjepa.evidence.summary import quotient

COLUMNS = ["env", "method", "train_seed", "episode", "tau", "near", "far", "d_psi", "l2"]
BINS = 5  # of equal width over the gaps, for "rises with the gap"


def read(paths: Sequence[str | Path]) -> pd.DataFrame:
    """The pairs of several diagnostics; `epoch` is 0 where they do not say."""
    frames = [_read_one(Path(path)) for path in paths]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({name: [] for name in [*COLUMNS, "epoch"]})


def _read_one(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except Exception as error:  # damage shows in many ways
        raise UserError(f"{path}: not a readable parquet file ({reason(error)})") from None
    require_keys(path, frame, COLUMNS)
    return frame.assign(epoch=frame.get("epoch", 0))[[*COLUMNS, "epoch"]]


def last(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs as the last measured checkpoint of each training sees them."""
    if "epoch" not in pairs or pairs.empty:
        return pairs
    return pairs[pairs["epoch"] == pairs.groupby(["env", "method", "train_seed"])["epoch"].transform("max")]


def spearman(pairs: pd.DataFrame) -> pd.DataFrame:
    """One line (env, method, train_seed, epoch, split, measure, rho, n) per checkpoint, stratum and cost."""
    lines, key = [], ["env", "method", "train_seed", "epoch"]
    pairs = pairs if "epoch" in pairs else pairs.assign(epoch=0)
    for (env, method, seed, epoch), of_checkpoint in pairs.groupby(key, sort=True):
        for split in SPLITS:
            part = of_checkpoint if split == "all" else of_checkpoint[of_checkpoint[split].astype(bool)]
            for measure in MEASURES:
                x, tau = part[[measure, "tau"]].dropna().to_numpy().T
                rho = float(correlation(x, tau)[0]) if len(x) > 2 else np.nan
                if not np.isnan(rho):
                    lines.append((env, method, int(seed), int(epoch), split, measure, rho, len(x)))
    return pd.DataFrame(lines, columns=[*key, "split", "measure", "rho", "n"])


def correlation(values: np.ndarray, tau: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(B,): Spearman's correlation of values (n,) with tau (n,) where row i counts weights[b, i] times, or once (B = 1)."""
    weights = np.ones((1, len(values))) if weights is None else weights
    a, b = _ranks(values, weights), _ranks(tau, weights)  # (B, n)
    total = weights.sum(1, keepdims=True)
    a, b = (x - (weights * x).sum(1, keepdims=True) / total for x in (a, b))
    spread = np.sqrt((weights * a**2).sum(1) * (weights * b**2).sum(1))
    return quotient((weights * a * b).sum(1), spread, least=1e-9)


def _ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B, n): the average rank of each value among all values with their multiplicities (B, n)."""
    _, member = np.unique(values, return_inverse=True)  # ties share a rank
    order = np.argsort(member, kind="stable")
    starts = np.flatnonzero(np.diff(member[order], prepend=-1))
    of_value = np.add.reduceat(weights[:, order], starts, axis=1)  # (B, distinct)
    return (np.cumsum(of_value, 1) - (of_value - 1) / 2)[:, member]


def calibration(pairs: pd.DataFrame) -> pd.DataFrame:
    """Mean and sample std of d_psi for each tau, all checkpoints of the frame together: columns tau, mean, std, n."""
    known = pairs.dropna(subset=["d_psi"])
    by_tau = known.groupby("tau", sort=True)["d_psi"].agg(["mean", "std", "count"]).reset_index()
    return by_tau.rename(columns={"count": "n"}).astype({"tau": int}).replace({"std": {np.nan: 0.0}})


def smallest_rise(d_psi: np.ndarray, tau: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(B,): the smallest step of the weighted mean of d_psi from one of BINS bins of tau to the next; NaN for an empty bin."""
    weights = np.ones((1, len(d_psi))) if weights is None else weights
    edges = np.linspace(tau.min() - 0.5, tau.max() + 0.5, BINS + 1)
    onto = np.eye(BINS)[np.digitize(tau, edges[1:-1])]  # (n, BINS)
    return np.diff(quotient((weights * d_psi) @ onto, weights @ onto), axis=1).min(1)
