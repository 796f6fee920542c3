"""How benchmarks measure: both sides alternate in one run, the best of several rounds counts, CPU time of this process.

Timings on a shared machine are noisy; the ratio of two things measured side by side is not.
"""

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

PEAK = 1024  # width of the square matrices whose product is the peak
_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
CPU_ATTENTION = {  # torch counts the kernels of GPUs only
    _forward: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    _backward: lambda g, q, k, v, *_, **__: sdpa_backward_flop_count(g, q, k, v),
}


def cpu_seconds(function: Callable[[], object], *args) -> float:
    begin = time.process_time()
    function(*args)
    return time.process_time() - begin


def best(*sides: Callable[[], object], rounds: int = 12, warm_up: bool = True) -> list[float]:
    """Best CPU seconds of each side, measured in turn after one warm-up call each."""
    times = [[cpu_seconds(side) for side in sides] for _ in range(rounds + warm_up)]
    return [min(of_side) for of_side in zip(*times[warm_up:], strict=True)]


def rates(*sides: Callable[[], int], rounds: int) -> list[float]:
    """The best rate of each side per CPU second, measured in turn after one warm-up call; a side returns how much it did."""

    def rate(side):
        begin = time.process_time()
        return side() / (time.process_time() - begin)

    found = [[rate(side) for side in sides] for _ in range(rounds + 1)]
    return [max(of_side) for of_side in zip(*found[1:], strict=True)]


def matmul() -> Callable[[], torch.Tensor]:
    """A large float32 product; `peak` of its seconds is what one thread can do."""
    a, b = torch.randn(2, PEAK, PEAK)
    return lambda: a @ b


def peak(seconds: float) -> float:
    """Operations per second of `matmul`."""
    return 2 * PEAK**3 / seconds


def operations(function: Callable[[], object]) -> int:
    """Floating-point operations of matrix products and attention, counted by torch."""
    with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter:
        function()
    return counter.get_total_flops()


def result(name: str, ratio: float, ours: float, reference: float, **more) -> dict:
    return {"bench": name, "ratio": round(ratio, 2), "ours": round(ours, 6), "reference": round(reference, 6), **more}


def faster(name: str, ours: float, reference: float, **more) -> dict:
    """The result from the seconds of both sides."""
    return result(name, reference / ours, ours, reference, unit="s", **more)
