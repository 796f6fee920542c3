"""Prediction losses: one step ahead (eq. 2), and open loop as the planner will use the model (eq. 8, and RC-aux's)."""

import numpy as np
import torch
import torch.nn.functional as F


def one_step(z_hat, z_next, detach: bool):
    """Mean square error of the next latents of the context frames. z_hat (B, h, D), z_next (B, h, D) -> scalar"""
    return F.mse_loss(z_hat, z_next.detach() if detach else z_next)


def rollout(z_hat, z_future, horizons: tuple[int, ...], detach: bool = True):
    """Open loop: the mean over the steps, averaged over several horizons. Shapes as in `open_loop`."""
    target = z_future.detach() if detach else z_future
    return torch.stack([F.mse_loss(z_hat[:, :h], target[:, :h]) for h in horizons]).mean()


def open_loop(z_hat, z_future, detach: bool):
    """RC-aux: later steps count more, step k counts k / (1 + ... + H). z_hat (B, H, D), z_future (B, H, D) -> scalar"""
    target = z_future.detach() if detach else z_future
    weights = torch.arange(1, z_hat.shape[1] + 1, device=z_hat.device, dtype=z_hat.dtype)
    return (z_hat - target).square().mean((0, 2)) @ (weights / weights.sum())


def draw_horizon(longest: int, curriculum: int, epoch: int, rng: np.random.Generator) -> int:
    """One horizon for the whole batch, uniform from 1 to a limit that grows evenly and is `longest` from epoch `curriculum` on
    (RC-aux's curriculum; epochs count from 1)."""
    return int(rng.integers(1, 2 + round((longest - 1) * min(1.0, epoch / curriculum))))
