"""Ceiling: the same planner with the true simulator as its model and the true distance as its cost.

What this reaches is the most that better perception and prediction could give under the protocol; what is missing to 100 %
is the planner's. An environment step costs far more than a latent one, so the search is usually smaller than the published one.
"""

from collections.abc import Callable

import numpy as np
import torch

from tdjepa.envs.base import Env
from tdjepa.params import Planner
from tdjepa.planning.cem import cem
from tdjepa.streams import torch_stream


def turned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller of the two angles between directions a and b."""
    return np.abs((a - b + np.pi) % (2 * np.pi) - np.pi)


def push_t(states: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Squared errors in units of the tolerances: 20 px for both positions together, 20 degrees for the angle."""
    return ((states[:, :4] - goal[:4]) ** 2).sum(1) / 20.0**2 + (turned(states[:, 4], goal[4]) / (np.pi / 9)) ** 2


# states (N, S), goal (S,) -> how far from success, squared (N,)
DISTANCE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "two_room": lambda states, goal: ((states[:, :2] - goal[:2]) ** 2).sum(1) / 16.0**2,
    "push_t": push_t,
}


class SimulatorPlanner:
    """A policy for `mpc.run_episodes` that looks at no frame: it follows the states by simulating its own actions."""

    def __init__(
        self,
        env: Env,
        starts: np.ndarray,
        goals: np.ndarray,
        moments: tuple[np.ndarray, np.ndarray],  # of the data's actions, as a trained model would z-score them
        frameskip: int,
        planner: Planner,
        refinements: int,
        plan_seed: int,
        keys: list[tuple[int, int]],
    ):
        self.env, self.states, self.goals = env, np.array(starts), goals
        self.mean, self.std = moments
        self.frameskip, self.planner, self.refinements = frameskip, planner, refinements
        self.plan_seed, self.keys = plan_seed, keys
        self.distance = DISTANCE[env.name]

    def __call__(self, i: int, plan: int, frames, past) -> np.ndarray:
        def cost(candidates):  # (N, H, frameskip * A) z-scored -> (N,)
            ends = self.simulate(self.states[i], self.raw(candidates))
            return torch.from_numpy(self.distance(ends, self.goals[i]))

        generator = torch_stream(self.plan_seed, "plan", *self.keys[i], plan)
        block = self.frameskip * self.env.action_dim
        unbounded = torch.full((block,), -torch.inf), torch.full((block,), torch.inf)  # CEM never clips
        best = cem(cost, self.planner, self.refinements, block, generator, unbounded)
        actions = self.raw(best[None, : self.planner.receding])  # (1, receding * frameskip, A)
        self.states[i] = self.simulate(self.states[i], actions)[0]
        return actions.reshape(self.planner.receding, self.frameskip, -1)

    def raw(self, blocks: torch.Tensor) -> np.ndarray:
        """(N, h, frameskip * A) z-scored -> (N, h * frameskip, A)"""
        return blocks.double().numpy().reshape(len(blocks), -1, self.env.action_dim) * self.std + self.mean

    def simulate(self, state: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Where each of the action sequences leads from one state; (S,), (N, T, A) -> (N, S)"""
        self.env.restore(np.repeat(state[None], len(actions), 0))
        for action in actions.swapaxes(0, 1):
            self.env.step(action)
        return self.env.state
