"""The model of the paper at its full size: the exact parameters of each part, and real optimiser steps on 224-px frames."""

import json

import numpy as np
import pytest
import torch

from conftest import ROOT
from synthetic import write_episodes
from tdjepa.config.load import load
from tdjepa.config.slices import train_slice
from tdjepa.model import checkpoint
from tdjepa.model.world_model import build
from tdjepa.steps import train as training


@pytest.fixture(scope="module")
def cfg():
    return train_slice(load(ROOT / "params.yaml", "paper"), "two_room", "tdjepa", 3072)


def test_every_part_has_the_published_size(cfg):
    model = build(cfg.model, cfg.method.head, 224, 10, seed=0)
    # widths 192 and 2048, 12 and 6 blocks: counted by hand from the published description
    block = 2 * 2 * 192 + 192 * 576 + 576 + 192 * 192 + 192 + 192 * 768 + 768 + 768 * 192 + 192
    step = 4 * 192 + 192 * 3072 + 1024 * 192 + 192 + 192 * 2048 + 2048 + 2048 * 192 + 192 + 192 * 1152 + 1152
    parts = {
        "encoder": 14 * 14 * 3 * 192 + 192 + 192 + (16 * 16 + 1) * 192 + 12 * block + 2 * 192,
        "projector": 192 * 2048 + 2048 + 2 * 2048 + 2048 * 192 + 192,
        "action_encoder": 10 * 10 + 10 + 10 * 768 + 768 + 768 * 192 + 192,
        "predictor": 3 * 192 + 6 * step + 2 * 192,
        "pred_projector": 192 * 2048 + 2048 + 2 * 2048 + 2048 * 192 + 192,
        "head": 192 * 512 + 512 + 2 * 512 + 512 * 256 + 256,
    }
    assert checkpoint.count(model) == {**parts, "all": sum(parts.values())}
    assert list(parts.values()) == [5_501_376, 792_768, 156_206, 10_791_360, 792_768, 231_168]
    # The paper says "about 15 M"; the released LeWM files, which have everything but the head, hold exactly this many.
    assert sum(parts.values()) - parts["head"] == 18_034_478
    tensors = {k for k in model.state_dict() if not k.startswith(("head.", "pixel_", "action_mean", "action_std"))}
    assert len(tensors) + 12 * 4 == 303  # they keep query, key and value apart (weight and bias), where timm has one


def test_it_takes_optimiser_steps_on_a_cpu(cfg, tmp_path):
    write_episodes(tmp_path / "episodes.h5", 224, (42, 1, 1))
    (tmp_path / "split.json").write_text(json.dumps({"train": [0], "validation": [1], "test": [2]}))
    short = cfg.train.model_copy(update={"epochs": 1, "steps_per_epoch": 2, "batch": 2, "device": "cpu", "lr": 1e-3})
    short = cfg.model_copy(update={"train": short})
    last = training.run(short, tmp_path / "episodes.h5", tmp_path / "split.json", tmp_path / "out")
    model, _ = checkpoint.load(tmp_path / "out/epoch_01.safetensors")
    before, after = build(cfg.model, cfg.method.head, 224, 10, cfg.seed).state_dict(), model.state_dict()
    assert last["step"] == 2
    assert np.isfinite(last["loss"])
    assert all(torch.isfinite(tensor).all() for tensor in after.values())
    # Adam moves what has a gradient by about lr a step, weight decay alone by a millionth of the weight; some biases have
    # none, because a batch norm or a difference of features follows
    matrices = [name for name, weight in model.named_parameters() if weight.ndim > 1]
    assert [name for name in matrices if (after[name] - before[name]).abs().max() < 1e-4] == []
