"""The reachability losses of RC-aux, in the two versions that exist: is the goal within the planner's reach or not?

`pairs` is the re-implementation by the authors of the paper under study: one fixed budget, sampled pairs. `budgets` is the
version of RC-aux's own authors: every budget of every pair that starts at the last context frame.
"""

import numpy as np
import torch
import torch.nn.functional as F

from tdjepa.base.transfer import moved
from tdjepa.objective.temporal import draw_pairs, strangers


def draw_far_pairs(batch: int, window: int, horizon: int, rng: np.random.Generator):
    """One pair i, j per window, over `horizon` steps apart: i in 0..T-horizon-2, j = min(i + U{horizon+1..T-1}, T-1)."""
    i = rng.integers(0, window - 1 - horizon, batch)
    return i, np.minimum(i + rng.integers(horizon + 1, window, batch), window - 1)


def pairs(head, z, near, far, other, horizon: int):
    """The sum of three mean cross-entropies: of a drawn pair (reachable if j - i <= horizon), of a far pair (not reachable),
    and of the drawn start with the goal of another window (not reachable).

    z (B, T, D); near = (i, j) and far = (i, j) index arrays (B,), far None if the window is too short for one -> scalar
    """
    i, j, other = (moved(index, z.device) for index in (*near, other))
    rows = torch.arange(len(z), device=z.device)
    start, reachable = z[rows, i], (j - i <= horizon).to(z.dtype)
    loss = F.binary_cross_entropy_with_logits(head.logit(start, z[rows, j]), reachable)
    loss = loss + F.softplus(head.logit(start, z[other, j])).mean()
    if far is not None:
        i, j = (moved(index, z.device) for index in far)
        loss = loss + F.softplus(head.logit(z[rows, i], z[rows, j])).mean()
    return loss


def drawn_pairs(batch: int, window: int, horizon: int, rng: np.random.Generator, siblings: int = 1):
    """The arguments near, far and other of `pairs` for one batch."""
    near = draw_pairs(batch, window, rng)
    far = draw_far_pairs(batch, window, horizon, rng) if window - 1 > horizon else None
    return near, far, strangers(batch, rng, siblings)


def within(horizon: int):
    """All (d, b) with 1 <= d <= b <= horizon: a goal d steps ahead can be reached in b. -> (2, pairs)"""
    return np.add(np.triu_indices(horizon), 1)


def beyond(horizon: int):
    """All (d, b) with 1 <= b < d <= horizon, the temporal hard negatives: same trajectory, too few steps. -> (2, pairs)"""
    return np.add(np.tril_indices(horizon, -1), 1)


def exactly(horizon: int):
    """All (d, d): just enough steps. -> (2, pairs)"""
    return np.add(np.diag_indices(horizon), 1)


def branch(head, starts, goals, positives, other, hard: float):
    """0.5 * (positives + (cross-trajectory + hard * temporal negatives) / (1 + hard)), each a mean of cross-entropy.
    starts (B, H, D), goals (B, H, D): entry d - 1 is a pair with d steps in between. -> scalar"""
    other = moved(other, goals.device)

    def logit(goals, pairs):
        d, b = moved(pairs, goals.device)
        return head.logit(starts[:, d - 1], goals[:, d - 1], b)

    reached = F.softplus(-logit(goals, positives)).mean()
    negatives = F.softplus(logit(goals[other], positives)).mean()
    if starts.shape[1] > 1:  # within one step there is no goal that is too far
        negatives = negatives + hard * F.softplus(logit(goals, beyond(starts.shape[1]))).mean()
    return 0.5 * (reached + negatives / (1 + hard))


def budgets(head, z, z_hat, others, predicted: float, hard: float, terminal: float, terminal_predicted: float):
    """RC-aux's own objective: pairs from the context frame to later ones, real and predicted, and progress to the end.

    z (B, 1 + H, D) real latents from the last context frame on, z_hat (B, K, D) predictions after it, K <= H; others: four
    index arrays (B,), one per branch. Terminal progress: from each frame on the way to the K-th, real or predicted, that
    (real) frame is reachable in exactly the steps that are left, and not in fewer. -> scalar
    """
    h, k = z.shape[1] - 1, z_hat.shape[1]
    start, end = z[:, :1], z[:, k : k + 1]
    loss = branch(head, start.expand(-1, h, -1), z[:, 1:], within(h), others[0], 1.0)
    loss = loss + predicted * branch(head, start.expand(-1, k, -1), z_hat, within(k), others[1], hard)
    way = z[:, :k].flip(1)  # entry d - 1 lies d steps before the end
    loss = loss + terminal * branch(head, way, end.expand(-1, k, -1), exactly(k), others[2], 1.0)
    if k > 1:
        way, goal = z_hat[:, :-1].flip(1), end.expand(-1, k - 1, -1)
        loss = loss + terminal_predicted * branch(head, way, goal, exactly(k - 1), others[3], 1.0)
    return loss
