"""A training that was stopped goes on where it was, and ends with the same bytes.

Random draws are keyed by the step (streams.py), so a step depends on nothing but the weights, the optimiser's moments, the
step number and the sums of the curve and of the health. They are one safetensors file, written atomically now and then into
`<out>/.running`. Epoch checkpoints wait there too until the last one is done, because a workflow removes the outputs of a
job that did not finish.
"""

import json
import os
import shutil
import signal
import weakref
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tdjepa.base.artefacts import explained, lock, publish
from tdjepa.base.errors import Stopped

KEY = "tdjepa"  # one metadata key, see model/checkpoint.py


@dataclass
class Position:
    """Where a training is: steps done, running sums of the epoch, finished lines of the curve, smoothed signs of health."""

    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    curve: list[dict] = field(default_factory=list)
    health: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0  # of the steps that led here, of all attempts
    lock: object = None  # held until the position is forgotten


class Lock:
    """Only one process may train into a folder, as long as this object lives."""

    def __init__(self, folder: Path):
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.handle = os.open(folder, os.O_RDONLY)
        weakref.finalize(self, os.close, self.handle)
        lock(self.handle, f"{folder}: another process is training into this folder; wait for it")


def save(folder: Path, run_key: str, model: torch.nn.Module, optimiser: torch.optim.Optimizer, at: Position) -> None:
    """Everything that the next step depends on. `run_key` says which parameters, data and code it belongs to."""
    from safetensors.torch import save_file

    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, moments in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in moments.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    about = {"run": run_key, "step": at.step, "sums": at.sums, "curve": at.curve, "health": at.health}
    about["cpu_seconds"] = at.cpu_seconds
    with publish(folder / "snapshot.safetensors", alone=True) as temporary:
        save_file(tensors, temporary, metadata={KEY: json.dumps(about)})  # JSON keeps a float's every bit


def restore(folder: Path, run_key: str, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> Position:
    """Continue the snapshot in `folder` if it is of the same run; a snapshot of another one is thrown away."""
    from safetensors import SafetensorError, safe_open

    held, path = Lock(folder.parent), folder / "snapshot.safetensors"
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {}).get(KEY, "{}"))
            if about.get("run") != run_key:
                raise FileNotFoundError(path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (FileNotFoundError, SafetensorError, ValueError):
        shutil.rmtree(folder, ignore_errors=True)
        return Position(lock=held)
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for kind, number, moment in (name.split(".") for name in tensors if name.startswith("optimiser.")):
        moments.setdefault(int(number), {})[moment] = tensors[f"{kind}.{number}.{moment}"]
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    return Position(about["step"], about["sums"], about["curve"], about["health"], about["cpu_seconds"], held)


def deliver(folder: Path, out: Path) -> None:
    """Copy what waits in `folder` to its final place, then remove the folder. Killed half-way it can be done again."""
    for path in sorted(folder.iterdir(), key=lambda path: (path.name.endswith(".card.json"), path.name)):  # cards last
        if path.name != "snapshot.safetensors" and not path.name.startswith("."):
            with publish(out / path.name, alone=True) as temporary:
                shutil.copyfile(path, temporary)
    shutil.rmtree(folder)


class Preemption:
    """Inside, SIGTERM (as a cluster sends it before it kills) only raises a flag; the training looks at it between two steps."""

    asked = False

    def __enter__(self):
        self.before = signal.signal(signal.SIGTERM, self.note)
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGTERM, self.before)

    def note(self, *_) -> None:
        self.asked = True

    def obey(self, step: int) -> None:
        if self.asked:
            raise Stopped(f"stopped by SIGTERM after step {step}, which is saved; the same command goes on from there")
