"""Reacher, the library's `swm/ReacherDMControl-v0` with task qpos_match: a two-joint arm seen from above.

The model is dm_control's own XML in the library's colours, compiled without importing either. An action is two physics
steps; states are bit-equal to the library's for the same actions (tests/test_reacher.py steps both). The library also ends
an episode when the first of the two is at the goal, so a state remembers the angles in between. There is no `moved`.
"""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np

from tdjepa.base.streams import stream
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import Demonstrations, Env
from tdjepa.envs.gl import PHYSICS, Renderer, mujoco

REACHED = 0.05  # rad
TARGET_SIZE = 0.015  # of the library's task; its target is transparent and touches nothing

# a state: both angles, both velocities, the solver's first guess, and the angles after the first of the two physics steps
ANGLES, VELOCITIES, OF_PHYSICS, BETWEEN, WIDTH = slice(0, 2), slice(2, 4), slice(0, 6), slice(6, 8), 8


class Reacher(Env):
    name, width = "reacher", WIDTH
    success_text = (
        f"both joint angles come within {REACHED:g} rad of the goal's (not wrapped) at any step of the budget"
    )
    renderer_difference = {"mean": 1.2, "max": 70}

    def __init__(self):
        super().__init__()
        self._data = mujoco.MjData(model())

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """Uniformly random actions, as in the released data. They are after nothing, so the goals are NaN."""
        rngs = [stream(cfg.seed, "collect", cfg.env, k) for k in range(cfg.data.episodes)]
        self.restore(np.stack([sample_start(rng) for rng in rngs]))
        actions = np.stack([rng.uniform(-1, 1, (cfg.data.max_steps, 2)) for rng in rngs]).astype(np.float32)
        states = [self.state]
        for t in range(cfg.data.max_steps):
            self.step(actions[:, t])
            states.append(self.state)
        return Demonstrations.of(np.stack(states, 1), actions, np.full((len(rngs), WIDTH), np.nan), None)

    def restore(self, states):
        super().restore(states)
        self._stepped = False

    def step(self, actions):
        m, d, self._stepped = model(), self._data, True
        controls = np.asarray(actions, np.float64) + 1.0 - 1.0  # dm_control rescales [-1, 1] to itself and rounds so
        for state, control in zip(self._state, controls, strict=True):
            mujoco.mj_setState(m, d, state[OF_PHYSICS], PHYSICS)
            d.ctrl[:] = control
            mujoco.mj_step(m, d)
            state[BETWEEN] = d.qpos
            mujoco.mj_step(m, d)
            mujoco.mj_getState(m, d, state[OF_PHYSICS], PHYSICS)

    def render(self, size):
        return _renderer(size)(self._state[:, ANGLES])

    def success(self, goals):
        goals = np.asarray(goals)[:, ANGLES]
        there = reached(self._state[:, ANGLES], goals)
        # if a state was just restored, its angles in between belong to an action before the start
        return there | reached(self._state[:, BETWEEN], goals) if self._stepped else there

    def distance(self, goals):
        return np.abs(self._state[:, ANGLES] - np.asarray(goals)[:, ANGLES]).max(1) / REACHED

    def demands(self, starts, goals):
        shoulder, wrist = np.abs(goals - starts)[:, ANGLES].T
        return {"shoulder (rad)": shoulder, "wrist (rad)": wrist}


def reached(angles: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """(N, 2), (N, 2) -> (N,) bool"""
    return (np.abs(angles - goal) < REACHED).all(1)


def sample_start(rng: np.random.Generator) -> np.ndarray:
    """At rest, both angles uniform: the shoulder over the circle, the wrist within its limits. -> (WIDTH,)"""
    state = np.zeros(WIDTH)
    state[ANGLES] = state[BETWEEN] = rng.uniform(-np.pi, np.pi), rng.uniform(*model().joint("wrist").range)
    return state


@cache
def model() -> mujoco.MjModel:
    """dm_control's reacher as the library compiles it: no visible target, the light at 0.7."""
    folder = Path(importlib.util.find_spec("dm_control").submodule_search_locations[0]) / "suite"
    spec = mujoco.MjSpec.from_file(str(folder / "reacher.xml"))
    spec.material("target").rgba[3] = 0
    spec.geom("target").size[0] = TARGET_SIZE
    spec.light("light").diffuse = [0.7, 0.7, 0.7]
    return spec.compile()


@cache
def _renderer(size: int) -> Renderer:
    return Renderer(model(), "fixed", size)


ENV = Reacher
