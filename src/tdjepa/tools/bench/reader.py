"""Windows a second at paper scale: packed 224-px frames through our threads against the library's HDF5Dataset.

Wall clock, median of five rounds, the start of the stream included; the library without workers, in this process (it unpacks
all 40 rows that a window spans, we the 8 that are used). A busy machine lowers all rates: `load` is reported beside them.

What it means for the paper scale, with measured figures: docs/environments.md, "Storage".
Four batches in flight need 617 MB (of memory_mb = 700), whatever the size of the file. 350 GB of raw frames become 12 GB
(as Two-Room, 1/30) to 56 GB (as Reacher, 1/6), and 427 windows/s are 3400 reads/s and 17 to 83 MB/s: fine for an SSD or a
page cache that holds the file, too much for one spinning disk.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tdjepa.base import torchvision_shim
from tdjepa.config.records.data import TwoRoomData
from tdjepa.config.slices import CollectSlice
from tdjepa.data.reader import window_stream
from tdjepa.data.store import Store, pack
from tdjepa.mining import windows
from tdjepa.steps import collect
from tdjepa.tools.bench.timing import result

WINDOW, FRAMESKIP, BATCH = 8, 5, 128
RAW = 3 * 10**9  # bytes of frames at least
MEMORY = 700  # MB: four batches of 154 MB
WORKERS = (0, 1, 2, 4)
ROUNDS, BATCHES, ITEMS = 5, 24, 100


def run() -> dict:
    torchvision_shim.ensure()
    from stable_worldmodel.data.formats.hdf5 import HDF5Dataset

    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        raw, path = Path(folder, "raw.h5"), Path(folder, "packed.h5")
        data = TwoRoomData(episodes=260, max_steps=100, action_noise=2.0, image_size=224)
        collect.run(CollectSlice(env="two_room", seed=0, min_length=41, goal_offset=25, data=data), raw)
        made = time.perf_counter()
        card = pack(raw, path)
        seconds = {"collect": made - begin, "pack": time.perf_counter() - made}
        if card["raw_bytes"] < RAW:
            raise AssertionError(f"only {card['raw_bytes']} bytes of frames, {RAW} are needed: more episodes")
        raw.unlink()
        library = HDF5Dataset(path=path, frameskip=FRAMESKIP, num_steps=WINDOW, keys_to_load=["pixels", "action"])
        store = Store(path)
        first = windows.starts(store.length, store.offset, np.arange(store.episodes), WINDOW, FRAMESKIP)
        rng = np.random.default_rng(0)
        mine, theirs = rng.permutation(first), rng.permutation(len(library))[:ITEMS]

        def reference() -> float:
            clock = time.perf_counter()
            for k in theirs:
                library[int(k)]
            return len(theirs) / (time.perf_counter() - clock)

        rates = [(*(streamed(store, mine, n)["rate"] for n in WORKERS), reference()) for _ in range(ROUNDS)]
        *ours, reference_rate = np.median(rates, 0)
        by_workers = dict(zip(WORKERS, ours, strict=True))
        memory = streamed(store, mine, 2)
        cold = streamed(store, mine, 2, forget=path)
    return result(
        "reader",
        by_workers[2] / reference_rate,
        by_workers[2],
        reference_rate,
        unit="windows/s",
        workers={str(n): round(rate, 1) for n, rate in by_workers.items()},
        spread={
            str(n): [round(float(f(column)), 1) for f in (np.min, np.max)]
            for n, column in zip(WORKERS, np.transpose(rates), strict=False)
        },
        cold_2_workers=round(cold["rate"], 1),
        cpu_ms_per_window=round(memory["cpu_ms"], 3),
        memory_mb=MEMORY,
        rss_before_mb=memory["before"],
        peak_rss_mb=memory["peak"],
        raw_bytes=card["raw_bytes"],
        bytes_on_disk=card["bytes"],
        seconds={name: round(value, 1) for name, value in seconds.items()},
        load=round(os.getloadavg()[0], 1),
    )


def streamed(store: Store, order: np.ndarray, workers: int, forget: Path | None = None) -> dict:
    """Wall-clock rate, CPU time and resident memory of BATCHES batches; `forget` drops the file from the page cache first."""
    if forget is not None and hasattr(os, "posix_fadvise"):
        with open(forget, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before, peak, clock, cpu = resident(), 0.0, time.perf_counter(), time.process_time()
    with window_stream(store, order[: BATCHES * BATCH], BATCH, WINDOW, FRAMESKIP, workers, MEMORY) as stream:
        for _ in stream:
            peak = max(peak, resident())
    count = BATCHES * BATCH
    rate, cpu_ms = count / (time.perf_counter() - clock), (time.process_time() - cpu) / count * 1e3
    return {"rate": rate, "cpu_ms": cpu_ms, "before": round(before), "peak": round(peak)}


def resident() -> float:
    """Memory of this process that is in RAM, MB; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    except OSError:
        return 0.0
