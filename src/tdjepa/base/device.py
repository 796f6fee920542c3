"""Which device and precision "auto" means on this machine."""

import contextlib

import torch

from tdjepa.base.errors import UserError


def pick_device(name: str, key: str = "train.device") -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"{key} = {name!r}: this machine has no usable CUDA device; write auto or cpu")
    return device


def pick_autocast(precision: str, device: torch.device):
    """bf16 autocast where it pays (GPUs that have it); on most CPUs it is several times slower than fp32."""
    wanted = precision == "bf16" or (precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported())
    return torch.autocast(device.type, torch.bfloat16) if wanted else contextlib.nullcontext()
