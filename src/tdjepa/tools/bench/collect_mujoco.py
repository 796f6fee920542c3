"""Frames a second of collecting Reacher or Cube at 64 px, from reset to the closed file: ours against the library's loop.

python -m tdjepa.tools.bench.collect_mujoco reacher
"""

import contextlib
import io
import json
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tdjepa.base import torchvision_shim
from tdjepa.config.records.data import CubeData, ReacherData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import make
from tdjepa.steps import collect
from tdjepa.tools.bench.timing import result

SIZE = 64
STEPS = {"reacher": 200, "cube": 100}  # of an episode; the library draws a Cube frame in a fifth of a second
DATA = {  # of ours; the library collects one episode
    "reacher": ReacherData(episodes=20, max_steps=STEPS["reacher"], image_size=SIZE),
    "cube": CubeData(episodes=5, max_steps=STEPS["cube"], action_noise=0.1, carry_share=0.0, image_size=SIZE),
}
LIBRARY = {
    "reacher": ("swm/ReacherDMControl-v0", {"task": "qpos_match"}),
    "cube": (
        "swm/OGBCube-v0",
        {"env_type": "single", "ob_type": "states", "multiview": False, "visualize_info": False}
        | {"mode": "data_collection", "terminate_at_goal": False},
    ),
}


def run(env: str) -> dict:
    """Both sides in turn after a warm-up, in CPU time of this process.

    Ours runs in a thread of its own: dm_control takes for granted that the OpenGL context of its thread stays its own.
    """
    ours = make(env)  # before the library: it chooses the OpenGL backend for both
    cfg = CollectSlice(env=env, seed=0, min_length=1, goal_offset=25, data=DATA[env])
    world = library_world(env)

    def collect_ours(path):
        return thread.submit(draw_ours, path).result()

    def draw_ours(path):
        demos = ours.demonstrations(cfg)
        collect.write(path, ours, demos, SIZE)
        return len(demos.state)

    def collect_reference(path):
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            world.collect(path, episodes=1, seed=0, format="hdf5", progress=False)
        return STEPS[env]

    rates = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        for number, side in enumerate((collect_ours, collect_reference) * 2):
            begin = time.process_time()
            frames = side(Path(folder) / f"{number}.h5")
            rates[side] = frames / (time.process_time() - begin)  # of the second round, the first is the warm-up
    if env == "reacher":
        world.envs.envs[0].unwrapped.env.physics.free()  # or dm_control complains while the interpreter ends
    a, b = rates[collect_ours], rates[collect_reference]
    return result("collect", a / b, a, b, unit="frames/s", env=env)


def library_world(env: str):
    """The library's own collection loop with its own policy, as it comes."""
    torchvision_shim.ensure()
    import torch

    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import stable_worldmodel as swm
        from stable_worldmodel.envs.ogbench.expert_policy import ExpertPolicy
        from stable_worldmodel.policy import RandomPolicy

        name, options = LIBRARY[env]
        world = swm.World(name, num_envs=1, image_shape=(SIZE, SIZE), max_episode_steps=STEPS[env], **options)
        world.set_policy(RandomPolicy(seed=0) if env == "reacher" else ExpertPolicy(seed=0))
    return world


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))
