"""Frames a second of collecting Two-Room at 64 px, from reset to the closed file: ours against the library's own loop."""

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

from tdjepa import torchvision_shim
from tdjepa.bench.timing import cpu_seconds, result
from tdjepa.data import collect
from tdjepa.params import CollectSlice, TwoRoomData

SIZE, NOISE, MAX_STEPS = 64, 2.0, 100


def run() -> dict:
    torchvision_shim.ensure()
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import stable_worldmodel as swm
        from stable_worldmodel.data.formats.hdf5 import HDF5Dataset
        from stable_worldmodel.envs.two_room.expert_policy import ExpertPolicy

    def ours(folder):
        data = TwoRoomData(episodes=200, max_steps=MAX_STEPS, action_noise=NOISE, image_size=SIZE)
        return collect.run(
            CollectSlice(env="two_room", seed=0, min_length=1, goal_offset=25, data=data), folder / "ours.h5"
        )["rows"]

    def reference(folder):
        world = swm.World("swm/TwoRoom-v1", num_envs=1, image_shape=(SIZE, SIZE), max_episode_steps=MAX_STEPS)
        world.set_policy(ExpertPolicy(action_noise=NOISE, seed=0))
        path = folder / "reference.h5"
        with contextlib.redirect_stdout(io.StringIO()):
            world.collect(path, episodes=10, seed=0, format="hdf5", progress=False)
        rows = int(HDF5Dataset(path=path).lengths.sum())
        path.unlink()
        return rows

    rates = {}
    with tempfile.TemporaryDirectory() as name:
        for side in (ours, reference):
            side(Path(name))  # warm-up
        for _ in range(3):  # in turn, the best counts
            for side in (ours, reference):
                rows = []
                seconds = cpu_seconds(lambda side=side, rows=rows: rows.append(side(Path(name))))
                rates[side] = max(rates.get(side, 0.0), rows[0] / seconds)
    return result(
        "collect", rates[ours] / rates[reference], rates[ours], rates[reference], unit="frames/s", env="two_room"
    )
