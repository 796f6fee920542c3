"""Held-out pairs of frames of one episode with their step gap tau, for the rank correlation of a cost with progress."""

import numpy as np
import pandas as pd


def draw(lengths, episodes, n: int, max_gap: int, near_end: int, far_end: int, rng, order: str) -> pd.DataFrame:
    """n pairs (episode, i, j) with tau = j - i in 1..max_gap.
    `start_first`, as published: i uniform in the episode, then j uniform in the max_gap steps after it, or those that are left;
    so pairs near the end are close to each other. `gap_first`: tau uniform, then i among the starts that leave room for it.
    Strata as in the paper: the goal j lies at most near_end (`near`) or at least far_end (`far`) steps before the end."""
    shortest = 1 if order == "start_first" else max_gap
    episode = rng.choice(np.asarray(episodes)[lengths[episodes] > shortest], n)
    last = lengths[episode] - 1
    if order == "start_first":
        i = rng.integers(0, last)
        tau = rng.integers(1, np.minimum(max_gap, last - i) + 1)
    else:
        tau = rng.integers(1, max_gap + 1, n)
        i = rng.integers(0, last + 1 - tau)
    to_end = last - (i + tau)
    pairs = pd.DataFrame({"episode": episode, "i": i, "j": i + tau, "tau": tau, "to_end": to_end})
    return pairs.assign(near=to_end <= near_end, far=to_end >= far_end)
