"""Keypoints against the readout `tokens` of the desk scale: CPU seconds from 128 frames to their latents and back to gradients.

    tdjepa bench encoder [--env push_t]

Frames are windows of the environment's own demonstrations, as a training step of LeWM takes them: how much of them is background
decides how much of it both readouts compute. `ratio` is keypoints / tokens; `encoder_ratio` leaves out the projector behind both.
"""

import numpy as np
import torch

from tdjepa.base.allocator import keep_memory
from tdjepa.config.load import load
from tdjepa.config.overlay import merge
from tdjepa.config.parse import parse
from tdjepa.config.records.model import Model
from tdjepa.config.slices import collect_slice
from tdjepa.envs.base import make
from tdjepa.model.world_model import WorldModel, build
from tdjepa.tools.bench.timing import best, result

EPISODES, WINDOWS, WINDOW, FRAMESKIP = 16, 32, 4, 5


def run(env: str = "push_t") -> dict:
    keep_memory()  # as in `tdjepa train`; both sides gain
    torch.set_num_threads(1)
    p = load("params.yaml", "desk")
    frames = demonstrated(p, env)
    models = [of_readout(p.model, readout, frames.shape[1]) for readout in ("keypoints", "tokens")]
    sides = [step(model, frames, whole) for whole in (True, False) for model in models]
    keypoints, tokens, *alone = (seconds / len(frames) for seconds in best(*sides))
    found = {"env": env, "frames": len(frames), "encoder_ratio": round(alone[0] / alone[1], 2)}
    return result("encoder", keypoints / tokens, keypoints, tokens, unit="s per frame", **found)


def demonstrated(p, env: str) -> torch.Tensor:
    """Frames of random windows; (128, H, W, 3) uint8"""
    cfg, world = collect_slice(p, env), make(env)
    demos = world.demonstrations(cfg.model_copy(update={"data": cfg.data.model_copy(update={"episodes": EPISODES})}))
    span, rng = (WINDOW - 1) * FRAMESKIP, np.random.default_rng(0)
    episode = rng.integers(0, EPISODES, WINDOWS)
    first = (np.cumsum(demos.length) - demos.length)[episode] + rng.integers(0, demos.length[episode] - span)
    world.restore(demos.state[(first[:, None] + np.arange(WINDOW) * FRAMESKIP).ravel()])
    return torch.from_numpy(world.render(cfg.data.image_size))


def of_readout(cfg: Model, readout: str, image_size: int) -> WorldModel:
    cfg = merge(cfg.model_dump(mode="json"), {"encoder": {"readout": readout}})
    return build(parse(Model, cfg, "bench encoder"), "none", image_size, 2 * FRAMESKIP, seed=0)


def step(model: WorldModel, frames: torch.Tensor, whole: bool):
    """Forward and backward through encoder and projector, or through the encoder alone."""

    def once():
        model.zero_grad(set_to_none=True)
        raw = (frames, model.pixel_mean, model.pixel_std, model.pixel_mix)
        (model.encode(frames) if whole else model.encoder(*raw)).square().sum().backward()

    return once
