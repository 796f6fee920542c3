"""Windows for a training, read by threads ahead of whoever asks for them, within a bound on memory."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tdjepa.base.errors import UserError
from tdjepa.data.store import Store


def window_stream(
    data: Store,
    order: np.ndarray,
    batch: int,
    window: int,
    frameskip: int,
    workers: int,
    memory_mb: float,
    empty: Callable = np.empty,
):
    """Batches of windows: what `windows.gather` gives for order[:batch] and so on; the last one may be shorter.

    -> frames (B, T, H, W, 3) uint8, actions (B, T-1, frameskip * A)

    The batches and their order do not depend on `workers` (threads; 0: nothing is read before it is asked for). All decoded
    frames lie in a ring of buffers that fits into `memory_mb`, the batch that was handed out last included. Its frames are
    overwritten once the next one is asked for, so copy what you keep. Reading ahead needs room for two batches. `empty` makes
    the buffers, as np.empty does. Use it in a `with` statement, which ends the threads.
    """
    shape = (min(batch, len(order)), window, *data.pixels.shape[1:])
    size, aside = int(np.prod(shape)), max(workers, 1) * int(np.prod(shape[2:]))  # each thread holds a frame besides
    room = int(memory_mb * 1e6) - aside
    if room < size:
        needed = -(-(size + aside) // 10**6)
        what = f"a batch of {batch} windows of {window} frames of {data.image_size} px needs {needed} MB"
        more = f"{needed + -(-size // 10**6)} to read ahead; give more or choose a smaller batch"
        raise UserError(f"memory_mb = {memory_mb:g}: {what}, and {more}")
    groups = [order[k : k + batch] for k in range(0, len(order), batch)]
    ring = [empty(shape, np.uint8) for _ in range(min(room // size, len(groups)) if workers and groups else 1)]
    return contextlib.closing(_read_ahead(data, groups, ring, frameskip, max(workers, 1)))


def _read_ahead(
    data: Store, groups: list[np.ndarray], ring: list[np.ndarray], frameskip: int, workers: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches in order; while batch k is used, those after it are being read into the other buffers of the ring."""
    window, frame = ring[0].shape[1], ring[0].shape[2:]
    stop, running = threading.Event(), deque()
    pool = ThreadPoolExecutor(workers, "reader")

    def fill(rows: np.ndarray, out: np.ndarray) -> None:
        for k, row in enumerate(rows):  # frame by frame, so that no second copy of all of them exists
            if stop.is_set():
                return
            out[k] = data.pixels[row]

    try:
        started = 0
        for k, first in enumerate(groups):
            for begun in range(
                started, min(k + len(ring), len(groups))
            ):  # batch k - 1 is done with: its buffer is free
                rows = (groups[begun][:, None] + np.arange(window) * frameskip).reshape(-1)
                out = ring[begun % len(ring)].reshape(-1, *frame)[: len(rows)]
                parts = zip(np.array_split(rows, workers), np.array_split(out, workers), strict=True)
                running.append([pool.submit(fill, *part) for part in parts])
                started = begun + 1
            for future in running.popleft():
                future.result()
            blocks = data.action[first[:, None] + np.arange((window - 1) * frameskip)]
            yield ring[k % len(ring)][: len(first)], blocks.reshape(len(first), window - 1, -1)
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
