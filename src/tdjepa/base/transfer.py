"""From host memory to a GPU without making either wait: pinned buffers, and copies that run beside the host's work."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch

WAITING = ("cpu", "mps")  # devices to which nothing is copied, or only while the host waits


def moved(x: np.ndarray | torch.Tensor, device: torch.device) -> torch.Tensor:
    """What lies in host memory as a tensor on the device. A GPU copies it later, while the host goes on."""
    x = torch.as_tensor(x)
    if device.type == "cuda" and not x.is_pinned():
        x = x.pin_memory()  # from other memory even a small copy waits until the GPU has done all that it was given
    return x.to(device, non_blocking=device.type not in WAITING)


def buffers(device: torch.device) -> Callable:
    """What makes the arrays that frames are read into: np.empty, or the same in pinned memory if they go to a GPU."""
    if device.type != "cuda":
        return np.empty
    return lambda shape, kind: torch.empty(shape, dtype=getattr(torch, np.dtype(kind).name), pin_memory=True).numpy()


def on_device(batches: Iterable[tuple[np.ndarray, ...]], device: torch.device) -> Iterator[list[torch.Tensor]]:
    """Batches as tensors on the device. Arrays are overwritten once the next batch is asked for, so a copy is waited for then."""
    for batch in batches:
        parts = [moved(part, device) for part in batch]
        copied = torch.cuda.Event() if device.type == "cuda" else None
        if copied:
            copied.record()
        yield parts
        if copied:
            copied.synchronize()
