"""A GPU must not wait for the host: no number is read and nothing is copied while the host waits, except when gathered.

This machine has no GPU. Reading a number is an operation that can be counted on a CPU; a copy to another device can be seen with
torch's device `meta`, which has shapes but no numbers, so that whatever needs one fails.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.base.transfer import moved, on_device
from tdjepa.config.load import load
from tdjepa.config.records.model import Runtime
from tdjepa.config.slices import train_slice
from tdjepa.model.world_model import build
from tdjepa.objective.methods import objective
from tdjepa.steps import train as training
from tdjepa.steps.health import Readings, latent_health

SMOKE = load(ROOT / "params.yaml", "smoke")


class Watch(TorchDispatchMode):
    """Calls `seen(operation, arguments, result)` for everything that torch does."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.seen(func, args, kwargs or {}, result)
        return result


def test_no_number_is_read_between_two_gatherings(smoke, data, tmp_path, monkeypatch):
    read, gathered, gather, build_ = [], [], training.gather, training.build

    def reads(func, *_):
        if func is torch.ops.aten._local_scalar_dense.default:
            read.append(func)

    def watched(readings, at, *rest):
        gathered.append((at.step, len(read)))
        found = gather(readings, at, *rest)
        read.clear()
        return found

    def built(*args):
        model = build_(*args)
        read.clear()  # the draw of the first weights reads
        return model

    monkeypatch.setattr(training, "gather", watched)
    monkeypatch.setattr(training, "build", built)
    cfg = train_slice(smoke, "two_room", "tdjepa", 1)
    train = cfg.train.model_copy(update={"epochs": 1, "steps_per_epoch": 23, "accumulate": 2, "batch": 4})
    where = (data / "episodes.h5", data / "mined/split.json", tmp_path)
    with Watch(reads):
        assert float(torch.ones(())) == 1
        assert len(read) == 1  # so it would be seen
        read.clear()
        training.run(cfg.model_copy(update={"train": train}), *where, Runtime(gather_every=5, snapshot_every=1000))
    assert gathered == [(step, 0) for step in (5, 10, 15, 20, 23)]


@pytest.mark.parametrize("name", SMOKE.methods)
def test_a_step_copies_without_waiting_and_needs_no_number(name, monkeypatch):
    cfg, device = train_slice(SMOKE, "two_room", name, 1), torch.device("meta")
    model = build(cfg.model, cfg.method.head, 32, 10, 1).to(device).train()
    frames = torch.zeros(4, cfg.method.window, 32, 32, 3, dtype=torch.uint8)
    blocks = torch.zeros(4, cfg.method.window - 1, 10)
    copies = []
    monkeypatch.setattr(
        torch, "is_autocast_enabled", lambda kind: False
    )  # nobody asks that of a device without numbers

    def copied(func, args, kwargs, result):
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        if (
            isinstance(result, torch.Tensor)
            and result.device == device
            and any(x.device.type == "cpu" for x in tensors)
        ):
            copies.append((func, kwargs.get("non_blocking", False)))

    with Watch(copied):
        (given,) = on_device([(frames.numpy(), blocks.numpy())], device)
        loss, terms, z = objective(model, cfg.method, *given, 1, 0, 4)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        Readings().note(1, {"loss": loss, **terms, "grad_norm": norm, **latent_health(z)})
    assert len(copies) >= 2
    assert all(non_blocking for _, non_blocking in copies), copies


@pytest.mark.parametrize("every", [1, 8, 1000])
def test_a_training_that_diverges_is_stopped_at_the_next_gathering_with_the_step_that_it_was(
    smoke, data, tmp_path, every
):
    cfg = train_slice(smoke, "two_room", "lewm", 1)
    train = cfg.train.model_copy(update={"lr": 1e18, "warmup": 0.0, "steps_per_epoch": 20})
    where = (data / "episodes.h5", data / "mined/split.json", tmp_path)
    with pytest.raises(UserError, match=r"loss is not finite \(.*\) at step 2; lower train\.lr"):
        training.run(cfg.model_copy(update={"train": train}), *where, Runtime(gather_every=every))
    assert not (tmp_path / ".running/snapshot.safetensors").exists()


def test_what_is_on_the_cpu_already_is_not_copied():
    x = torch.arange(3)
    assert moved(x, torch.device("cpu")).data_ptr() == x.data_ptr()
    assert moved(x.numpy(), torch.device("cpu")).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("key", ["WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"])
def test_one_of_several_processes_is_refused(smoke, data, tmp_path, monkeypatch, key):
    monkeypatch.setenv(key, "2")
    with pytest.raises(UserError, match=rf"^train two_room/lewm/1: {key} = 2: a training is one process on one device"):
        training.run(
            train_slice(smoke, "two_room", "lewm", 1), data / "episodes.h5", data / "mined/split.json", tmp_path / "x"
        )
    assert not (tmp_path / "x").exists()
