"""CEM and iCEM (Algorithms 1 and 2 of the paper) over z-scored action sequences of one episode.

Both minimise `cost(candidates (N, H, A)) -> (N,)` and return the final mean. Noise comes from the caller's generator, one
per (plan seed, episode, plan), so no other episode can change a plan. It is drawn on the CPU, so all devices see the same.
`bounds` are low and high (A,) in the units of the candidates; they also decide the device and the precision.
"""

import functools
from collections.abc import Callable

import torch

from tdjepa.config.records.planning import Planner

Cost = Callable[[torch.Tensor], torch.Tensor]
Bounds = tuple[torch.Tensor, torch.Tensor]


@torch.inference_mode()
def cem(cost: Cost, planner: Planner, refinements: int, generator: torch.Generator, bounds: Bounds) -> torch.Tensor:
    """Algorithm 1; the reference does not clip here. -> (H, A)"""
    mean, std = _start(planner, bounds)
    for _ in range(refinements):
        noise = torch.randn(planner.candidates, *mean.shape, generator=generator, dtype=mean.dtype).to(mean.device)
        candidates = torch.addcmul(mean, noise, std)
        candidates[0] = mean  # always evaluate the current mean
        elites = candidates[cost(candidates).topk(planner.elites, largest=False).indices]
        mean, std = elites.mean(0), _std(elites, planner)
    return mean


@torch.inference_mode()
def icem(cost: Cost, planner: Planner, refinements: int, generator: torch.Generator, bounds: Bounds) -> torch.Tensor:
    """Algorithm 2: coloured noise, clipping, kept elites, smoothed moments. -> (H, A)"""
    mean, std = _start(planner, bounds)
    kept, known = mean.new_empty(0, *mean.shape), mean.new_empty(0)  # elites of the last refinement and their costs
    for _ in range(refinements):
        noise = coloured(planner.candidates, *mean.shape, planner.colour, generator, mean.dtype)
        candidates = torch.addcmul(mean, noise[len(kept) :].to(mean.device), std)
        candidates[0] = mean
        candidates = candidates.clamp(*bounds)
        costs = torch.cat([cost(candidates), known])  # what was imagined once is not imagined again
        best = costs.topk(planner.elites, largest=False)
        elites = torch.cat([candidates, kept])[best.indices]
        kept, known = elites[: planner.keep], best.values[: planner.keep]
        mean = planner.smoothing * mean + (1 - planner.smoothing) * elites.mean(0)
        std = planner.smoothing * std + (1 - planner.smoothing) * _std(elites, planner)
    return mean


def coloured(n: int, horizon: int, action_dim: int, exponent: float, generator: torch.Generator, dtype=torch.float32):
    """Noise whose power falls with frequency^exponent, each sequence renormalised to unit std over the horizon. -> (n, H, A)"""
    white = torch.randn(n, action_dim, horizon, generator=generator, dtype=dtype)
    if horizon > 1:
        shaped = white @ _colour(horizon, exponent, dtype)
        white = shaped / shaped.std(-1, keepdim=True).clamp_min(1e-8)
    return white.transpose(1, 2)


@functools.cache
def _colour(horizon: int, exponent: float, dtype: torch.dtype) -> torch.Tensor:
    """The Fourier transform, the weighting of its waves and the way back as one (H, H) matrix: cheaper for short sequences."""
    frequency = torch.fft.rfftfreq(horizon, dtype=dtype)
    frequency[0] = frequency[1]  # the mean gets the power of the slowest wave
    return torch.fft.irfft(torch.fft.rfft(torch.eye(horizon, dtype=dtype)) * frequency.pow(-exponent / 2), n=horizon)


def _start(planner: Planner, bounds: Bounds):
    mean = torch.zeros_like(bounds[0]).repeat(planner.horizon, 1)  # (H, A)
    return mean, torch.full_like(mean, planner.std)


def _std(elites, planner: Planner):
    return elites.std(0, unbiased=planner.elite_std == "unbiased")
