"""The predictor: a causal transformer over history latents, conditioned on action blocks by AdaLN-zero."""

import torch
import torch.nn.functional as F
from torch import nn

from tdjepa.config.records.model import Predictor as PredictorParams
from tdjepa.model.vit import named


def action_encoder(block: int, smooth: int, multiple: int, width: int) -> nn.Sequential:
    """(..., block) z-scored action blocks -> (..., width)"""
    first, wide = nn.Linear(block, smooth), nn.Linear(smooth, multiple * width)
    return named(smooth=first, embed=nn.Sequential(wide, nn.SiLU(), nn.Linear(multiple * width, width)))


class Block(nn.Module):
    """Attention and MLP, each with its own norm and each shifted, scaled and gated by the action embedding."""

    def __init__(self, cfg: PredictorParams):
        super().__init__()
        width, inner = cfg.width, cfg.heads * cfg.head_width
        self.heads, self.dropout = cfg.heads, cfg.dropout
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * inner, bias=False)
        self.out = nn.Linear(inner, width)
        self.mlp_norm = nn.LayerNorm(width)
        wide, narrow = nn.Linear(width, cfg.mlp), nn.Linear(cfg.mlp, width)
        self.mlp = nn.Sequential(wide, nn.GELU(), nn.Dropout(cfg.dropout), narrow, nn.Dropout(cfg.dropout))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.modulation[1].weight)  # AdaLN-zero: every block starts as the identity
        nn.init.zeros_(self.modulation[1].bias)

    def forward(self, x, modulation):
        """x (B, T, width), modulation (B, T, 6 * width) = self.modulation(action embedding) -> (B, T, width)"""
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, -1)
        x = torch.addcmul(x, gate1, self.attend(modulate(x, shift1, scale1)))
        return torch.addcmul(x, gate2, self.mlp(self.mlp_norm(modulate(x, shift2, scale2))))

    def attend(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        return F.dropout(self.out(out.transpose(1, 2).reshape(b, t, -1)), self.dropout, self.training)


def modulate(x, shift, scale):
    """Plain layer norm, then shift and scale."""
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:], eps=1e-6), 1 + scale)


class Predictor(nn.Module):
    """z (B, T, latent), action embedding c (B, T, width), T <= history -> (B, T, width), before the projector"""

    def __init__(self, cfg: PredictorParams, latent: int):
        super().__init__()
        self.history = cfg.history
        self.enter = nn.Linear(latent, cfg.width) if latent != cfg.width else nn.Identity()
        self.position = nn.Parameter(torch.randn(1, cfg.history, cfg.width))
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.width)

    def forward(self, z, c):
        return self.modulated(z, [block.modulation(c) for block in self.blocks])

    def windows(self, c):
        """The modulations of all windows of `history` frames at once; they do not depend on the latents.
        c (B, T, width) -> for each of the T - history + 1 windows, for each block, (B, history, 6 * width)"""
        modulations = [block.modulation(c) for block in self.blocks]  # once per step, in however many windows it lies
        return [[m[:, k : k + self.history] for m in modulations] for k in range(c.shape[1] - self.history + 1)]

    def modulated(self, z, modulations):
        x = self.enter(z) + self.position[:, : z.shape[1]]
        for block, modulation in zip(self.blocks, modulations, strict=True):
            x = block(x, modulation)
        return self.norm(x)
