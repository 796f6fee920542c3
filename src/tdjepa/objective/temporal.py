"""The temporal-distance loss (eq. 8): d_psi regresses the step gap within a window and stays above a margin across windows."""

import numpy as np
import torch
import torch.nn.functional as F


def draw_pairs(batch: int, window: int, rng: np.random.Generator):
    """One pair i < j a window, and for each window another one to borrow a goal from. -> i (B,), j (B,), other (B,)

    i is uniform in 0..T-2, j = min(i + U{1..T-1}, T-1); `other` is a permutation whose fixed points are moved on by one.
    """
    i = rng.integers(0, window - 1, batch)
    j = np.minimum(i + rng.integers(1, window, batch), window - 1)
    other = rng.permutation(batch)
    fixed = other == np.arange(batch)
    other[fixed] = (other[fixed] + 1) % batch
    return i, j, other


def temporal(head, z, pairs, margin: float, negatives: bool):
    """z (B, T, D), pairs from draw_pairs, margin in model steps. -> (positive, negative), two scalars"""
    i, j, other = (torch.as_tensor(index, device=z.device) for index in pairs)
    rows = torch.arange(len(z), device=z.device)
    start, goal = head.features(z[rows, i]), head.features(z[rows, j])
    positive = F.smooth_l1_loss(head.distance(start, goal), (j - i).to(z.dtype))
    if not negatives:
        return positive, z.new_zeros(())
    stranger = head.features(z[other, j])  # the goal at the same time index of another window
    return positive, F.relu(margin - head.distance(start, stranger)).mean()
