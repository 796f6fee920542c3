"""When the optimiser steps, with which gradient and rate: the three readings of Push-T's accumulation, and the restart."""

import math

import pytest
import torch

from conftest import ROOT
from tdjepa.config.load import load
from tdjepa.config.records.model import Health
from tdjepa.config.slices import train_slice
from tdjepa.steps import train as training
from tdjepa.steps.schedule import learning_rate

LR, CLIP, WARMUP = 1e-3, 0.01, 0.1


def by_hand(warm: int, total: int) -> list[float]:
    """The learning rates of a whole schedule: `warm` steps up to the peak, then half a cosine down to 0."""
    up = [LR * (k + 1) / warm for k in range(warm)]
    return up + [LR * (1 + math.cos(math.pi * k / (total - warm))) / 2 for k in range(total - warm)]


@pytest.fixture
def watched(smoke, data, tmp_path, monkeypatch):
    """watched(method, restart, **train): what each optimiser step of a training was given.
    -> its last line, learning rates, steps since the optimiser was new, (norm, bound) of each clip, gradients of each batch"""

    def run(method="lewm", restart=None, **changes):
        rates, ages, clips, gradients, compute = [], [], [], [], training.objective

        class AdamW(torch.optim.AdamW):
            def step(self, *args):
                super().step(*args)
                rates.append(self.param_groups[0]["lr"])
                ages.append(int(next(iter(self.state.values()))["step"]))

        def clipped(parameters, bound, clip=torch.nn.utils.clip_grad_norm_):
            norm = clip(parameters, bound)
            clips.append((float(norm), bound))
            return norm

        def objective(model, *rest):
            found = compute(model, *rest)
            if len(gradients) < 4:
                parts = torch.autograd.grad(found[0], list(model.parameters()), retain_graph=True)
                gradients.append(torch.cat([part.flatten() for part in parts]))
            return found

        with monkeypatch.context() as patch:
            patch.setattr(torch.optim, "AdamW", AdamW)
            patch.setattr(torch.nn.utils, "clip_grad_norm_", clipped)
            patch.setattr(training, "objective", objective)
            cfg = train_slice(smoke, "two_room", method, 3072)
            usual = {
                "health": Health(min_std=0, min_rank=0, max_grad_norm=1e9),
                "steps_per_epoch": 0,
                "lr": LR,
                "clip": CLIP,
                "warmup": WARMUP,
            }
            update = {"train": cfg.train.model_copy(update=usual | changes)}
            update["method"] = cfg.method.model_copy(update={"restart": restart})
            files = (data / "episodes.h5", data / "mined/split.json", tmp_path / "out")
            last = training.run(cfg.model_copy(update=update), *files)
        return last, rates, ages, clips, gradients

    return run


@pytest.mark.parametrize("reading", ["mean", "sum_slow_schedule", "none"])
def test_three_readings_of_an_accumulated_batch(watched, reading):
    last, rates, _, clips, gradients = watched(batch=8, accumulate=4, accumulation=reading, epochs=2)
    steps = 2 * (last["windows"] // (8 if reading == "none" else 32))
    assert steps > 20
    counted = 4 * steps if reading == "sum_slow_schedule" else steps  # what the schedule believes there to be
    assert rates == pytest.approx(by_hand(round(WARMUP * counted), counted)[:steps])
    of_step = {"mean": sum(gradients) / 4, "sum_slow_schedule": sum(gradients), "none": gradients[0]}[reading]
    assert clips[0] == (pytest.approx(float(of_step.norm()), rel=1e-4), CLIP)
    assert len(clips) == last["step"] == steps
    assert all(norm > CLIP for norm, _ in clips)


def test_the_slow_schedule_ends_high_on_the_cosine():
    train = load(ROOT / "params.yaml", "paper").train.model_copy(update={"accumulate": 4})
    slow, steps = train.model_copy(update={"accumulation": "sum_slow_schedule"}), 10_000
    assert (train.accumulation, train.warmup, train.final_lr) == ("mean", 0.01, 0.0)
    assert learning_rate(train, 99, steps) == learning_rate(slow, 399, steps) == train.lr  # 1 % and 4 % of the steps
    assert learning_rate(slow, 99, steps) == pytest.approx(train.lr / 4)
    assert learning_rate(train, steps - 1, steps) < 1e-6 * train.lr
    assert learning_rate(slow, steps - 1, steps) == pytest.approx(0.86 * train.lr, rel=0.005)


def test_a_restart_begins_with_a_new_optimiser_and_a_whole_schedule(watched):
    _, rates, ages, *_ = watched(restart=1, steps_per_epoch=20, epochs=3)
    assert rates == pytest.approx(by_hand(2, 20) + by_hand(4, 40))
    assert ages == [*range(1, 21), *range(1, 41)]


def test_schedule_warms_up_linearly_and_ends_at_its_share():
    train = load(ROOT / "params.yaml", "paper").train.model_copy(update={"final_lr": 0.1, "lr": 1.0, "warmup": 0.1})
    rates = [learning_rate(train, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([(k + 1) / 10 for k in range(10)])
    assert all(a > b for a, b in zip(rates[10:], rates[11:], strict=False))
    assert rates[-1] == pytest.approx(0.1, abs=0.002)
