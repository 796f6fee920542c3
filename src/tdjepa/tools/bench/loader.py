"""Windows per second at random places of one file: our memory map against the library's HDF5Dataset."""

import tempfile
from pathlib import Path

from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.tools.bench import data
from tdjepa.tools.bench.timing import rates, result

WINDOW, FRAMESKIP, BATCH, BATCHES, ITEMS = 4, 5, 32, 200, 200


def run() -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = data.two_room(Path(folder, "episodes.h5"), episodes=200, min_length=26)
        store, library = Store(path), data.dataset(path, WINDOW, FRAMESKIP)
        mine, theirs = data.shuffled(store, WINDOW, FRAMESKIP, library)

        def ours():
            for k in range(BATCHES):
                chosen = mine[k * BATCH : (k + 1) * BATCH]
                windows.gather(store.pixels, store.action, chosen, WINDOW, FRAMESKIP)
            return BATCHES * BATCH

        def reference():
            for k in theirs[:ITEMS]:
                library[int(k)]
            return ITEMS

        a, b = rates(ours, reference, rounds=3)
    return result("loader", a / b, a, b, unit="windows/s")
