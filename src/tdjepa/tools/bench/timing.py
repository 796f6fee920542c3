"""How benchmarks are timed: both sides alternate in one run, the best of several rounds counts, CPU time of this process.

Timings on a shared machine are noisy; the ratio of two things measured side by side is not.
"""

import time
from collections.abc import Callable


def best(ours: Callable[[], None], reference: Callable[[], None], rounds: int = 12) -> tuple[float, float]:
    """Best CPU seconds of each, measured in turn after one warm-up call each."""
    ours(), reference()
    times = [(cpu_seconds(ours), cpu_seconds(reference)) for _ in range(rounds)]
    return min(t for t, _ in times), min(t for _, t in times)


def cpu_seconds(function: Callable[[], None]) -> float:
    begin = time.process_time()
    function()
    return time.process_time() - begin


def result(name: str, ratio: float, ours: float, reference: float, **more) -> dict:
    return {"bench": name, "ratio": round(ratio, 2), "ours": round(ours, 6), "reference": round(reference, 6), **more}
