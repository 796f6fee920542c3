"""The temporal-distance loss (eq. 6): d_psi regresses the step gap within a window and stays above a margin across windows."""

import numpy as np
import torch
import torch.nn.functional as F

from tdjepa.base.transfer import moved


def draw_pairs(batch: int, window: int, rng: np.random.Generator):
    """One pair i < j per window: i uniform in 0..T-2, j = min(i + U{1..T-1}, T-1). -> i (B,), j (B,)"""
    i = rng.integers(0, window - 1, batch)
    return i, np.minimum(i + rng.integers(1, window, batch), window - 1)


def pair_weights(window: int) -> np.ndarray:
    """The probability that `draw_pairs` gives (i, j); (T, T), sums to 1."""
    weights = np.triu(np.full((window, window), 1.0), 1)
    weights[:, -1] = np.arange(window) + 1  # all steps that would lead past the end stop there
    weights[-1] = 0
    return weights / (window - 1) ** 2


def strangers(batch: int, rng: np.random.Generator, siblings: int = 1) -> np.ndarray:
    """For each window, another one to borrow a goal from: a permutation whose fixed points are moved on by one. (B,)

    Where so many `siblings` of one episode stand side by side in the batch, whole families are permuted.
    """
    families = batch // siblings
    other = rng.permutation(families)
    fixed = other == np.arange(families)
    other[fixed] = (other[fixed] + 1) % families
    return (other[:, None] * siblings + np.arange(siblings)).reshape(-1)


def one_pair(head, z, i, j, other, margin: float):
    """The published estimator: a single pair per window. z (B, T, D) -> (positive, negative), two scalars"""
    i, j, other = (moved(index, z.device) for index in (i, j, other))
    rows = torch.arange(len(z), device=z.device)
    start, goal, stranger = (head.features(f) for f in (z[rows, i], z[rows, j], z[other, j]))
    positive = F.smooth_l1_loss(head.distance(start, goal), (j - i).to(z.dtype))
    return positive, F.relu(margin - head.distance(start, stranger)).mean()


def all_pairs(head, z, other, margin: float):
    """The same in expectation over the pair: every i < j, weighted by how often it would be drawn, with far less noise."""
    weights = pair_weights(z.shape[1])
    pairs = weights.nonzero()
    i, j, share, other = (moved(x, z.device) for x in (*pairs, weights[pairs], other))  # (pairs,) and (B,)
    share = share.to(z.dtype)
    own = torch.arange(len(z), device=z.device)
    goals = torch.stack([own, other])[..., None] * z.shape[1] + j  # (2, B, pairs)
    features = head.features(z).flatten(0, 1)  # (B * T, F)
    starts = F.embedding(own[:, None] * z.shape[1] + i, features)  # not by [:, i], whose gradient is slow
    within, across = head.distance(starts, F.embedding(goals, features))  # (B, pairs) each
    positive = F.smooth_l1_loss(within, (j - i).to(z.dtype).expand_as(within), reduction="none")
    return (positive @ share).mean(), (F.relu(margin - across) @ share).mean()
