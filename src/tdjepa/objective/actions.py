"""Losses on the action head: which actions lie between two latents?

Inverse dynamics (SMWM, PLDM) asks it of neighbouring frames and shapes the latents. Behaviour cloning (GCBC, GC-IDM) asks it
of a frame and any later one of the window, and is acted by: the later frame is the goal.
"""

import torch
import torch.nn.functional as F


def inverse_dynamics(head, z, actions):
    """Mean square error of the block between neighbours. z (B, T, D), z-scored actions (B, T-1, A) -> scalar"""
    steps = torch.ones((), dtype=torch.long, device=z.device)
    return F.mse_loss(head.action(z[:, :-1], z[:, 1:], steps), actions)


def behaviour(head, z, actions):
    """Mean square error of the first block on the way from frame i to frame j, over all i < j. Shapes as above. -> scalar"""
    i, j = torch.triu_indices(z.shape[1], z.shape[1], 1, device=z.device)
    return F.mse_loss(head.action(z[:, i], z[:, j], j - i), actions[:, i])
