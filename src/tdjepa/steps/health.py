"""Is the training alive? Collapse and divergence are named, with what to change, instead of a useless checkpoint.

Collapse shows in the latents long before it shows in planning: their standard deviation falls towards 0, or they gather on a
few axes (effective rank: the participation ratio of the covariance's eigenvalues). A ViT begins near that state, because its
CLS tokens are nearly equal (Two-Room at paper size: std 0.055), so a training has its warm-up before it is judged.
Divergence is a loss or gradient that is no number any more, or a gradient that stays huge: it is clipped, so one large step
does no harm, but fifty lead nowhere.
"""

import math

import torch

from tdjepa.base.errors import UserError
from tdjepa.config.records.model import Health
from tdjepa.config.slices import TrainSlice

MEMORY = 50  # steps that the smoothed values look back on; nothing is judged before, nor in the warm-up
LATENT = ("latent_std", "effective_rank")


class Readings:
    """What each step measured. It stays on the device until it is taken: to read a number, the host must wait for a GPU."""

    def __init__(self):
        self.names, self.steps, self.values = (), [], []

    def note(self, step: int, values: dict[str, torch.Tensor]) -> None:
        self.names = tuple(values)
        self.steps.append(step)
        self.values.append(torch.stack([value.detach().float() for value in values.values()]))

    def take(self) -> list[tuple[int, dict[str, float]]]:
        """(step, values) of the steps since the last time."""
        rows = torch.stack(self.values).tolist() if self.values else []
        found = [(step, dict(zip(self.names, row, strict=True))) for step, row in zip(self.steps, rows, strict=True)]
        self.steps, self.values = [], []
        return found


@torch.no_grad()
def latent_health(z: torch.Tensor) -> dict[str, torch.Tensor]:
    """Standard deviation and effective rank of the latents of a batch; z (B, T, D)"""
    flat = z.detach().float().flatten(0, 1)
    centred = flat - flat.mean(0)
    covariance = centred.T @ centred / (len(flat) - 1)
    std = covariance.diagonal().clamp_min(0).sqrt().mean()
    return dict(
        zip(LATENT, (std, covariance.trace().square() / covariance.square().sum().clamp_min(1e-12)), strict=True)
    )


def check_health(
    cfg: TrainSlice, name: str, step: int, values: dict[str, float], health: dict[str, float], warm: int = 0
) -> None:
    """Stop a training that cannot come to anything. `health` holds the running means of the steps so far, `warm` of which have
    a growing learning rate."""
    problem = diverged(values)
    if problem is None:
        seen = health["steps"] = health.get("steps", 0) + 1
        for key in (*LATENT, "grad_norm"):  # over about MEMORY steps, exact at the beginning
            old = health.get(key, 0.0)
            health[key] = old + (values[key] - old) / min(seen, MEMORY)
        problem = judged(health, cfg.train.health) if seen >= max(MEMORY, warm) else None
    if problem and "collapsed" in problem:
        weight = cfg.method.terms.sigreg.weight if cfg.method.terms.sigreg else 0
        advice = f"raise the weight of methods.{cfg.method_name}.terms.sigreg (now {weight:g}) or lower train.lr"
    else:
        advice = f"lower train.lr (now {cfg.train.lr:g}) or train.clip (now {cfg.train.clip:g})"
    if problem:
        raise UserError(f"{name}: {problem} at step {step}; {advice}")


def diverged(values: dict[str, float]) -> str | None:
    """What is not finite among the loss, its terms and the gradient norm, in words; None if all is well."""
    values = {name: value for name, value in values.items() if name not in LATENT}
    shown = ", ".join(f"{name} = {value:.3g}" for name, value in values.items())
    return next((f"{name} is not finite ({shown})" for name, v in values.items() if not math.isfinite(v)), None)


def judged(health: dict[str, float], limits: Health) -> str | None:
    """What the running means say against this training, in words; None if all is well."""
    norm, std, rank = (health[name] for name in ("grad_norm", *LATENT))
    if not norm <= limits.max_grad_norm:
        return f"the gradient's norm is {norm:.3g}, at most {limits.max_grad_norm:g} is healthy"
    if std >= limits.min_std and rank >= limits.min_rank:
        return None
    expected = (
        f"std {std:.2g}, at least {limits.min_std:g}",
        f"effective rank {rank:.2f}, at least {limits.min_rank:g}",
    )
    return f"the latents have collapsed ({'; '.join(expected)})"
