"""Aliasing: does the encoder see WHERE in the image the agent is, or only where inside its patch?

A small encoder can earn a perfect prediction loss with a code that is periodic in the patch size: moving the agent by one
whole patch hardly changes the latent, moving it by half a patch changes it fully. Such a model plans badly although its
curves look healthy, and a baseline crippled by it would make a comparison worthless. So we move the agent and look.
"""

import numpy as np
import torch

from tdjepa.envs import two_room
from tdjepa.model.world_model import WorldModel

SHIFTS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # in patches


@torch.inference_mode()
def two_room_aliasing(model: WorldModel, image_size: int, patch: int, rng: np.random.Generator, n: int = 128) -> dict:
    """Mean latent change (Euclidean, relative to that of unrelated positions) when the agent moves by some patches.

    `ratio_one_patch` = change at one patch / change at half a patch: near 0 means periodic, near or above 1 is sound.
    """
    world = two_room.SIZE / image_size  # world pixels of an image pixel
    low, high = two_room.BORDER + two_room.RADIUS, two_room.SIZE - two_room.BORDER - two_room.RADIUS
    reach = max(SHIFTS) * patch * world
    x, y = rng.uniform(low, max(low + 1, high - reach), n), rng.uniform(low, high, n)
    draw = two_room.Renderer.of(image_size)

    def latents(dx):
        position = np.stack([np.minimum(x + dx * world, high), y], 1)
        return torch.cat([model.encode(torch.from_numpy(f)) for f in np.array_split(draw(position), max(1, n // 64))])

    z = latents(0.0)
    unrelated = (z - z.roll(1, 0)).norm(dim=-1).mean()
    change = [float((latents(s * patch) - z).norm(dim=-1).mean() / unrelated) for s in SHIFTS]
    return {
        "patch": patch,
        "shift_px": [s * patch for s in SHIFTS],
        "change": [round(c, 6) for c in change],
        "ratio_one_patch": round(change[SHIFTS.index(1.0)] / max(change[SHIFTS.index(0.5)], 1e-9), 6),
    }
