"""Frames per second of collecting at 64 px, from reset to the closed file: ours against the library's own loop.

Both sides follow the same policy (Two-Room and Cube: the expert; Push-T: the library's WeakPolicy; Reacher: random actions),
in turn after a warm-up, in CPU time of this process; the best round counts.
"""

import contextlib
import io
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tdjepa.base.torchvision_shim import library
from tdjepa.config.records.base import Record
from tdjepa.config.records.data import CubeData, PushTData, ReacherData, TwoRoomData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import make
from tdjepa.steps import collect
from tdjepa.tools.bench.timing import rates, result

SIZE, NOISE = 64, 2.0


@dataclass(frozen=True)
class Case:
    data: Record  # what we collect
    world: str  # the library's environment
    policy: tuple[str, str, dict]  # of the library: module, class, options
    options: dict = field(default_factory=dict)  # of its environment
    episodes: int = 1  # that the library collects: it takes a fifth of a second to draw a frame of Cube
    rounds: int = 1


CUBE = {"env_type": "single", "ob_type": "states", "multiview": False, "visualize_info": False}
CASES = {
    "two_room": Case(
        TwoRoomData(episodes=200, max_steps=100, action_noise=NOISE, image_size=SIZE),
        *("swm/TwoRoom-v1", ("envs.two_room.expert_policy", "ExpertPolicy", {"action_noise": NOISE}), {}, 10, 3),
    ),
    "push_t": Case(
        PushTData(episodes=40, max_steps=100, expert_share=0.0, target_share=0.5, action_noise=0.0, image_size=SIZE),
        *("swm/PushT-v1", ("envs.pusht.expert_policy", "WeakPolicy", {"dist_constraint": 100}), {}, 10, 3),
    ),
    "reacher": Case(
        ReacherData(episodes=20, max_steps=200, image_size=SIZE),
        *("swm/ReacherDMControl-v0", ("policy", "RandomPolicy", {}), {"task": "qpos_match"}),
    ),
    "cube": Case(
        CubeData(episodes=5, max_steps=100, action_noise=0.1, carry_share=0.0, image_size=SIZE),
        *("swm/OGBCube-v0", ("envs.ogbench.expert_policy", "ExpertPolicy", {})),
        CUBE | {"mode": "data_collection", "terminate_at_goal": False},
    ),
}


def run(env: str = "two_room") -> dict:
    case = CASES[env]
    torch.set_num_threads(1)
    make(env)  # before the library: it chooses the OpenGL backend for both
    cfg = CollectSlice(env=env, seed=0, min_length=1, goal_offset=25, data=case.data)
    world, dataset = library_world(case), library("data.formats.hdf5").HDF5Dataset
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:

        def ours():  # in its own thread: dm_control expects that the OpenGL context of its thread stays its own
            return thread.submit(collect.run, cfg, Path(folder, "ours.h5")).result()["rows"]

        def reference():
            path = Path(folder, "reference.h5")
            path.unlink(missing_ok=True)
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                world.collect(path, episodes=case.episodes, seed=0, format="hdf5", progress=False)
            return int(dataset(path=path).lengths.sum())

        a, b = rates(ours, reference, rounds=case.rounds)
    if env == "reacher":
        world.envs.envs[0].unwrapped.env.physics.free()  # or dm_control complains while the interpreter ends
    return result("collect", a / b, a, b, unit="frames/s", env=env)


def library_world(case: Case):
    """The library's own collection loop with its own policy."""
    module, name, options = case.policy
    policy = getattr(library(module), name)(seed=0, **options)
    shape = {"num_envs": 1, "image_shape": (SIZE, SIZE), "max_episode_steps": case.data.max_steps}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = library().World(case.world, **shape, **case.options)
        world.set_policy(policy)
    return world
