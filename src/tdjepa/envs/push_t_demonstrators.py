"""Who demonstrates Push-T. An episode is of one kind; a kind is a policy and a range of noise (collect.push_t.kinds).

A planner's candidates are noise around the data's mean action. A model that has seen purposeful pushes only believes that
every candidate moves the block as a push would. So a data set can mix the expert, with little noise or with much, and an
agent that walks about near the block and pushes it by chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tdjepa.config.records.data import PushTData
from tdjepa.envs import push_t_physics as physics
from tdjepa.envs.push_t_expert import Pusher
from tdjepa.envs.push_t_physics import REACH, SIZE, STATE, touching
from tdjepa.envs.push_t_raster import TARGET
from tdjepa.envs.push_t_task import reached, sample
from tdjepa.envs.push_t_walk import INSIDE

SPEED = (8.0, 14.0)  # of expert and wanderer, world pixels per step: actions get the std of the released data, 0.20
AROUND = 90.0  # px, std of the wanderer's aims around the block
ARRIVED, BORED = 15.0, 0.04  # px from its aim, and the chance per step, at which the wanderer takes another one
EDGE = 30.0  # px, no aim of the wanderer lies closer to the picture's edge
NEAR = 100.0  # the weak policy stays in a square of this half width around the block

Policy = Callable[[np.ndarray], np.ndarray]  # state (10,) -> action (2,), before the noise


@dataclass(frozen=True)
class Episode:
    states: np.ndarray  # (T + 1, 10)
    actions: np.ndarray  # (T, 2)
    goal: np.ndarray  # (10,); NaN for a wanderer, which has none
    kind: str

    @property
    def solved(self) -> bool:
        return bool(reached(self.states[-1:], self.goal[None])[0])


def demonstrate(rng: np.random.Generator, data: PushTData) -> Episode:
    """One episode, up to its goal or `data.max_steps`."""
    names = sorted(data.kinds)
    kind = str(rng.choice(names, p=[data.kinds[name].share for name in names]))
    state, goal = sample(rng), sample(rng, TARGET if rng.uniform() < data.target_share else None)
    name, noise = data.kinds[kind].policy, rng.uniform(*data.kinds[kind].noise)
    policy = POLICIES[name](goal, rng)
    if name == "wander":
        goal = np.full(STATE, np.nan)
    states, actions = [state], []
    for _ in range(data.max_steps):
        action = policy(state) + rng.normal(0.0, noise, 2)
        if name != "weak":  # the library's weak policy may leave the table
            action = (np.clip(state[:2] + REACH * action, INSIDE, SIZE - INSIDE) - state[:2]) / REACH
        actions.append(np.clip(action, -1, 1).astype(np.float32))
        state = physics.step(state[None], actions[-1][None])[0]
        states.append(state)
        if reached(state[None], goal[None])[0]:
            break
    return Episode(np.stack(states), np.stack(actions), goal, kind)


def expert(goal: np.ndarray, rng: np.random.Generator) -> Policy:
    """Brings block and agent to the goal."""
    push = Pusher(goal, rng.uniform(*SPEED))
    return lambda state: steered(state, push(state))


def wander(goal: np.ndarray, rng: np.random.Generator) -> Policy:
    """Walks straight to random points around the block, one after the other, and through the block as it comes."""
    speed, aim = rng.uniform(*SPEED), None

    def act(state):
        nonlocal aim
        if aim is None or np.hypot(*(aim - state[:2])) < ARRIVED or rng.uniform() < BORED:
            aim = np.clip(state[2:4] + rng.normal(0, AROUND, 2), EDGE, SIZE - EDGE)
        way = aim - state[:2]
        return steered(state, way * min(1.0, speed / max(np.hypot(*way), 1e-6)))

    return act


def weak(goal: np.ndarray, rng: np.random.Generator) -> Policy:
    """The library's WeakPolicy: uniformly random steps that stay near the block."""
    return lambda state: near_the_block(state, rng.uniform(-1, 1, 2))


POLICIES: dict[str, Callable[[np.ndarray, np.random.Generator], Policy]]
POLICIES = {"expert": expert, "wander": wander, "weak": weak}


def steered(state: np.ndarray, way: np.ndarray) -> np.ndarray:
    """The action that takes the agent this way in one step; (10,), (2,) px -> (2,)"""
    pull, glide = physics.response()
    return (way - glide * state[5:7]) / (pull * REACH)


def near_the_block(state: np.ndarray, wish: np.ndarray) -> np.ndarray:
    """(10,), (2,) in -1..1 -> (2,)"""
    to = np.clip(state[:2] + wish * REACH, state[2:4] - NEAR, state[2:4] + NEAR)
    return (to - state[:2]) / REACH


def facts(episodes: Sequence[Episode], data: PushTData) -> dict:
    """What the card says about each kind and about all of them."""
    kinds = {}
    for name, kind in data.kinds.items():
        these = [e for e in episodes if e.kind == name]
        about = {"asked": kind.share, "realised": len(these) / len(episodes)}
        kinds[name] = {"policy": kind.policy, "noise": kind.noise, "share": about, **pushing(these)}
    return {"kinds": kinds, **pushing(episodes)}


def pushing(episodes: Sequence[Episode]) -> dict:
    """How often these episodes reach their goals, how often the agent touches the block, how far the block is pushed."""
    if not episodes:
        return {"success_share": None, "touch_share": None, "block_way_px": None}
    pursuing = [e.solved for e in episodes if np.isfinite(e.goal).all()]
    # the length of the path of the block's origin, without its turns
    way = np.array([np.hypot(*np.diff(e.states[:, 2:4], axis=0).T).sum() for e in episodes])
    return {
        "success_share": float(np.mean(pursuing)) if pursuing else None,
        "touch_share": float(touching(np.concatenate([e.states for e in episodes])).mean()),
        "block_way_px": {"median": float(np.median(way)), "mean": float(way.mean())},
    }
