"""Push-T: a disc pushes a T over a table until disc and T are at their goals; the library's `swm/PushT-v1`.

Physics is the library's engine, restarted from the state at every step so that a logged episode replays bit for bit
(push_t_physics.py says what that changes). Frames are the library's own picture (push_t_raster.py). There are two
demonstrators: push_t_expert.py, because the library has none that solves the task, and the library's `WeakPolicy`.
"""

import numpy as np

from tdjepa.base.progress import progress
from tdjepa.base.streams import stream
from tdjepa.config.records.data import PushTData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs import push_t_physics as physics
from tdjepa.envs.base import Demonstrations, Env
from tdjepa.envs.push_t_expert import Pusher
from tdjepa.envs.push_t_physics import REACH, SIZE, STATE, contact, gap
from tdjepa.envs.push_t_raster import TARGET, raster
from tdjepa.envs.push_t_walk import CLEAR, inside

REACHED, REACHED_ANGLE = 20.0, np.pi / 9
NEAR = 100.0  # the weak policy stays in a square of this half width around the block
SPEED = (8.0, 14.0)  # of the expert, world pixels per step: actions get the std of the released data, 0.20


class PushT(Env):
    name, width = "push_t", STATE
    success_text = (
        f"agent and block positions together are within {REACHED:g} px (4-d distance) and the block's angle within "
        "20 degrees of the goal's at any step of the budget"
    )
    renderer_difference = {"mean": 0.0001, "max": 1}

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """Episodes of the two demonstrators. Those that are too short are replaced by episodes of the next streams."""
        kept, number = [], 0
        with progress(cfg.data.episodes, f"demonstrate {self.name}", "episodes") as bar:
            while len(kept) < cfg.data.episodes:
                episode = demonstrate(stream(cfg.seed, "collect", cfg.env, number), cfg.data)
                number += 1
                if len(episode[0]) >= cfg.min_length:
                    kept.append(episode)
                    bar.update()
        states, actions, goals, expert = zip(*kept, strict=True)
        solved = reached(np.stack([of_episode[-1] for of_episode in states]), np.stack(goals))
        facts = mixture(states, solved, np.array(expert), cfg.data)
        return Demonstrations.of(states, actions, np.stack(goals), solved, **facts)

    def step(self, actions):
        self._state = physics.step(self._state, actions)

    def render(self, size):
        return raster(size)(self._state)

    def moved(self, shifts, n, size, rng):
        shifts = np.asarray(shifts) * (SIZE / size)  # image pixels -> world pixels
        edge, states = 50.0, []
        furthest = max(edge + 1, SIZE - edge - shifts.max())
        while len(states) < n:
            row = np.repeat(sample(rng)[None], len(shifts), 0)  # (shifts, 10)
            row[:, 0] = np.minimum(rng.uniform(edge, furthest) + shifts, SIZE - edge)
            if (gap(row) > 0).all():  # the agent does not cross the block on its way
                states.append(row)
        return [raster(size)(row) for row in np.stack(states, 1)]

    def success(self, goals):
        return reached(self._state, np.asarray(goals, np.float64))

    def distance(self, goals):
        position, angle = errors(self._state, np.asarray(goals, np.float64))
        return np.maximum(position / REACHED, angle / REACHED_ANGLE)

    def contact_geometry(self, states):
        """World pixels from the agent's centre to the block's position, as the published contact gate measures them, and
        whether they touch; (N, 10) -> (N,), (N,) bool"""
        return np.hypot(states[:, 0] - states[:, 2], states[:, 1] - states[:, 3]), contact(states)


def reached(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """The library's criterion; (N, 10), (N, 10) -> (N,) bool"""
    position, angle = errors(states, goals)
    return (position < REACHED) & (angle < REACHED_ANGLE)


def errors(states: np.ndarray, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of agent and block position together, px, and of the block's angle, rad; (N, 10), (N, 10) -> (N,), (N,)"""
    position = np.sqrt(((goals[:, :4] - states[:, :4]) ** 2).sum(1))
    angle = np.abs(goals[:, 4] - states[:, 4])
    return position, np.minimum(angle, 2 * np.pi - angle)


def mixture(episodes: tuple[np.ndarray, ...], solved: np.ndarray, expert: np.ndarray, data: PushTData) -> dict:
    """What the card says about the two demonstrators and what they do to the block; episodes (T, 10), solved and expert (E,)"""

    def share(flags) -> float | None:
        return float(np.mean(flags)) if len(flags) else None

    # the length of the path of the block's origin, without its turns
    way = np.array([np.hypot(*np.diff(states[:, 2:4], axis=0).T).sum() for states in episodes])
    return {
        "expert_share": {"asked": data.expert_share, "realised": share(expert)},
        "success_share_by_demonstrator": {"expert": share(solved[expert]), "weak": share(solved[~expert])},
        "contact_share": share(contact(np.concatenate(episodes))),
        "block_way_px": {"median": float(np.median(way)), "mean": float(way.mean())},
    }


def sample(rng: np.random.Generator, block: tuple[float, float, float] | None = None) -> np.ndarray:
    """A state at rest, drawn as the library draws starts and goals, but drawn again while the T sticks out of the table or
    the agent stands in the T (the library leaves that to the physics); (10,)"""
    while True:
        agent, pose = rng.uniform(50, 450, 2), (*rng.uniform(100, 400, 2), rng.uniform(0, 2 * np.pi))
        state = np.array([*agent, *(block or pose), *np.zeros(STATE - 5)])
        if inside(physics.world(state[2:5], physics.OUTLINE)).all() and gap(state[None])[0] > CLEAR:
            return state


def demonstrate(rng: np.random.Generator, data: PushTData) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """One episode, up to the goal or `data.max_steps`. -> states (T + 1, 10), actions (T, 2), goal (10,), by the expert?"""
    expert, at_target = rng.uniform() < data.expert_share, rng.uniform() < data.target_share
    state, goal = sample(rng), sample(rng, TARGET if at_target else None)
    push = Pusher(goal, rng.uniform(*SPEED))
    noise, wishes = rng.normal(0.0, data.action_noise, (data.max_steps, 2)), rng.uniform(-1, 1, (data.max_steps, 2))
    pull, glide = physics.response()
    states, actions = [state], []
    for t in range(data.max_steps):
        aimed = (push(state) - glide * state[5:7]) / (pull * REACH) + noise[t] if expert else weak(state, wishes[t])
        actions.append(np.clip(aimed, -1, 1).astype(np.float32))
        state = physics.step(state[None], actions[-1][None])[0]
        states.append(state)
        if reached(state[None], goal[None])[0]:
            break
    return np.stack(states), np.stack(actions), goal, expert


def weak(state: np.ndarray, wish: np.ndarray) -> np.ndarray:
    """The library's WeakPolicy: a uniformly random step that stays near the block; (10,), (2,) in -1..1 -> (2,)"""
    to = np.clip(state[:2] + wish * REACH, state[2:4] - NEAR, state[2:4] + NEAR)
    return (to - state[:2]) / REACH


ENV = PushT
