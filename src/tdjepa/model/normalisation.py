"""Moments of frames and actions. They are buffers of the model, because they belong to its weights."""

import numpy as np
import torch

from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config.slices import TrainSlice
from tdjepa.data.store import Store
from tdjepa.model.world_model import WorldModel

IMAGENET = ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])


def set_normalisation(model: WorldModel, cfg: TrainSlice, data: Store, episodes: list[int]) -> None:
    """Pixel and action moments, from the training episodes only."""
    mean, std = data.action_statistics(np.asarray(episodes))
    if not (np.isfinite(mean).all() and (std > 0).all()):
        raise UserError(f"{data.path}: actions have mean {mean} and std {std}; they cannot be z-scored")
    model.action_mean.copy_(torch.from_numpy(np.tile(mean, cfg.frameskip)))
    model.action_std.copy_(torch.from_numpy(np.tile(std, cfg.frameskip)))
    pixel_mean, pixel_std = IMAGENET
    if cfg.model.normalisation != "imagenet":
        rng = stream(cfg.seed, "pixels")
        chosen = np.asarray(episodes)[rng.integers(0, len(episodes), 512)]
        sample = data.pixels[np.sort(data.offset[chosen] + rng.integers(0, data.length[chosen]))].astype(np.float64)
        pixel_mean, pixel_std = sample.mean((0, 1, 2)), sample.std((0, 1, 2))
        if model.pixel_mix is not None:
            model.pixel_mix.copy_(torch.from_numpy(whitening((sample - pixel_mean) / pixel_std)))
    model.pixel_mean.copy_(torch.as_tensor(np.asarray(pixel_mean)))
    model.pixel_std.copy_(torch.as_tensor(np.asarray(pixel_std)))


def whitening(colours: np.ndarray) -> np.ndarray:
    """The symmetric matrix that makes centred colours uncorrelated with variance 1; (..., 3) -> (3, 3)

    The channels of a drawn scene are nearly alike, so a small thing with a colour of its own is faint in each of them. In
    uncorrelated channels Push-T's agent, a quarter of a percent of the frame, weighs as much as the block.
    """
    flat = colours.reshape(-1, colours.shape[-1])
    values, vectors = np.linalg.eigh(flat.T @ flat / len(flat))
    return vectors / np.sqrt(np.maximum(values, 1e-6)) @ vectors.T
