"""Which device and precision "auto" means on this machine."""

import contextlib
import os

import torch

from tdjepa.base.errors import UserError


def pick_device(name: str, key: str = "train.device") -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"{key} = {name!r}: this machine has no usable CUDA device; write auto or cpu")
    return device


def one_process(name: str) -> None:
    """Refuse to be one of several processes that were meant to share a training: each would train on batches of its own."""
    for key in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE"):
        if os.environ.get(key, "1") not in ("", "0", "1"):
            why = "a training is one process on one device, because SIGReg and BatchNorm need the whole batch"
            raise UserError(f"{name}: {key} = {os.environ[key]}: {why}; start it once (docs/protocol.md, Several GPUs)")


def full(x: torch.Tensor) -> torch.Tensor:
    """At least fp32: under autocast layers give bf16, which is too coarse to subtract."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def pick_autocast(precision: str, device: torch.device):
    """bf16 autocast where it pays (GPUs that have it); on most CPUs it is several times slower than fp32."""
    wanted = precision.startswith("bf16") or (
        precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )
    return torch.autocast(device.type, torch.bfloat16) if wanted else contextlib.nullcontext()
