"""How well a cost ranks held-out pairs of frames by their step gap tau, and whether d_psi counts steps."""

import numpy as np
import pandas as pd
from scipy import stats

SPLITS = ("all", "far", "near")  # by the goal's distance from the episode's end, as in the paper's Table 6
MEASURES = ("d_psi", "l2")


def spearman(pairs: pd.DataFrame) -> pd.DataFrame:
    """One line (env, method, train_seed, split, measure, rho, n) per checkpoint, stratum and cost."""
    lines = []
    for key, of_checkpoint in pairs.groupby(["env", "method", "train_seed"], sort=True):
        for split in SPLITS:
            part = of_checkpoint if split == "all" else of_checkpoint[of_checkpoint[split]]
            for measure in MEASURES:
                usable = part[[measure, "tau"]].dropna()
                if len(usable) > 2 and usable[measure].nunique() > 1 and usable["tau"].nunique() > 1:
                    rho = float(stats.spearmanr(usable[measure], usable["tau"]).statistic)
                    lines.append((*key, split, measure, rho, len(usable)))
    return pd.DataFrame(lines, columns=["env", "method", "train_seed", "split", "measure", "rho", "n"])


def over_seeds(ranks: pd.DataFrame, **where) -> tuple[float, float | None, int] | None:
    """(mean, sample std or None, n) over training seeds of the correlations with these column values, or None."""
    for column, value in where.items():
        ranks = ranks[ranks[column] == value]
    rho = ranks["rho"].to_numpy(float)
    if len(rho) == 0:
        return None
    return float(rho.mean()), float(rho.std(ddof=1)) if len(rho) > 1 else None, len(rho)


def calibration(pairs: pd.DataFrame) -> pd.DataFrame:
    """Mean and sample std of d_psi for each tau, all checkpoints of the frame together: columns tau, mean, std, n."""
    known = pairs.dropna(subset=["d_psi"])
    by_tau = known.groupby("tau", sort=True)["d_psi"].agg(["mean", "std", "count"]).reset_index()
    return by_tau.rename(columns={"count": "n"}).astype({"tau": int}).replace({"std": {np.nan: 0.0}})
