"""`tdjepa probe`: can the true state be read from the latent, on episodes that neither model nor probe was fitted to?

Perception: ridge regression from z to the physical quantities of the state, on the latent itself (linear) and also with a
Gaussian kernel of it, which finds what is there but bent. Prediction: the kernel's map applied to latents that are rolled out
open loop, as the planner does, so that errors have the units of the success criterion: along logged actions, and along white
and coloured ones as a planner draws them, which nobody demonstrated.
A model cannot plan to what it does not see, but a good probe does not promise good plans.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from tdjepa.base.artefacts import sha256_of_input, write_json
from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config.slices import ProbeSlice
from tdjepa.data.store import Store
from tdjepa.envs.base import make
from tdjepa.mining.split import read as read_split
from tdjepa.model.checkpoint import load, of
from tdjepa.model.world_model import WorldModel, encode_in_parts
from tdjepa.steps import candidates

RIDGE = 1e-3  # relative to the mean variance of a latent: only there to keep the normal equations solvable
KERNEL_RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # relative to the kernel's diagonal; a fifth of the fitted frames chooses
CENTRES = 1600  # training frames that the kernel compares with, at most
CHUNK = 128  # frames in the model at a time

KINDS = ("white", "coloured")

Map = Callable[[np.ndarray], np.ndarray]


def circle(angle: np.ndarray) -> np.ndarray:
    """An angle has a jump; its sine and cosine have none. (N,) -> (N, 2)"""
    return np.stack([np.sin(angle), np.cos(angle)], 1)


# what is read from the states (N, S) of each environment: {(quantity, unit): states -> (N, k)}; the error of an angle is a
# chord, which is nearly radians while it is small
AGENT = {("agent", "px"): lambda s: s[:, :2]}
QUANTITIES: dict[str, dict[tuple[str, str], Map]] = {
    "two_room": AGENT,
    "reacher": {("shoulder", "rad"): lambda s: circle(s[:, 0]), ("wrist", "rad"): lambda s: circle(s[:, 1])},
    "push_t": AGENT | {("block", "px"): lambda s: s[:, 2:4], ("angle", "rad"): lambda s: circle(s[:, 4])},
    "cube": {("cube", "cm"): lambda s: 100 * s[:, 14:17], ("effector", "cm"): lambda s: 100 * s[:, 61:64]},
}


def fit(z: np.ndarray, y: np.ndarray) -> Map:
    """Ridge regression with an intercept. z (N, D), y (N, k) -> a function (..., D) -> (..., k)"""
    mean_z, mean_y = z.mean(0), y.mean(0)
    centred = z - mean_z
    gram = centred.T @ centred
    ridge = RIDGE * np.trace(gram) / len(gram) + 1e-12  # a collapsed latent reads the mean
    weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), centred.T @ (y - mean_y))
    return lambda new: (new - mean_z) @ weights + mean_y


def fit_kernel(z: np.ndarray, y: np.ndarray) -> Map:
    """`fit`, and ridge regression of what it leaves over on a Gaussian kernel as wide as the median distance of two latents."""
    n = min(CENTRES, 4 * len(z) // 5)
    centres, line = z[:n], fit(z[:n], y[:n])
    distances = squared_distances(centres, centres)
    width = np.median(distances) + 1e-12  # all latents alike: a constant kernel
    gram = np.exp(-distances / width)

    def read(ridge: float) -> Map:
        weights = np.linalg.solve(gram + ridge * np.eye(n), y[:n] - line(centres))
        return lambda new: line(new) + np.exp(-squared_distances(new, centres) / width) @ weights

    rest = slice(n, n + CENTRES // 4)
    return min(map(read, KERNEL_RIDGES), key=lambda found: error(found(z[rest]), y[rest]))


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(N, D), (M, D) -> (N, M)"""
    return np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T, 0)


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
def imagine(model: WorldModel, z: torch.Tensor, blocks: np.ndarray) -> torch.Tensor:
    """Latents after each of the action blocks; (N, D), (N, H, frameskip * A) -> (N, H, D)"""
    c = model.standardise(torch.from_numpy(blocks))
    parts = zip(z[:, None].split(CHUNK), c.split(CHUNK), strict=True)
    return torch.cat([model.rollout(start, model.action_encoder(actions)) for start, actions in parts])


