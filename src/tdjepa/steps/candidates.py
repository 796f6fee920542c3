"""Actions as a planner draws them at first, and where they really lead: what a model must predict, whatever was demonstrated."""

import numpy as np
import torch

from tdjepa.base.streams import torch_stream
from tdjepa.envs.base import Env
from tdjepa.planning.cem import coloured

Moments = tuple[np.ndarray, np.ndarray]  # mean and std of the data's actions, (A,) each


def drawn(
    env: Env, states: np.ndarray, moments: Moments, frameskip: int, horizon: int, colour: float, seed: int
) -> dict:
    """White candidates as CEM draws them and coloured ones as iCEM does, each simulated from its own state.
    states (n, S) -> {kind: (action blocks (n, horizon, frameskip * A), states after each block (horizon, n, S))}"""
    shape = (len(states), horizon, frameskip * env.action_dim)
    white = torch.randn(shape, generator=torch_stream(seed, "probe", "white"))
    smooth = coloured(*shape, colour, torch_stream(seed, "probe", "coloured")).clamp(env.action_low, env.action_high)
    found = {}
    for kind, z_scored in (("white", white), ("coloured", smooth)):
        actions = z_scored.numpy().reshape(len(states), -1, env.action_dim) * moments[1] + moments[0]
        actions = actions.astype(np.float32)
        found[kind] = actions.reshape(shape), simulate(env, states, actions)[frameskip - 1 :: frameskip]
    return found


def simulate(env: Env, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The states after every environment step; (n, S), (n, T, A) -> (T, n, S)"""
    env.restore(states)
    reached = []
    for action in actions.swapaxes(0, 1):
        env.step(action)
        reached.append(env.state)
    return np.stack(reached)
