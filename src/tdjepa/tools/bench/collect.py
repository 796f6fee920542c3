"""Frames a second of collecting at 64 px, from reset to the closed file: ours against the library's own loop.

Both sides follow the same policy (Two-Room: the expert; Push-T: the library's WeakPolicy), in turn, best of three rounds.
"""

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

from tdjepa.base import torchvision_shim
from tdjepa.config.records.data import PushTData, TwoRoomData
from tdjepa.config.slices import CollectSlice
from tdjepa.steps import collect
from tdjepa.tools.bench.timing import cpu_seconds, result

SIZE, NOISE, MAX_STEPS = 64, 2.0, 100
DATA = {
    "two_room": TwoRoomData(episodes=200, max_steps=MAX_STEPS, action_noise=NOISE, image_size=SIZE),
    "push_t": PushTData(
        episodes=40, max_steps=MAX_STEPS, expert_share=0.0, target_share=0.5, action_noise=0.0, image_size=SIZE
    ),
}


def run(env: str = "two_room") -> dict:
    if env not in DATA:
        from tdjepa.tools.bench import collect_mujoco

        return collect_mujoco.run(env)
    reference = library_loop(env)
    cfg = CollectSlice(env=env, seed=0, min_length=1, goal_offset=25, data=DATA[env])

    def ours(folder):
        return collect.run(cfg, folder / "ours.h5")["rows"]

    rates = {}
    with tempfile.TemporaryDirectory() as name:
        for side in (ours, reference):
            side(Path(name))  # warm-up
        for _ in range(3):
            for side in (ours, reference):
                rows = []
                seconds = cpu_seconds(lambda side=side, rows=rows: rows.append(side(Path(name))))
                rates[side] = max(rates.get(side, 0.0), rows[0] / seconds)
    return result("collect", rates[ours] / rates[reference], rates[ours], rates[reference], unit="frames/s", env=env)


def library_loop(env: str):
    """The library's World.collect as a function of a folder that gives the number of frames written."""
    torchvision_shim.ensure()
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import stable_worldmodel as swm
        from stable_worldmodel.data.formats.hdf5 import HDF5Dataset
        from stable_worldmodel.envs.pusht.expert_policy import WeakPolicy
        from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy

    known = {
        "two_room": ("swm/TwoRoom-v1", lambda: ExpertPolicy(action_noise=NOISE, seed=0)),
        "push_t": ("swm/PushT-v1", lambda: WeakPolicy(dist_constraint=100, seed=0)),
    }
    name, policy = known[env]

    def loop(folder):
        world = swm.World(name, num_envs=1, image_shape=(SIZE, SIZE), max_episode_steps=MAX_STEPS)
        world.set_policy(policy())
        path = folder / "reference.h5"
        with contextlib.redirect_stdout(io.StringIO()):
            world.collect(path, episodes=10, seed=0, format="hdf5", progress=False)
        rows = int(HDF5Dataset(path=path).lengths.sum())
        path.unlink()
        return rows

    return loop
