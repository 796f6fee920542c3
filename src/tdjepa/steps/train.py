"""`tdjepa train`: one loop for every method.

    tdjepa train --env two_room --method tdjepa --seed 3072 --scale desk

Every draw is keyed by (training seed, purpose, step), so what happens at step k depends on the weights before it and on
nothing else: a run that was killed goes on (snapshot.py) and gives the same bytes. Each epoch gives one safetensors checkpoint
and one line of curve.csv; they appear together when the last epoch is done, until then they wait in `<out>/.running`.
"""

import time
from pathlib import Path

import numpy as np
import torch

from tdjepa.base import snapshot
from tdjepa.base.artefacts import fingerprint, hash_of, sha256_of_input, verified, write_text
from tdjepa.base.device import one_process, pick_autocast, pick_device
from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.base.source_files import code_version
from tdjepa.base.streams import seed_of, stream
from tdjepa.base.transfer import buffers, on_device
from tdjepa.config.records.model import Runtime, Train
from tdjepa.config.slices import TrainSlice
from tdjepa.data.reader import window_stream
from tdjepa.data.store import Store
from tdjepa.mining import split, windows
from tdjepa.model import checkpoint
from tdjepa.model.normalisation import set_normalisation
from tdjepa.model.world_model import build
from tdjepa.objective.methods import objective
from tdjepa.steps.average import Average
from tdjepa.steps.health import Readings, check_health, latent_health
from tdjepa.steps.schedule import batches_per_step, divisor, learning_rate, steps_per_epoch, stretch, warm_up

USUAL = Runtime()


