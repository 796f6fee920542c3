"""Prediction losses (eqs. 2 and 10): one step ahead, and open loop over the planner's horizon."""

import torch.nn.functional as F


def one_step(predict, z, c, history: int, detach: bool):
    """Mean square error of the next latents of the context frames. z (B, T, D), c (B, T-1, E) -> scalar"""
    target = z[:, 1 : history + 1]
    return F.mse_loss(predict(z[:, :history], c[:, :history]), target.detach() if detach else target)


def rollout(roll, z, c, history: int, horizon: int):
    """Open loop from the context frames on the logged actions, against stop-gradient latents; mean over the horizon."""
    z_hat = roll(z[:, :history], c[:, : history - 1 + horizon])  # (B, H, D)
    return F.mse_loss(z_hat, z[:, history : history + horizon].detach())
