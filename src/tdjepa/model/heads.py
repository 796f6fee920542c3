"""The directed temporal-distance head d_psi (metric residual network, eq. 7 of the paper)."""

import torch
import torch.nn.functional as F
from torch import nn

from tdjepa.params import Head


class MRN(nn.Module):
    """d(s, g) = ||sym(s) - sym(g)||_2 + max_k relu(asym_k(s) - asym_k(g)): non-negative, d(z, z) = 0, not symmetric."""

    def __init__(self, cfg: Head, latent: int):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(latent, cfg.hidden), nn.LayerNorm(cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, 2 * cfg.features)
        )

    def features(self, z):
        return self.trunk(z)

    @staticmethod
    def distance(s, g):
        """Distance between features, s to g; (..., 2 * features), broadcast -> (...)"""
        sym, asym = (s - g).chunk(2, -1)
        return torch.linalg.vector_norm(sym, dim=-1) + F.relu(asym).amax(-1)

    def forward(self, z_s, z_g):
        return self.distance(self.features(z_s), self.features(z_g))


HEADS = {"mrn": MRN}
