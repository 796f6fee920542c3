"""The task of Push-T: where an episode starts, what its goals are, and when one is reached."""

import numpy as np

from tdjepa.envs import push_t_physics as physics
from tdjepa.envs.push_t_walk import CLEAR, inside

REACHED, REACHED_ANGLE = 20.0, np.pi / 9
AGENT, BLOCK = (50, 450, 2), (100, 400, 2)  # where the library puts them, low, high, numbers


def sample(rng: np.random.Generator, block: tuple[float, float, float] | None = None) -> np.ndarray:
    """A state at rest, drawn as the library draws starts and goals, but drawn again while the T sticks out of the table or
    the agent stands in the T (the library leaves that to the physics); (10,)"""
    while True:
        agent, pose = rng.uniform(*AGENT), (*rng.uniform(*BLOCK), rng.uniform(0, 2 * np.pi))
        state = np.array([*agent, *(block or pose), *np.zeros(physics.STATE - 5)])
        if inside(physics.world(state[2:5], physics.OUTLINE)).all() and physics.gap(state[None])[0] > CLEAR:
            return state


def reached(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """The library's criterion; (N, 10), (N, 10) -> (N,) bool"""
    position, angle = errors(states, goals)
    return (position < REACHED) & (angle < REACHED_ANGLE)


def errors(states: np.ndarray, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of agent and block position together, px, and of the block's angle, rad; (N, 10), (N, 10) -> (N,), (N,)"""
    position = np.sqrt(((goals[:, :4] - states[:, :4]) ** 2).sum(1))
    angle = np.abs(goals[:, 4] - states[:, 4])
    return position, np.minimum(angle, 2 * np.pi - angle)
