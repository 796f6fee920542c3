"""`tdjepa diagnose`: what one training's latents know, without planning, at several epochs of it.

tdjepa diagnose --env two_room --method tdjepa --seed 3072 --scale desk
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from tdjepa.base.artefacts import sha256_of_input, write_card, write_json, write_parquet
from tdjepa.base.errors import UserError, reason
from tdjepa.base.streams import stream
from tdjepa.config.slices import DiagnoseSlice
from tdjepa.data.store import Store
from tdjepa.envs.base import make
from tdjepa.model import checkpoint
from tdjepa.model.world_model import WorldModel
from tdjepa.planning.costs import l2
from tdjepa.steps.aliasing import aliasing


def held_out(path: Path) -> pd.DataFrame:
    """The pairs that `tdjepa mine` drew."""
    try:
        return pd.read_parquet(path)[["episode", "i", "j", "tau", "to_end", "near", "far"]]
    except Exception as error:  # damage shows in many ways
        raise UserError(f"{path}: not a readable pairs file ({reason(error)}); run `tdjepa mine` again") from None


def run(
    cfg: DiagnoseSlice, episodes: Path, pairs: Path, checkpoints: Sequence[Path], out: Path, out_aliasing: Path
) -> dict:
    """Distances of the held-out pairs at each epoch into `out` (parquet), the last one's aliasing into `out_aliasing` (JSON).

    `checkpoints` are those of cfg.epochs, in that order.
    """
    data, drawn = Store(episodes), held_out(pairs)
    who = {"env": cfg.env, "method": cfg.method_name, "train_seed": cfg.seed}
    tables, ranks, inputs = [], {}, {"episodes": episodes, "pairs": pairs}
    for epoch, path in zip(cfg.epochs, checkpoints, strict=True):
        model, about = checkpoint.load(path, checkpoint.of(cfg, epoch))
        tables.append(distances(model, data, drawn).assign(**who, epoch=epoch))
        ranks[f"epoch {epoch}: rank correlation with the step gap"] = _ranks(tables[-1])
        inputs[f"epoch_{epoch}"] = path
    table = pd.concat(tables, ignore_index=True)
    write_parquet(out, table)
    write_card(out, "diagnose", cfg.model_dump(mode="json"), inputs, rows=len(table))
    encoder = about["train"]["model"]["encoder"]
    patch = encoder["patch"] * 2 ** len(encoder["stem"])  # the period that an encoder could have
    if encoder["readout"] == "keypoints":
        patch = encoder["keypoints"]["cell"]
    seen = {"patch": patch, "shift_px": [], "change": [], "ratio_one_patch": None}
    if hasattr(env := make(cfg.env), "moved"):  # an arm has no place in the image to be moved from
        seen = aliasing(model, env, data.image_size, patch, stream(cfg.seed, "aliasing"), cfg.aliasing_frames)
    write_json(out_aliasing, {**who, **seen, "checkpoint": sha256_of_input(checkpoints[-1])})
    return {**ranks, "change at one patch / at half a patch": seen["ratio_one_patch"], "file": out}


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


def _ranks(table: pd.DataFrame) -> str:
    known = [cost for cost in ("d_psi", "l2") if table[cost].notna().all()]
    return ", ".join(f"{cost} {table[cost].corr(table.tau, method='spearman'):.3f}" for cost in known)
