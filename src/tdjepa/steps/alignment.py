"""Alignment: latent distances of held-out pairs, to be ranked against the step gap between their frames."""

import numpy as np
import pandas as pd
import torch

from tdjepa.data.store import Store
from tdjepa.model.world_model import WorldModel
from tdjepa.planning.costs import l2


@torch.inference_mode()
def distances(model: WorldModel, data: Store, pairs: pd.DataFrame, chunk: int = 100) -> pd.DataFrame:
    """The pairs with their columns d_psi (NaN for a model without a temporal head) and l2 (squared, as the planner uses it)."""
    start, goal = (data.row(pairs.episode.to_numpy(), frame.to_numpy()) for frame in (pairs.i, pairs.j))
    d_psi, euclid = np.full(len(pairs), np.nan), np.empty(len(pairs))
    for k in range(0, len(pairs), chunk):
        part = slice(k, k + chunk)
        z_s, z_g = (model.encode(torch.from_numpy(data.pixels[rows[part]])) for rows in (start, goal))
        euclid[part] = l2(z_s, z_g).numpy()
        if hasattr(model.head, "distance"):
            d_psi[part] = model.head(z_s, z_g).numpy()
    return pairs.assign(d_psi=d_psi, l2=euclid)