def run(
    cfg: TrainSlice, episodes: Path, split_file: Path, out: Path, runtime: Runtime = USUAL, backbone: Path | None = None
) -> dict:
    """Train one model; writes epoch_XX.safetensors (+ cards) and curve.csv into `out`; returns the last curve line.

    `backbone` is the checkpoint whose latents a policy is trained on.
    """
    running, name = out / ".running", f"train {cfg.env}/{cfg.method_name}/{cfg.seed}"
    one_process(name)
    verified(episodes)
    data, train, window = Store(episodes), cfg.train, cfg.method.window
    parts = split.read(split_file, data.episodes)
    whole = train.windows_from == "all_episodes"
    seen = split.trained_on(parts, "all" if whole else cfg.method.trains_on)
    shape = (window, cfg.frameskip, train.window_ends)
    first, honest = (windows.starts(data.length, data.offset, e, *shape) for e in (seen, parts["train"]))
    if whole:
        first = honest = windows.nine_tenths(first, stream(cfg.seed, "windows"))
    per_epoch = steps_per_epoch(train, len(honest))  # a leaky training takes no step more
    if per_epoch == 0:
        raise UserError(f"train.batch = {train.batch}: there are only {len(first)} windows; choose a smaller batch")
    accumulate, share = batches_per_step(train), divisor(train)
    total, anew = train.epochs * per_epoch, (cfg.method.restart or 0) * per_epoch
    warm = warm_up(train, stretch(0, total, anew)[1])
    device = pick_device(train.device)
    autocast = pick_autocast(train.precision, device)
    model = build(cfg.model, cfg.method.head, data.image_size, cfg.frameskip * data.action.shape[1], cfg.seed)
    set_normalisation(model, cfg, data, seen)
    model.projector.exact = model.pred_projector.exact = train.precision == "bf16_fp32_projectors"
    inputs = {"episodes": episodes, "split": split_file, **checkpoint.freeze(model, cfg, backbone)}
    model.to(device).train(backbone is None)  # frozen latents are those of planning: no dropout, batch norm as it was
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = adamw(learned, train)
    average = Average(model, train.average) if train.average else None
    # what a snapshot holds, and what is saved at the end of an epoch
    whole = torch.nn.ModuleList([model, average.model]) if average else model
    result = average.model if average else model
    hashes = {role: sha256_of_input(path) for role, path in inputs.items()}
    code = (code_version("tdjepa.steps.train"), torch.__version__, fingerprint())
    run_key = hash_of([cfg.model_dump(mode="json"), hashes, *code])
    at = snapshot.restore(running, run_key, whole, optimiser)
    readings, clock, cpu = Readings(), time.perf_counter(), time.process_time() - at.cpu_seconds
    episode = np.searchsorted(data.offset, first, "right") - 1  # of each window
    with progress(total, name, "steps", at.step) as bar, snapshot.Preemption() as stop:
        for epoch in range(at.step // per_epoch + 1, train.epochs + 1):
            if at.step == anew:
                optimiser.state.clear()
            order = batches(episode, per_epoch * accumulate, train, stream(cfg.seed, "order", epoch))
            ahead = first[order[at.step % per_epoch * accumulate :]].reshape(-1)
            how = (train.batch, window, cfg.frameskip, runtime.reader_workers, runtime.memory_mb, buffers(device))
            with window_stream(data, ahead, *how) as reader:
                given = on_device(reader, device)
                while at.step < epoch * per_epoch:
                    torch.manual_seed(seed_of(cfg.seed, "dropout", at.step))
                    for group in optimiser.param_groups:
                        group["lr"] = learning_rate(train, *stretch(at.step, total, anew))
                    optimiser.zero_grad(set_to_none=True)
                    for micro in range(accumulate):
                        frames, blocks = next(given)
                        draws = (cfg.seed, at.step * accumulate + micro, epoch)
                        loss, terms, z = objective(model, cfg.method, frames, blocks, *draws, autocast, train.siblings)
                        (loss / share).backward()
                    norm = torch.nn.utils.clip_grad_norm_(learned, train.clip)
                    optimiser.step()
                    at.step += 1
                    if average:
                        average.follow(at.step)
                    readings.note(at.step, {"loss": loss, **terms, "grad_norm": norm, **latent_health(z)})
                    bar.update()
                    at.cpu_seconds = time.process_time() - cpu
                    over = at.step == epoch * per_epoch
                    save = not over and (stop.asked or at.step % runtime.snapshot_every == 0)
                    if save or over or at.step % runtime.gather_every == 0:
                        last = gather(readings, at, per_epoch, cfg, name, warm)
                        bar.set_postfix(loss=f"{last['loss']:.3f}", refresh=False)
                    if save:
                        snapshot.save(running, run_key, whole, optimiser, at)
                        stop.obey(at.step)
            at.curve.append({"epoch": epoch, "step": at.step, "lr": optimiser.param_groups[0]["lr"], **at.sums})
            at.sums = {}
            checkpoint.save(running / f"epoch_{epoch:02d}.safetensors", result, cfg, data.image_size, epoch, inputs)
            write_curve(running / "curve.csv", at.curve)
            snapshot.save(running, run_key, whole, optimiser, at)
            stop.obey(at.step)
    snapshot.deliver(running, out)
    seconds = {"seconds": time.perf_counter() - clock, "cpu_seconds": at.cpu_seconds}
    return {**at.curve[-1], **seconds, "parameters": checkpoint.count(model)["all"], "windows": len(first)}


def gather(
    readings: Readings, at: snapshot.Position, per_epoch: int, cfg: TrainSlice, name: str, warm: int
) -> dict[str, float]:
    """Add what the steps since the last time measured to the curve, and judge it, step by step: however many they are, the
    numbers are the same. -> the values of the last one"""
    for step, values in readings.take():
        for key, value in values.items():
            at.sums[key] = at.sums.get(key, 0.0) + value / per_epoch
        check_health(cfg, name, step, values, at.health, warm)
    return values


def adamw(parameters, train: Train) -> torch.optim.AdamW:
    how = {"betas": train.betas, "weight_decay": train.weight_decay, "fused": True}
    return torch.optim.AdamW(parameters, train.lr, **how)


def batches(episode: np.ndarray, count: int, train: Train, rng: np.random.Generator) -> np.ndarray:
    """`count` batches of window numbers: shuffled passes over all windows, one after the other. `episode` (windows,) says to
    which one each belongs. -> (count, batch)"""
    order = np.zeros(0, int)
    while len(order) < count * train.batch:
        more = windows.families(episode, train.siblings, rng)
        if not len(more):
            raise UserError(f"train.siblings = {train.siblings}: no training episode has so many windows")
        order = np.concatenate([order, more])
    return order[: count * train.batch].reshape(count, train.batch)


def write_curve(path: Path, curve: list[dict]) -> None:
    """One line per epoch; no wall-clock times, so that the file is byte-equal from run to run."""
    lines = ([str(v) if isinstance(v, int) else f"{v:.6g}" for v in line.values()] for line in curve)
    write_text(path, "".join(",".join(line) + "\n" for line in (curve[0], *lines)))
