"""Aliasing: does the encoder see WHERE in the image the agent is, or only where inside its patch?

A small encoder can reach a perfect prediction loss with a code that is periodic in the patch size. It then plans badly
although its curves look healthy, and to compare with such a baseline is worthless. So we move the agent and look.
"""

import numpy as np
import torch

from tdjepa.envs.base import Env
from tdjepa.model.world_model import WorldModel, encode_in_parts

SHIFTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # in patches


@torch.inference_mode()
def aliasing(model: WorldModel, env: Env, image_size: int, patch: int, rng: np.random.Generator, n: int) -> dict:
    """Mean latent change (Euclidean, relative to that of unrelated frames) when the agent moves by some patches.
    `ratio_one_patch` = change at one patch / change at half a patch: near 0 means periodic, near or above 1 is sound."""
    shifts = np.array([0.0, *SHIFTS]) * patch
    z = [encode_in_parts(model, frames, 64) for frames in env.moved(shifts, n, image_size, rng)]
    unrelated = (z[0] - z[0].roll(1, 0)).norm(dim=-1).mean()
    change = [float((moved - z[0]).norm(dim=-1).mean() / unrelated) for moved in z[1:]]
    ratio = round(change[SHIFTS.index(1.0)] / max(change[SHIFTS.index(0.5)], 1e-9), 6)
    found = {"patch": patch, "shift_px": shifts[1:].tolist(), "change": [round(c, 6) for c in change]}
    return {**found, "ratio_one_patch": ratio}