def probe(
    model: WorldModel, data: Store, quantities, train, test, frameskip: int, horizon: int, rng, n: int, drawn=None
):
    """Errors on n held-out frames of probes that were fitted on 2 n frames of training episodes. -> records, by quantity

    mean: the error of always saying the mean; linear, kernel: read from the frame's latent; ahead: read (by the kernel) from
    the latent imagined 1..horizon model steps ahead; still: error of the true state if nothing moved. `drawn` gives other
    actions than logged ones from some states and where they lead (candidates.py); ahead and still of each kind are beside.
    """
    span = horizon * frameskip
    fitted, tested = draw(data, train, 2 * n, 0, rng), draw(data, test, n, span, rng)
    z_fit, z = (encode_in_parts(model, data.pixels[rows], CHUNK) for rows in (fitted, tested))
    blocks = data.action[tested[:, None] + np.arange(span)].reshape(n, horizon, -1)
    ways = {"": (imagine(model, z, blocks), [data.state[tested + k * frameskip] for k in range(1, horizon + 1)])}
    for kind, (actions, states) in (drawn(data.state[tested]) if drawn else {}).items():
        ways[kind] = imagine(model, z[: len(actions)], actions), states
    z_fit, z = (latents.double().numpy() for latents in (z_fit, z))
    out = []
    for (name, unit), quantity in quantities.items():
        now, known = quantity(data.state[tested]), quantity(data.state[fitted])
        line, bent = fit(z_fit, known), fit_kernel(z_fit, known)
        record = {"quantity": name, "unit": unit, "mean": error(now.mean(0), now)}
        record |= {"linear": error(line(z), now), "kernel": error(bent(z), now)}
        for kind, (z_hat, states) in ways.items():
            later, z_hat = [quantity(after) for after in states], z_hat.double().numpy()
            errors = {"ahead": [error(bent(z_hat[:, k]), true) for k, true in enumerate(later)]}
            errors["still"] = [error(now[: len(true)], true) for true in later]
            record |= {kind: errors} if kind else errors
        out.append(record)
    return out


def run(cfg: ProbeSlice, episodes: Path, split: Path, checkpoint: Path, out: Path) -> dict:
    """Probe one checkpoint on the test part and write the errors into `out` (JSON)."""
    data = Store(episodes)
    model, _ = load(checkpoint, of(cfg, cfg.last_epoch))
    parts = {name: np.asarray(part) for name, part in read_split(split, data.episodes).items()}
    where = (QUANTITIES[cfg.env], parts["train"], parts["test"], cfg.frameskip, cfg.horizon)
    moments = data.action_statistics(parts["train"])
    how = (moments, cfg.frameskip, cfg.horizon, cfg.colour, cfg.seed)
    found = probe(
        model,
        data,
        *where,
        stream(cfg.seed, "probe"),
        cfg.frames,
        lambda states: candidates.drawn(make(cfg.env), states[: cfg.candidates], *how),
    )
    who = {"env": cfg.env, "method": cfg.method_name, "train_seed": cfg.seed, "epoch": cfg.last_epoch}
    made = {"frames": cfg.frames, "checkpoint": sha256_of_input(checkpoint)}
    # five significant digits: further ones depend on the machine
    rounded = json.loads(json.dumps(found), parse_float=lambda digits: float(f"{float(digits):.5g}"))
    write_json(out, {**who, **made, "quantities": rounded})
    return {
        f"{r['quantity']} ({r['unit']})": f"always the mean {r['mean']:.3g}, linear {r['linear']:.3g}, "
        f"kernel {r['kernel']:.3g}, imagined {r['ahead'][0]:.3g} after 1 step, {r['ahead'][-1]:.3g} after {cfg.horizon}, "
        + ", ".join(
            f"{r[kind]['ahead'][-1]:.3g} along {kind} actions (still {r[kind]['still'][-1]:.3g})" for kind in KINDS
        )
        for r in found
    } | {"file": out}
