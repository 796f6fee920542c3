"""Is the training alive? Collapse and divergence are named, with what to change, instead of a useless checkpoint.

Collapse shows in the latents long before it shows in planning: their standard deviation falls towards 0, or they gather on a
few axes (effective rank: the participation ratio of the covariance's eigenvalues). Divergence is a loss or gradient that is
no longer a number, or a gradient that stays huge. Gradients are clipped, so one large step does no harm; fifty do.
"""

import math

import torch

MEMORY = 50  # steps that the smoothed values look back on; nothing is judged before


@torch.no_grad()
def latent_health(z: torch.Tensor) -> dict[str, torch.Tensor]:
    """Standard deviation and effective rank of the latents of a batch; z (B, T, D)"""
    flat = z.detach().float().flatten(0, 1)
    centred = flat - flat.mean(0)
    covariance = centred.T @ centred / (len(flat) - 1)
    return {
        "latent_std": covariance.diagonal().clamp_min(0).sqrt().mean(),
        "effective_rank": covariance.trace().square() / covariance.square().sum().clamp_min(1e-12),
    }


def diverged(values: dict[str, float]) -> str | None:
    """What is not finite among the loss, its terms and the gradient norm, in words; None if all is well."""
    if not (bad := [name for name, value in values.items() if not math.isfinite(value)]):
        return None
    shown = ", ".join(f"{name} = {value:.3g}" for name, value in values.items())
    return f"{bad[0]} is not finite ({shown})"


def collapsed(std: float, rank: float, min_std: float, min_rank: float) -> str | None:
    """Whether the latents have collapsed, in words; None if all is well."""
    if std >= min_std and rank >= min_rank:
        return None
    return f"the latents have collapsed (std {std:.2g}, at least {min_std:g}; effective rank {rank:.2f}, at least {min_rank:g})"


def exploded(norm: float, limit: float) -> str | None:
    """Whether the gradients have become huge, in words; None if all is well."""
    return None if norm <= limit else f"the gradient's norm is {norm:.3g}, at most {limit:g} is healthy"


def smooth(old: float, new: float, steps: int) -> float:
    """A running mean over about MEMORY steps, exact at the beginning."""
    return old + (new - old) / min(steps, MEMORY)
