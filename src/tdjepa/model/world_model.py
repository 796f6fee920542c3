"""The world model: encode frames, predict latents, roll actions out. Everything that is learned lives here."""

import numpy as np
import torch
from torch import nn

from tdjepa.base.device import full
from tdjepa.base.streams import seed_of
from tdjepa.config.records.model import Model
from tdjepa.model.encoder import Encoder
from tdjepa.model.heads import HEADS
from tdjepa.model.keypoints import Keypoints
from tdjepa.model.predictor import Predictor, action_encoder


class Projector(nn.Sequential):
    """(N, width) -> (N, out) in fp32, inside in bf16 under autocast, unless `exact`.

    BatchNorm magnifies what differs between frames. In CLS tokens that is little at first, and bf16 rounds most of it away.
    """

    def __init__(self, width: int, hidden: int, out: int):
        super().__init__(nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Linear(hidden, out))
        self.exact = False

    def forward(self, x):
        if not self.exact:
            return full(super().forward(x))
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(full(x))


SMALL = 0.1  # of its usual start is the last layer of a residual predictor: at first, nearly nothing changes


class WorldModel(nn.Module):
    def __init__(self, cfg: Model, head: str, image_size: int, block: int):
        super().__init__()
        self.encoder = (Keypoints if cfg.encoder.readout == "keypoints" else Encoder)(cfg.encoder, image_size)
        self.projector = Projector(self.encoder.out, cfg.projector, cfg.latent)
        self.action_encoder = action_encoder(block, cfg.action_smooth, cfg.action_mlp, cfg.predictor.width)
        self.predictor = Predictor(cfg.predictor, cfg.latent)
        self.pred_projector = Projector(cfg.predictor.width, cfg.projector, cfg.latent)
        self.residual = cfg.predictor.residual
        if self.residual:
            nn.init.zeros_(self.pred_projector[-1].bias)
            self.pred_projector[-1].weight.data.mul_(SMALL)
        self.head = HEADS[head](cfg.head, cfg.latent, block) if head != "none" else None
        # normalisation belongs to the weights: a checkpoint without it would see other frames and other actions
        for name, width in (("pixel_mean", 3), ("pixel_std", 3), ("action_mean", block), ("action_std", block)):
            self.register_buffer(name, torch.ones(width) if name.endswith("std") else torch.zeros(width))
        self.register_buffer("pixel_mix", torch.eye(3) if cfg.normalisation == "whitened" else None)

    def encode(self, frames):
        """(..., H, W, 3) uint8 -> z (..., latent)"""
        x = self.encoder(frames.reshape(-1, *frames.shape[-3:]), self.pixel_mean, self.pixel_std, self.pixel_mix)
        return self.projector(x).view(*frames.shape[:-3], -1)

    def standardise(self, blocks):
        """Raw action blocks -> z-scored; the missing action at an episode's end (NaN) becomes 0, the mean."""
        return torch.nan_to_num((blocks - self.action_mean) / self.action_std)

    def predict(self, z, c):
        """z (B, T, latent), action embeddings c (B, T, width), T <= history -> next latents (B, T, latent)"""
        return self._after(z, self.predictor(z, c))

    def _after(self, z, x):
        """The latents that follow z (B, T, latent), from the predictor's tokens x (B, T, width); residual: x is the change"""
        x = self.pred_projector(x.flatten(0, 1)).view(*x.shape[:2], -1)
        return z + x if self.residual else x

    def rollout(self, z, c, first=None):
        """Open loop: from h real latents z (B, h, latent) through the embeddings c (B, h - 1 + H, width) of all actions.

        Step k predicts from the last `history` latents, real or predicted. `first` (B, latent) is step 1 if it is already
        known: the newest of the one-step predictions. -> (B, H, latent)
        """
        latents, history = list(z.unbind(1)), self.predictor.history
        real = len(latents)
        if first is not None:
            latents.append(first)
        while len(latents) < min(history, c.shape[1] + 1):  # the window still grows
            latents.append(self.predict(torch.stack(latents, 1), c[:, : len(latents)])[:, -1])
        begin = len(latents) - history
        for modulations in self.predictor.windows(c[:, begin:]) if len(latents) <= c.shape[1] else ():
            window = torch.stack(latents[-history:], 1)
            latents.append(self._after(window, self.predictor.modulated(window, modulations))[:, -1])
        return torch.stack(latents[real:], 1)


@torch.inference_mode()
def encode_in_parts(model: WorldModel, frames: np.ndarray, size: int) -> torch.Tensor:
    """(N, H, W, 3) uint8 -> z (N, latent), `size` frames at a time"""
    return torch.cat([model.encode(part) for part in torch.from_numpy(frames).split(size)])


def build(cfg: Model, head: str, image_size: int, block: int, seed: int) -> WorldModel:
    """A world model whose initial weights depend only on `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "weights"))
        return WorldModel(cfg, head, image_size, block)
