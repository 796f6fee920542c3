"""`tdjepa diagnose`: what one trained model's latents know, without planning.

tdjepa diagnose --env two_room --method tdjepa --seed 3072 --scale desk
"""

from pathlib import Path

import pandas as pd

from tdjepa.artefacts import publish, sha256_of_input, sweep, write_card, write_json
from tdjepa.data.chunked import open_store
from tdjepa.diagnostics.aliasing import aliasing
from tdjepa.diagnostics.alignment import distances
from tdjepa.envs.base import make
from tdjepa.errors import UserError, reason
from tdjepa.model import checkpoint
from tdjepa.params import DiagnoseSlice
from tdjepa.streams import stream


def held_out(path: Path) -> pd.DataFrame:
    """The pairs that `tdjepa mine` drew."""
    try:
        return pd.read_parquet(path)[["episode", "i", "j", "tau", "to_end", "near", "far"]]
    except Exception as error:  # damage shows in many ways
        raise UserError(f"{path}: not a readable pairs file ({reason(error)}); run `tdjepa mine` again") from None


def run(cfg: DiagnoseSlice, episodes: Path, pairs: Path, checkpoint_file: Path, out: Path, out_aliasing: Path) -> dict:
    """Distances of the held-out pairs into `out` (parquet), the aliasing diagnostic into `out_aliasing` (JSON)."""
    expect = {"env": cfg.env, "method_name": cfg.method_name, "seed": cfg.seed}
    model, about = checkpoint.load(checkpoint_file, expect)
    data = open_store(episodes)
    who = {"env": cfg.env, "method": cfg.method_name, "train_seed": cfg.seed}
    table = distances(model, data, held_out(pairs)).assign(**who)
    sweep(out)
    with publish(out) as temporary:
        table.to_parquet(temporary, index=False)
    inputs = {"episodes": episodes, "pairs": pairs, "checkpoint": checkpoint_file}
    write_card(out, "diagnose", cfg.model_dump(mode="json"), inputs, rows=len(table))
    encoder = about["train"]["model"]["encoder"]
    patch = encoder["patch"] * 2 ** len(encoder["stem"])
    seen = {"patch": patch, "shift_px": [], "change": [], "ratio_one_patch": None}
    if hasattr(env := make(cfg.env), "moved"):  # an arm has no place in the image to be moved from
        seen = aliasing(model, env, data.image_size, patch, stream(cfg.seed, "aliasing"))
    write_json(out_aliasing, {**who, **seen, "checkpoint": sha256_of_input(checkpoint_file)})
    return {
        "rank correlation with the step gap": ", ".join(
            f"{cost} {table[cost].corr(table.tau, method='spearman'):.3f}"
            for cost in ("d_psi", "l2")
            if table[cost].notna().all()
        ),
        "change at one patch / at half a patch": seen["ratio_one_patch"],
        "file": out,
    }
