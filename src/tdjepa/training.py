"""`tdjepa train`: one loop for every method.

    tdjepa train --env two_room --method tdjepa --seed 3072 --scale desk

Every draw is keyed by (training seed, purpose, step), so what happens at step k depends on the weights before it and on
nothing else. One safetensors checkpoint and one line of curve.csv an epoch.
"""

import csv
import io
import math
import time
from pathlib import Path

import numpy as np
import torch

from tdjepa.artefacts import verified, write_text
from tdjepa.data.store import Store
from tdjepa.device import pick_autocast, pick_device
from tdjepa.errors import UserError
from tdjepa.mining import split, windows
from tdjepa.model import checkpoint
from tdjepa.model.world_model import WorldModel, build
from tdjepa.objective.methods import objective
from tdjepa.params import Train, TrainSlice
from tdjepa.progress import progress
from tdjepa.streams import seed_of, stream

IMAGENET = ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])


def run(cfg: TrainSlice, episodes: Path, split_file: Path, out: Path) -> dict:
    """Train one model; writes epoch_XX.safetensors (+ cards) and curve.csv into `out`; returns the last curve line."""
    verified(episodes)
    data, train = Store(episodes), cfg.train
    parts = split.read(split_file, data.episodes)
    first = windows.starts(data.length, data.offset, np.asarray(parts["train"]), cfg.method.window, cfg.frameskip)
    device = pick_device(train.device)
    model = build(cfg.model, cfg.method.head, data.image_size, cfg.frameskip * data.action.shape[1], cfg.seed)
    set_normalisation(model, cfg, data, parts["train"])
    model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), train.lr, weight_decay=train.weight_decay, fused=True)
    autocast = pick_autocast(train.precision, device)
    per_epoch = train.steps_per_epoch or len(first) // (train.batch * train.accumulate)
    if per_epoch == 0:
        raise UserError(f"train.batch = {train.batch}: there are only {len(first)} windows; choose a smaller batch")
    total, step, curve, clock, cpu = train.epochs * per_epoch, 0, [], time.perf_counter(), time.process_time()
    with progress(total, f"train {cfg.env}/{cfg.method_name}/{cfg.seed}", "steps") as bar:
        for epoch in range(1, train.epochs + 1):
            sums: dict[str, float] = {}
            order = batches(len(first), per_epoch * train.accumulate, train.batch, stream(cfg.seed, "order", epoch))
            for k in range(per_epoch):
                torch.manual_seed(seed_of(cfg.seed, "dropout", step))
                for group in optimiser.param_groups:
                    group["lr"] = learning_rate(train, step, total)
                optimiser.zero_grad(set_to_none=True)
                for micro in range(train.accumulate):
                    chosen = first[order[k * train.accumulate + micro]]
                    frames, blocks = windows.gather(data.pixels, data.action, chosen, cfg.method.window, cfg.frameskip)
                    frames, blocks = torch.from_numpy(frames).to(device), torch.from_numpy(blocks).to(device)
                    with autocast:
                        draw = step * train.accumulate + micro
                        loss, terms, z = objective(model, cfg.method, frames, blocks, cfg.seed, draw)
                    (loss / train.accumulate).backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip)
                optimiser.step()
                step += 1
                values = {"loss": loss, **terms, "grad_norm": norm, **latent_health(z)}
                for name, value in values.items():
                    sums[name] = sums.get(name, 0.0) + float(value.detach()) / per_epoch
                if not math.isfinite(float(loss.detach())):
                    raise UserError(diverged(cfg, step, terms))
                bar.update()
                bar.set_postfix(loss=f"{float(loss.detach()):.3f}", refresh=False)
            lr = optimiser.param_groups[0]["lr"]
            curve.append({"epoch": epoch, "step": step, "lr": lr, **sums})
            path = out / f"epoch_{epoch:02d}.safetensors"
            checkpoint.save(path, model, cfg, data.image_size, epoch, {"episodes": episodes, "split": split_file})
    write_curve(out / "curve.csv", curve)
    seconds = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}
    return {**curve[-1], **seconds, "parameters": checkpoint.count(model)["all"], "windows": len(first)}


def batches(windows_: int, count: int, batch: int, rng: np.random.Generator) -> np.ndarray:
    """`count` batches of window numbers: shuffled passes over all windows, one after the other; (count, batch)"""
    passes = -(-count * batch // windows_)
    order = np.concatenate([rng.permutation(windows_) for _ in range(passes)])
    return order[: count * batch].reshape(count, batch)


def learning_rate(train: Train, step: int, total: int) -> float:
    """Linear warm-up, then a cosine that reaches its end with the last step."""
    warm = max(1, round(train.warmup * total))
    if step < warm:
        return train.lr * (step + 1) / warm
    share = (step - warm) / max(1, total - warm)
    return train.lr * (train.final_lr + (1 - train.final_lr) * 0.5 * (1 + math.cos(math.pi * share)))


def set_normalisation(model: WorldModel, cfg: TrainSlice, data: Store, episodes: list[int]) -> None:
    """Pixel and action moments, from training episodes alone."""
    mean, std = data.action_statistics(np.asarray(episodes))
    if not (np.isfinite(mean).all() and (std > 0).all()):
        raise UserError(f"{data.path}: actions have mean {mean} and std {std}; they cannot be z-scored")
    model.action_mean.copy_(torch.from_numpy(np.tile(mean, cfg.frameskip)))
    model.action_std.copy_(torch.from_numpy(np.tile(std, cfg.frameskip)))
    pixel_mean, pixel_std = IMAGENET
    if cfg.model.normalisation == "dataset":
        rng = stream(cfg.seed, "pixels")
        chosen = np.asarray(episodes)[rng.integers(0, len(episodes), 512)]
        sample = data.pixels[np.sort(data.offset[chosen] + rng.integers(0, data.length[chosen]))].astype(np.float64)
        pixel_mean, pixel_std = sample.mean((0, 1, 2)), sample.std((0, 1, 2))
    model.pixel_mean.copy_(torch.as_tensor(np.asarray(pixel_mean)))
    model.pixel_std.copy_(torch.as_tensor(np.asarray(pixel_std)))


@torch.no_grad()
def latent_health(z: torch.Tensor) -> dict[str, torch.Tensor]:
    """Collapse shows here first: std of the latents and effective rank (participation ratio) of their covariance."""
    flat = z.detach().float().flatten(0, 1)
    centred = flat - flat.mean(0)
    covariance = centred.T @ centred / (len(flat) - 1)
    return {
        "latent_std": covariance.diagonal().clamp_min(0).sqrt().mean(),
        "effective_rank": covariance.trace().square() / covariance.square().sum().clamp_min(1e-12),
    }


def diverged(cfg: TrainSlice, step: int, terms: dict) -> str:
    worst = ", ".join(f"{name} = {float(value):.3g}" for name, value in terms.items())
    return (
        f"train {cfg.env}/{cfg.method_name}/{cfg.seed}: the loss is not finite at step {step} ({worst}); "
        f"lower train.lr (now {cfg.train.lr:g}) or train.clip (now {cfg.train.clip:g})"
    )


def write_curve(path: Path, curve: list[dict]) -> None:
    """One line an epoch; no wall-clock times, so that the file is byte-equal from run to run."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(curve[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: v if isinstance(v, int) else f"{v:.6g}" for k, v in line.items()} for line in curve)
    write_text(path, text.getvalue())
