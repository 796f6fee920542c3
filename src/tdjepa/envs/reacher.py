"""Reacher, the library's `swm/ReacherDMControl-v0` with task qpos_match: a two-joint arm seen from above.

The model is dm_control's own XML in the library's colours, compiled without importing either. An action is two physics
steps; states are bit-equal to the library's for the same actions (tests/test_reacher.py steps both). The library also
ends an episode when the first of the two steps is at the goal, so a state remembers the angles in between.

There is no `moved`: the arm is fixed to the middle of the image and cannot be shifted.
"""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np

from tdjepa.base.streams import stream
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import Demonstrations
from tdjepa.envs.gl import Renderer, mujoco

TOLERANCE = 0.05  # rad
TARGET_SIZE = 0.015  # of the library's task; its target is transparent and touches nothing

# a state: both angles, both velocities, the solver's first guess, and the angles after the first of the two physics steps
ANGLES, VELOCITIES, BETWEEN, WIDTH = slice(0, 2), slice(2, 4), slice(6, 8), 8
PHYSICS = mujoco.mjtState.mjSTATE_QPOS | mujoco.mjtState.mjSTATE_QVEL | mujoco.mjtState.mjSTATE_WARMSTART  # 0:6


class Reacher:
    name = "reacher"
    action_dim = 2
    action_low, action_high = -1.0, 1.0
    success_text = (
        f"both joint angles come within {TOLERANCE:g} rad of the goal's (not wrapped) at any step of the budget"
    )

    # to the library's 224-px frames, resized by PIL as its World does; tests/test_reacher.py measures it at every run
    renderer_difference = {"mean": 1.2, "max": 70}

    def __init__(self):
        self.restore(np.zeros((0, WIDTH)))
        self._data = mujoco.MjData(model())

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """Uniformly random actions, as in the released data; they are after nothing, so the goals are NaN."""
        rngs = [stream(cfg.seed, "collect", cfg.env, k) for k in range(cfg.data.episodes)]
        self.restore(np.stack([sample_start(rng) for rng in rngs]))
        actions = np.stack([sample_actions(rng, cfg.data.max_steps) for rng in rngs])  # (E, T, 2)
        states = [self.state]
        for t in range(cfg.data.max_steps):
            self.step(actions[:, t])
            states.append(self.state)
        none = np.full((len(rngs), 1, 2), np.nan, np.float32)
        return Demonstrations(
            state=np.stack(states, 1).reshape(-1, WIDTH),
            action=np.concatenate([actions, none], 1).reshape(-1, 2),
            length=np.full(len(rngs), cfg.data.max_steps + 1),
            goal=np.full((len(rngs), WIDTH), np.nan),
            reached=None,
        )

    def restore(self, states):
        self._state = np.array(states, np.float64).reshape(-1, WIDTH)
        self._stepped = False

    def step(self, actions):
        m, d, self._stepped = model(), self._data, True
        controls = np.asarray(actions, np.float64) + 1.0 - 1.0  # dm_control rescales [-1, 1] to itself and rounds so
        for state, control in zip(self._state, controls, strict=True):
            mujoco.mj_setState(m, d, state[:6], PHYSICS)
            d.ctrl[:] = control
            mujoco.mj_step(m, d)
            state[BETWEEN] = d.qpos
            mujoco.mj_step(m, d)
            mujoco.mj_getState(m, d, state[:6], PHYSICS)

    @property
    def state(self):
        return self._state.copy()

    def render(self, size):
        return _renderer(size)(self._state[:, ANGLES])

    def success(self, goals):
        goals = np.asarray(goals)[:, ANGLES]
        there = reached(self._state[:, ANGLES], goals)
        # of a state that was just restored, the angles in between belong to an action before the start
        return there | reached(self._state[:, BETWEEN], goals) if self._stepped else there

    def distance(self, goals):
        return np.abs(self._state[:, ANGLES] - np.asarray(goals)[:, ANGLES]).max(1) / TOLERANCE


def reached(angles: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """(N, 2), (N, 2) -> (N,) bool"""
    return (np.abs(angles - goal) < TOLERANCE).all(1)


def sample_start(rng: np.random.Generator) -> np.ndarray:
    """At rest, both angles uniform: the shoulder over the circle, the wrist within its limits. -> (WIDTH,)"""
    state = np.zeros(WIDTH)
    state[ANGLES] = state[BETWEEN] = rng.uniform(-np.pi, np.pi), rng.uniform(*model().joint("wrist").range)
    return state


def sample_actions(rng: np.random.Generator, steps: int) -> np.ndarray:
    return rng.uniform(-1, 1, (steps, 2)).astype(np.float32)


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
    return Renderer(model(), "fixed", size, moving=model().geom_type != mujoco.mjtGeom.mjGEOM_PLANE)


ENV = Reacher
