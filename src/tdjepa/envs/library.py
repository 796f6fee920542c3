"""Frames by the library's own environments, which drew the released data.

Slower than our renderers by far, and the import alone takes seconds, so only `evaluate.renderer: library` comes here. Each
environment draws one state at a time at 224 px; PIL resizes, as it does for the data (data/convert.py).
"""

import atexit
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image

from tdjepa.base.errors import UserError
from tdjepa.base.torchvision_shim import library
from tdjepa.envs.base import Env

Draw = Callable[[np.ndarray], np.ndarray]  # one of our states (S,) -> (224, 224, 3) uint8


def draws(env: Env) -> None:
    """From now on the frames of this environment are the library's."""
    drawer(env.name)  # an error now, not after the first plan
    env.render = lambda size: render(env.name, env.state, size)


def render(name: str, states: np.ndarray, size: int) -> np.ndarray:
    """Frames of our states, (N, S) -> (N, size, size, 3) uint8"""
    draw, frames = drawer(name), np.empty((len(states), size, size, 3), np.uint8)
    for frame, state in zip(frames, states, strict=True):
        image = Image.fromarray(draw(state))
        frame[:] = image if image.size == (size, size) else image.resize((size, size), Image.Resampling.BILINEAR)
    return frames


@cache
def drawer(name: str) -> Draw:
    """How the library draws that environment; UserError if it does not have it or cannot draw here."""
    if name not in DRAWERS:
        raise UserError(f"evaluate.renderer = 'library': the library has no {name}; choose fast")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gymnasium's, about its own types
        return DRAWERS[name]()


def two_room() -> Draw:
    env = library("envs.two_room.env").TwoRoomEnv()
    env.reset(seed=0)

    def draw(state):
        env._set_state(state)
        return env.render()

    return draw


def push_t() -> Draw:
    env = library("envs.pusht.env").PushT()
    env.reset(seed=0)

    def draw(state):  # without its own `_set_state`, which lets the physics run
        env.block.angle = state[4]  # before the position: turning is about the centre of gravity
        env.agent.position, env.block.position = tuple(state[:2]), tuple(state[2:4])
        for body in (env.agent, env.block):
            env.space.reindex_shapes_for_body(body)
        return env.render()

    return draw


def reacher() -> Draw:
    from tdjepa.envs import gl
    from tdjepa.envs.reacher import ANGLES, VELOCITIES

    gl.require()
    env = library("envs.dmcontrol.reacher").ReacherDMControlWrapper(task="qpos_match")
    env.reset(seed=0)
    model, data = env.env.physics.model.ptr, env.env.physics.data.ptr
    # MuJoCo's own renderer gives the same bytes as dm_control's, which trusts that nobody else draws and ends with a stack trace
    renderer = gl.mujoco.Renderer(model, 224, 224)
    atexit.register(renderer.close)  # before the display that all contexts share

    def draw(state):
        env.set_state(state[ANGLES], state[VELOCITIES])
        renderer.update_scene(data, env.camera_id)
        return renderer.render()

    return draw


def cube() -> Draw:
    from tdjepa.envs import gl
    from tdjepa.envs.cube import POSITIONS, VELOCITIES

    gl.require()
    kind = {"env_type": "single", "ob_type": "states", "multiview": False, "visualize_info": False}
    env = library("envs.ogbench.cube_env").CubeEnv(**kind, terminate_at_goal=False, mode="data_collection")
    env.reset()
    env.render()
    atexit.register(env._renderer.close)  # before the display that all contexts share

    def draw(state):
        env.set_state(state[POSITIONS], state[VELOCITIES])
        return env.render()

    return draw


DRAWERS = {"two_room": two_room, "reacher": reacher, "push_t": push_t, "cube": cube}
