"""Windows per second at paper scale: packed 224-px frames through our threads against the library's HDF5Dataset.

Wall clock, median of five rounds, the start of the stream included. The library runs without workers, in this process; it
unpacks all 40 rows that a window spans, we unpack the 8 that are used. A busy machine lowers all rates, so `load` is reported.
What the figures mean for the paper scale is in docs/environments.md, "Storage".
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tdjepa.data.reader import window_stream
from tdjepa.data.store import Store, pack
from tdjepa.tools.bench import data
from tdjepa.tools.bench.timing import result

WINDOW, FRAMESKIP, BATCH = 8, 5, 128
EPISODES, RAW = 260, 3 * 10**9  # bytes of frames at least
MEMORY = 700  # MB: four batches of 154 MB
WORKERS = (0, 1, 2, 4)
ROUNDS, BATCHES, ITEMS = 5, 24, 100


def run() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        raw, path = data.two_room(Path(folder, "raw.h5"), EPISODES, 41, image_size=224), Path(folder, "packed.h5")
        made = time.perf_counter()
        card = pack(raw, path)
        seconds = {"collect": made - begin, "pack": time.perf_counter() - made}
        if card["raw_bytes"] < RAW:
            raise AssertionError(f"only {card['raw_bytes']} bytes of frames, {RAW} are needed: more episodes")
        raw.unlink()
        store, library = Store(path), data.dataset(path, WINDOW, FRAMESKIP)
        mine, theirs = data.shuffled(store, WINDOW, FRAMESKIP, library)

        def reference() -> float:
            clock = time.perf_counter()
            for k in theirs[:ITEMS]:
                library[int(k)]
            return ITEMS / (time.perf_counter() - clock)

        rates = [(*(streamed(store, mine, n)["rate"] for n in WORKERS), reference()) for _ in range(ROUNDS)]
        *ours, reference_rate = np.median(rates, 0)
        by_workers = dict(zip(WORKERS, ours, strict=True))
        memory, cold = streamed(store, mine, 2), streamed(store, mine, 2, forget=path)
    spread = zip(WORKERS, np.min(rates, 0), np.max(rates, 0), strict=False)
    measured = {"workers": {str(n): round(rate, 1) for n, rate in by_workers.items()}}
    measured["spread"] = {str(n): [round(float(low), 1), round(float(high), 1)] for n, low, high in spread}
    measured |= {"cold_2_workers": round(cold["rate"], 1), "cpu_ms_per_window": round(memory["cpu_ms"], 3)}
    measured |= {"memory_mb": MEMORY, "rss_before_mb": memory["before"], "peak_rss_mb": memory["peak"]}
    measured |= {"raw_bytes": card["raw_bytes"], "bytes_on_disk": card["bytes"]}
    measured |= {"seconds": {name: round(value, 1) for name, value in seconds.items()}}
    measured["load"] = round(os.getloadavg()[0], 1)
    ratio = by_workers[2] / reference_rate
    return result("reader", ratio, by_workers[2], reference_rate, unit="windows/s", **measured)


def streamed(store: Store, order: np.ndarray, workers: int, forget: Path | None = None) -> dict:
    """Wall-clock rate, CPU time and resident memory of BATCHES batches; `forget` drops the file from the page cache first."""
    if forget is not None and hasattr(os, "posix_fadvise"):
        with open(forget, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    count, before, peak, clock, cpu = BATCHES * BATCH, resident(), 0.0, time.perf_counter(), time.process_time()
    with window_stream(store, order[:count], BATCH, WINDOW, FRAMESKIP, workers, MEMORY) as stream:
        for _ in stream:
            peak = max(peak, resident())
    rate, cpu_ms = count / (time.perf_counter() - clock), (time.process_time() - cpu) / count * 1e3
    return {"rate": rate, "cpu_ms": cpu_ms, "before": round(before), "peak": round(peak)}


def resident() -> float:
    """Memory of this process that is in RAM, MB; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    except OSError:
        return 0.0
