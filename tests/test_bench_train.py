"""The training benchmark compares like with like: the plain way gives the same loss and gradients, and leaves no trace."""

import json

import torch

from conftest import ROOT
from tdjepa.config.slices import train_slice
from tdjepa.model.world_model import build
from tdjepa.objective import methods
from tdjepa.tools.bench import timing, train


def test_both_ways_take_the_same_step(smoke):
    cfg = train_slice(smoke, "two_room", "tdjepa", 3072)
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (8, cfg.method.window, 32, 32, 3), dtype=torch.uint8, generator=generator)
    blocks = torch.randn(8, cfg.method.window - 1, 10, generator=generator)
    losses, gradients = [], []
    for plain in (False, True):
        model = build(cfg.model, cfg.method.head, 32, 10, seed=0).train()
        model.pixel_mean.fill_(127.0), model.pixel_std.fill_(70.0)
        optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
        if plain:
            with train.PlainWay(model):
                losses.append(train.step(model, optimiser, cfg, frames.permute(0, 1, 4, 2, 3), blocks, 0))
        else:
            losses.append(train.step(model, optimiser, cfg, frames, blocks, 0))
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert abs(losses[0] - losses[1]) < 1e-4 * losses[1]
    # CLS tokens of an untrained model differ little, and the projector's batch norm magnifies the rounding with them
    assert (gradients[0] - gradients[1]).norm() < 1e-3 * gradients[1].norm()
    assert "encode" not in vars(model)
    assert methods.sigreg is not train.sigreg.plain


def test_the_benchmark_takes_the_same_steps_on_both_sides(monkeypatch):
    monkeypatch.setattr(train, "SIZES", {"desk": (6, 60, 4, 1)})
    monkeypatch.setattr(timing, "PEAK", 64)
    found = json.loads(json.dumps(train.run("desk", ROOT / "params.yaml")))
    assert {"bench": "train", "unit": "s", "size": "desk", "batch": 4, "window": 8}.items() <= found.items()
    assert found["loss_difference"] < 1e-4
    assert found["loss"] > 0
    assert all(found[name] > 0 for name in ("ratio", "ours", "reference", "gflop", "peak_gflops", "share"))
