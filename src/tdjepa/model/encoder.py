"""The encoder: a ViT whose CLS token, or all of its patch tokens, are the embedding of a frame."""

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tdjepa.base.errors import UserError
from tdjepa.config.records.model import Encoder as EncoderParams
from tdjepa.model.vit import ViT


class Encoder(nn.Module):
    """(N, H, W, 3) frames, normalised or raw with what normalises them -> (N, out): the CLS token, or all patch tokens.

    Attention must gather into the CLS token where things are, which a small model learns slowly. In the patch tokens, laid
    end to end, that can be read from the first step.
    """

    def __init__(self, cfg: EncoderParams, image_size: int):
        super().__init__()
        shrink = 2 ** len(cfg.stem)
        if image_size % (shrink * cfg.patch):
            frames = f"{image_size}-px frames" + (f" after {len(cfg.stem)} stride-2 convolutions" if cfg.stem else "")
            raise UserError(f"model.encoder.patch = {cfg.patch}: {frames} cannot be cut into such patches")
        if cfg.width % cfg.heads:
            raise UserError(f"model.encoder.heads = {cfg.heads}: must divide model.encoder.width = {cfg.width}")
        widths = (3, *cfg.stem)
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Conv2d(a, b, 3, stride=2, padding=1), nn.GELU())]
        self.stem = nn.Sequential(*layers[:-1])
        self.vit = ViT(cfg, image_size // shrink, widths[-1])
        self.patch, self.readout = cfg.patch, cfg.readout
        self.out = cfg.width if cfg.readout == "cls" else cfg.width * self.vit.patches

    def forward(self, x, mean=None, std=None, mix=None):
        vit, weight, bias = self.vit, self.vit.patch_embed.proj.weight, self.vit.patch_embed.proj.bias
        weight = weight.flatten(2)  # (width, C, p * p)
        if mean is not None:
            if len(self.stem) or torch.is_autocast_enabled(x.device.type):
                x = (x.to(mean.dtype) - mean) * (1 / std)
                x = x if mix is None else x @ mix
            else:  # normalise the small weights of the patch map instead of large frames (too coarse in bf16)
                weight = (torch.diag(1 / std) if mix is None else mix / std[:, None]) @ weight
                bias = bias - weight.sum(2) @ mean
        if len(self.stem):
            x = self.stem(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # (N, h, w, C)
        weight = weight.transpose(1, 2).flatten(1)  # (width, p * p * C)
        if self.readout == "tokens":
            x, position, of = self.tokens(x)
            x = vit.blocks[0](F.linear(x.to(weight.dtype), weight, bias) + position, of)
            return vit.norm(vit.blocks[1:](x)).flatten(1)
        x = F.linear(patches(x, self.patch, weight.dtype), weight, bias)  # (N, P, width)
        x = torch.cat([vit.cls_token.expand(len(x), -1, -1), x], 1) + vit.pos_embed
        for block in vit.blocks[:-1]:
            x = block(x)
        return vit.norm(vit.blocks[-1].first_token(x))

    def tokens(self, x):
        """Flat patches (N, P, p * p * C), their position embeddings (1, P, width), None.

        In training on a CPU: (U, p * p * C), (U, width), which of them is where (N, P). Three quarters of what a fixed
        camera sees is the same background in every frame. Up to the first attention a token depends only on its patch and
        its place, so each distinct one is computed once.
        """
        if not (x.dtype == torch.uint8 and x.device.type == "cpu" and torch.is_grad_enabled()):
            return patches(x, self.patch, self.vit.pos_embed.dtype), self.vit.pos_embed, None
        x = patches(x, self.patch, x.dtype)
        first, of = distinct(x.numpy())
        position = F.embedding(first % self.vit.patches, self.vit.pos_embed[0])
        return x.flatten(0, 1).index_select(0, first), position, of.view(x.shape[:2])


def patches(x: torch.Tensor, p: int, dtype: torch.dtype) -> torch.Tensor:
    """Channels-last frames cut into flat patches in one copy. The patch convolution becomes a matrix product: the same
    numbers, faster on a CPU. (N, H, W, C) -> (N, P, p * p * C)"""
    n, h, w, c = x.shape
    x = x.reshape(n, h // p, p, w // p, p * c).transpose(2, 3)
    return x.to(dtype, memory_format=torch.contiguous_format).reshape(n, -1, p * p * c)


def distinct(x: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Patches that differ in content or place: the number of the first of each kind (U,), and the kind of each patch (N * P,)
    x (N, P, bytes) uint8. A 64-bit checksum tells kinds apart; if two ever share one, all patches count as different."""
    n, p, size = x.shape
    words = x.reshape(n * p, size).view(np.uint64 if size % 8 == 0 else np.uint32 if size % 4 == 0 else np.uint8)
    factors = np.random.default_rng(0).integers(0, 1 << 63, words.shape[1] + 1, np.uint64) * np.uint64(2) + np.uint64(1)
    place = np.tile(np.arange(p, dtype=np.uint64), n)
    _, first, of = np.unique(words @ factors[1:] + place * factors[0], return_index=True, return_inverse=True)
    if not ((words == words[first[of]]).all() and (place == place[first[of]]).all()):
        first = of = np.arange(n * p)
    return torch.from_numpy(first), torch.from_numpy(of)
