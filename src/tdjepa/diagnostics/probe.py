"""Probe: how well does a linear map read the true state from the latent, on episodes that neither was fitted to?

Perception: ridge regression from z to the physical quantities of the state. Prediction: the same map applied to latents that
are rolled out open loop, as the planner rolls them out, so that errors come in the units of the success criterion. A model
cannot plan to what it does not see; but a good probe does not promise good plans.
"""

from collections.abc import Callable

import numpy as np
import torch

from tdjepa.data.store import Store
from tdjepa.errors import UserError
from tdjepa.model.world_model import WorldModel

RIDGE = 1e-3  # relative to the mean variance of a latent: only there to keep the normal equations solvable


def circle(angle: np.ndarray) -> np.ndarray:
    """An angle has a jump; its sine and cosine have none. (N,) -> (N, 2)"""
    return np.stack([np.sin(angle), np.cos(angle)], 1)


# what is read from the states (N, S) of each environment: {quantity: states -> (N, k)}
QUANTITIES: dict[str, dict[str, Callable[[np.ndarray], np.ndarray]]] = {
    "two_room": {"agent": lambda s: s[:, :2]},
    "push_t": {"agent": lambda s: s[:, :2], "block": lambda s: s[:, 2:4], "angle": lambda s: circle(s[:, 4])},
}


def fit(z: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Ridge regression with an intercept. z (N, D), y (N, k) -> a function (..., D) -> (..., k)"""
    mean_z, mean_y = z.mean(0), y.mean(0)
    centred = z - mean_z
    gram = centred.T @ centred
    ridge = RIDGE * np.trace(gram) / len(gram) + 1e-12  # a collapsed latent reads the mean
    weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), centred.T @ (y - mean_y))
    return lambda new: (new - mean_z) @ weights + mean_y


def error(found: np.ndarray, true: np.ndarray) -> float:
    """Root mean square of the Euclidean distance; (N, k), (N, k) -> units of the state (an angle: chord, nearly radians)"""
    return float(np.sqrt(((found - true) ** 2).sum(-1).mean()))


def draw(data: Store, episodes: np.ndarray, n: int, span: int, rng: np.random.Generator) -> np.ndarray:
    """n rows of these episodes that are followed by `span` more of their episode; (n,)"""
    fitting = np.asarray(episodes)[data.length[episodes] > span]
    if not len(fitting):
        raise UserError(f"{data.path}: no held-out episode has the {span + 1} rows that the probe needs")
    chosen = rng.choice(fitting, n)
    return data.offset[chosen] + (rng.uniform(size=n) * (data.length[chosen] - span)).astype(int)


@torch.inference_mode()
def encode(model: WorldModel, frames: np.ndarray, chunk: int = 128) -> torch.Tensor:
    """(N, H, W, 3) -> (N, D)"""
    return torch.cat([model.encode(torch.from_numpy(frames[k : k + chunk])) for k in range(0, len(frames), chunk)])


@torch.inference_mode()
def probe(
    model: WorldModel,
    data: Store,
    quantities: dict[str, Callable[[np.ndarray], np.ndarray]],
    train: np.ndarray,
    held_out: np.ndarray,
    frameskip: int,
    horizon: int,
    rng: np.random.Generator,
    n: int = 2000,
) -> dict[str, dict[str, float | list[float]]]:
    """Errors on held-out episodes of a probe that was fitted on training episodes.

    -> {quantity: {"seen": error, "r2": share of the variance, "chance": error of the mean,
                   "ahead": errors 1..horizon model steps ahead, "still": errors if nothing moved}}
    """
    span = horizon * frameskip
    fitted, tested = draw(data, train, 2 * n, 0, rng), draw(data, held_out, n, span, rng)
    z_fit, z = encode(model, data.pixels[fitted]).numpy(), encode(model, data.pixels[tested])
    blocks = data.action[tested[:, None] + np.arange(span)].reshape(n, horizon, -1)
    c = model.standardise(torch.from_numpy(blocks))
    z_hat = torch.cat(
        [model.rollout(z[k : k + 128, None], model.action_encoder(c[k : k + 128])) for k in range(0, n, 128)]
    )
    out = {}
    for name, quantity in quantities.items():
        true = [quantity(data.state[tested + k * frameskip]) for k in range(horizon + 1)]
        read = fit(z_fit.astype(np.float64), quantity(data.state[fitted]))
        seen, chance = read(z.numpy()), true[0].mean(0)
        out[name] = {
            "seen": error(seen, true[0]),
            "r2": 1 - error(seen, true[0]) ** 2 / error(chance, true[0]) ** 2,
            "chance": error(chance, true[0]),
            "ahead": [error(read(z_hat[:, k].numpy()), true[k + 1]) for k in range(horizon)],
            "still": [error(true[0], true[k + 1]) for k in range(horizon)],
        }
    return out
