"""CEM and iCEM (Algorithms 1 and 2 of the paper) over z-scored action sequences of one episode.

Both minimise `cost(candidates (N, H, A)) -> (N,)` and return the final mean. Noise comes from the caller's generator, one
per (plan seed, episode), so no other episode can change a plan.
"""

from collections.abc import Callable

import torch

from tdjepa.params import Planner

Cost = Callable[[torch.Tensor], torch.Tensor]


def cem(cost: Cost, planner: Planner, refinements: int, action_dim: int, generator: torch.Generator) -> torch.Tensor:
    """Algorithm 1. -> (H, A)"""
    mean = torch.zeros(planner.horizon, action_dim)
    std = torch.full_like(mean, planner.std)
    for _ in range(refinements):
        noise = torch.randn(planner.candidates, planner.horizon, action_dim, generator=generator)
        candidates = noise * std + mean
        candidates[0] = mean  # always evaluate the current mean
        elites = candidates[cost(candidates).topk(planner.elites, largest=False).indices]
        mean, std = elites.mean(0), elites.std(0)
    return mean


def icem(
    cost: Cost,
    planner: Planner,
    refinements: int,
    action_dim: int,
    generator: torch.Generator,
    bounds: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Algorithm 2: coloured noise, clipping, kept elites, smoothed moments. `bounds` in z-scored units. -> (H, A)"""
    mean = torch.zeros(planner.horizon, action_dim)
    std = torch.full_like(mean, planner.std)
    kept = None
    for _ in range(refinements):
        noise = coloured(planner.candidates, planner.horizon, action_dim, planner.colour, generator)
        candidates = noise * std + mean
        candidates[0] = mean
        if kept is not None:
            candidates[1 : 1 + len(kept)] = kept
        candidates = candidates.clamp(*bounds)
        elites = candidates[cost(candidates).topk(planner.elites, largest=False).indices]
        kept = elites[: planner.keep]
        mean = planner.smoothing * mean + (1 - planner.smoothing) * elites.mean(0)
        std = planner.smoothing * std + (1 - planner.smoothing) * elites.std(0)
    return mean


def coloured(n: int, horizon: int, action_dim: int, exponent: float, generator: torch.Generator) -> torch.Tensor:
    """Noise whose power falls with frequency^exponent, each sequence renormalised to unit std over the horizon.

    -> (n, H, A)
    """
    white = torch.randn(n, action_dim, horizon, generator=generator)
    if horizon > 1:
        frequency = torch.fft.rfftfreq(horizon)
        frequency[0] = frequency[1]  # the mean gets the power of the slowest wave
        shaped = torch.fft.irfft(torch.fft.rfft(white) * frequency.pow(-exponent / 2), n=horizon)
        white = shaped / shaped.std(-1, keepdim=True).clamp_min(1e-8)
    return white.transpose(1, 2)
