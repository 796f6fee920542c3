"""The data of the benchmarks: Two-Room episodes, and the library's reader of their file."""

from pathlib import Path

import numpy as np

from tdjepa.base.torchvision_shim import library
from tdjepa.config.records.data import TwoRoomData
from tdjepa.config.slices import CollectSlice
from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.steps import collect


def two_room(path: Path, episodes: int, min_length: int, image_size: int = 64, max_steps: int = 100) -> Path:
    """Collect episodes into `path`."""
    data = TwoRoomData(episodes=episodes, max_steps=max_steps, action_noise=2.0, image_size=image_size)
    collect.run(CollectSlice(env="two_room", seed=0, min_length=min_length, goal_offset=25, data=data), path)
    return path


def dataset(path: Path, window: int, frameskip: int):
    """The library's HDF5Dataset of windows."""
    options = {"frameskip": frameskip, "num_steps": window, "keys_to_load": ["pixels", "action"]}
    return library("data.formats.hdf5").HDF5Dataset(path=path, **options)


def shuffled(store: Store, window: int, frameskip: int, of_library) -> tuple[np.ndarray, np.ndarray]:
    """Our windows (their first rows) and the numbers of the library's, each in random order."""
    rng, every = np.random.default_rng(0), np.arange(store.episodes)
    first = windows.starts(store.length, store.offset, every, window, frameskip, "after_last_block")
    return rng.permutation(first), rng.permutation(len(of_library))
