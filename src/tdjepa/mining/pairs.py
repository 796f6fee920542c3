"""Held-out pairs of frames of one episode with their step gap tau, for the rank correlation of a cost with progress."""

import numpy as np
import pandas as pd


def draw(lengths, episodes, n: int, max_gap: int, near_end: int, far_end: int, rng) -> pd.DataFrame:
    """n pairs (episode, i, j) with tau = j - i uniform in 1..max_gap.
    Strata as in the paper: the goal j lies at most near_end (`near`) or at least far_end (`far`) steps before the end."""
    tau = rng.integers(1, max_gap + 1, n)
    usable = np.asarray(episodes)[lengths[episodes] > max_gap]
    episode = rng.choice(usable, n)
    i = rng.integers(0, lengths[episode] - tau)
    to_end = lengths[episode] - 1 - (i + tau)
    pairs = pd.DataFrame({"episode": episode, "i": i, "j": i + tau, "tau": tau, "to_end": to_end})
    return pairs.assign(near=to_end <= near_end, far=to_end >= far_end)
