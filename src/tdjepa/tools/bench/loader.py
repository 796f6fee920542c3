"""Windows a second at random places of one file: our memory map against the library's HDF5Dataset."""

import tempfile
from pathlib import Path

import numpy as np

from tdjepa.base import torchvision_shim
from tdjepa.config.records.data import TwoRoomData
from tdjepa.config.slices import CollectSlice
from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.steps import collect
from tdjepa.tools.bench.timing import best, result

WINDOW, FRAMESKIP, BATCH = 4, 5, 32


def run() -> dict:
    torchvision_shim.ensure()
    from stable_worldmodel.data.formats.hdf5 import HDF5Dataset

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "episodes.h5")
        data = TwoRoomData(episodes=200, max_steps=100, action_noise=2.0, image_size=64)
        collect.run(CollectSlice(env="two_room", seed=0, min_length=26, goal_offset=25, data=data), path)
        store = Store(path)
        library = HDF5Dataset(path=path, frameskip=FRAMESKIP, num_steps=WINDOW, keys_to_load=["pixels", "action"])
        first = windows.starts(store.length, store.offset, np.arange(store.episodes), WINDOW, FRAMESKIP)
        rng = np.random.default_rng(0)
        mine, theirs = rng.permutation(len(first)), rng.permutation(len(library))
        batches, items = 200, 200

        def ours():
            for k in range(batches):
                chosen = first[mine[k * BATCH : (k + 1) * BATCH]]
                windows.gather(store.pixels, store.action, chosen, WINDOW, FRAMESKIP)

        def reference():
            for k in range(items):
                library[int(theirs[k])]

        a, b = best(ours, reference, rounds=3)
    a, b = batches * BATCH / a, items / b
    return result("loader", a / b, a, b, unit="windows/s")
