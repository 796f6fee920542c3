"""Frames per second of collecting at 64 px, from reset to the closed file: ours against the library's own loop.

Both sides follow the same policy (Two-Room and Cube: the expert; Push-T: the library's WeakPolicy; Reacher: random actions),
in turn after a warm-up, in CPU time of this process; the best round counts. The cases are in collect.yaml.
"""

import contextlib
import io
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import yaml

from tdjepa.base.torchvision_shim import library
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import make
from tdjepa.steps import collect
from tdjepa.tools.bench.timing import rates, result


def run(env: str = "two_room") -> dict:
    torch.set_num_threads(1)
    make(env)  # before the library: it chooses the OpenGL backend for both
    case = yaml.safe_load(Path(__file__).with_name("collect.yaml").read_text())[env]
    cfg = CollectSlice(env=env, seed=0, min_length=1, goal_offset=25, data=case["data"])
    world, dataset = library_world(case), library("data.formats.hdf5").HDF5Dataset
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:

        def ours():  # in its own thread: dm_control expects that the OpenGL context of its thread stays its own
            return thread.submit(collect.run, cfg, Path(folder, "ours.h5")).result()["rows"]

        def reference():
            path = Path(folder, "reference.h5")
            path.unlink(missing_ok=True)
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                world.collect(path, episodes=case["episodes"], seed=0, format="hdf5", progress=False)
            return int(dataset(path=path).lengths.sum())

        a, b = rates(ours, reference, rounds=case["rounds"])
    if env == "reacher":
        world.envs.envs[0].unwrapped.env.physics.free()  # or dm_control complains while the interpreter ends
    return result("collect", a / b, a, b, unit="frames/s", env=env)


def library_world(case: dict):
    """The library's own collection loop with its own policy."""
    module, name, options = case["policy"]
    size, steps = case["data"]["image_size"], case["data"]["max_steps"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = {"num_envs": 1, "image_shape": (size, size), "max_episode_steps": steps}
        world = library().World(case["world"], **shape, **case["options"])
        world.set_policy(getattr(library(module), name)(seed=0, **options))
    return world
