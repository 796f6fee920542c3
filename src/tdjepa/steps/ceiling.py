"""`tdjepa ceiling`: the protocol's planner with the true simulator as its model and the true distance as its cost.

What this reaches is the most that better perception and prediction could give under the protocol; what is missing to 100 %
is the planner's fault. A simulator's step costs far more than one in latent space, so fewer pairs are planned
(diagnose.ceiling_pairs), with one plan seed. The rows are those of a floor, with method `simulator`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.base.source_files import code_version
from tdjepa.base.streams import torch_stream
from tdjepa.config.records.planning import Cell
from tdjepa.config.slices import CeilingSlice
from tdjepa.envs.base import Env, make
from tdjepa.mining.split import read as read_split
from tdjepa.planning import mpc
from tdjepa.planning.costs import aggregate
from tdjepa.steps import evaluate as evaluation


def squared(places: slice, tolerance: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The squared error of some numbers of the state, in units of the tolerance."""
    return lambda states, goal: ((states[:, places] - goal[places]) ** 2).sum(1) / tolerance**2


def push_t(states: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """20 px for both positions together, 20 degrees for the angle."""
    turned = np.abs((states[:, 4] - goal[4] + np.pi) % (2 * np.pi) - np.pi)  # the smaller of the two angles
    return squared(slice(0, 4), 20.0)(states, goal) + (turned / (np.pi / 9)) ** 2


# states (N, S), goal (S,) -> how far from success, squared and smooth where success takes a maximum (N,)
DISTANCE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "two_room": squared(slice(0, 2), 16.0),
    "reacher": squared(slice(0, 2), 0.05),
    "push_t": push_t,
    "cube": squared(slice(14, 17), 0.04),
}


class SimulatorPlanner:
    """A policy for `mpc.run_episodes` that looks at no frame: it follows the states by simulating its own actions.
    `moments` are mean and std of the data's actions, as a trained model would z-score them."""

    def __init__(self, env: Env, starts, goals, moments, frameskip: int, cell: Cell, plan_seed: int, keys):
        self.env, self.states, self.goals, self.keys = env, np.array(starts), goals, np.asarray(keys).tolist()
        (self.mean, self.std), self.distance = moments, DISTANCE[env.name]
        self.frameskip, self.cell, self.plan_seed = frameskip, cell, plan_seed
        bounds = np.repeat([[env.action_low], [env.action_high]], env.action_dim, 1)  # (2, A)
        if cell.planner.clip == "raw":  # the actions' own bounds; "reference" takes them as if they were z-scored
            bounds = (bounds - self.mean) / self.std
        self.bounds = torch.from_numpy(np.tile(bounds, frameskip)).float().unbind()

    def __call__(self, i: int, plan: int, frames, past) -> np.ndarray:
        cell, goal = self.cell, self.goals[i]
        here = torch.from_numpy(self.distance(self.states[i : i + 1], goal))

        def cost(candidates):  # (N, H, frameskip * A) z-scored -> (N,)
            reached = self.simulate(self.states[i], self.raw(candidates))
            distances = torch.from_numpy(np.stack([self.distance(states, goal) for states in reached]))  # (H, N)
            return aggregate(lambda d: d, here, distances, cell.w, cell.costs.trajectory_mean == "with_context")

        generator = torch_stream(self.plan_seed, "plan", *self.keys[i], int(plan))
        best = mpc.SOLVERS[cell.solver](cost, cell.planner, cell.refinements, generator, self.bounds)
        actions = self.raw(best[None, : cell.planner.receding])  # (1, receding * frameskip, A)
        self.states[i] = self.simulate(self.states[i], actions)[-1][0]
        return actions.reshape(cell.planner.receding, self.frameskip, -1)

    def raw(self, blocks: torch.Tensor) -> np.ndarray:
        """(N, h, frameskip * A) z-scored -> (N, h * frameskip, A)"""
        return blocks.double().numpy().reshape(len(blocks), -1, self.env.action_dim) * self.std + self.mean

    def simulate(self, state: np.ndarray, actions: np.ndarray) -> list[np.ndarray]:
        """The states after every model step of some action sequences; (S,), (N, T, A) -> T / frameskip times (N, S)"""
        self.env.restore(np.repeat(state[None], len(actions), 0))
        reached = []
        for action in actions.swapaxes(0, 1):
            self.env.step(action)
            reached.append(self.env.state)
        return reached[self.frameskip - 1 :: self.frameskip]


def run(cfg: CeilingSlice, episodes: Path, split: Path, manifest: Path, out: Path) -> pd.DataFrame:
    """Plan these pairs of the locked manifest with the simulator and write the rows into `out`."""
    if any(cell.solver == "gradient" for cell in cfg.cells):
        raise UserError(f"evaluate.protocol.{cfg.env}.solver = 'gradient': a simulator has no gradient; take another")
    locked = evaluation.Episodes(cfg, episodes, manifest, cfg.first)
    imagined, count = make(cfg.env), len(locked.entries)
    moments = locked.data.action_statistics(np.asarray(read_split(split, locked.data.episodes)["train"]))
    tables, limits = [], (cfg.evaluate.budget, cfg.frameskip)
    with progress(count * len(cfg.cells), f"ceiling {cfg.env}", "episodes") as bar:
        for cell in cfg.cells:
            (plan_seed,), outcomes = cell.plan_seeds, []
            for k in range(count):
                *pair, key = (of_pairs[k : k + 1] for of_pairs in (locked.starts, locked.goals, locked.entries))
                policy = SimulatorPlanner(imagined, *pair, moments, cfg.frameskip, cell, plan_seed, key)
                outcomes.append(mpc.run_episodes(locked.env, *pair, policy, *limits, to_the_end=False))
                bar.update()
            outcome = {
                name: np.concatenate([o[name] for o in outcomes]) for name in outcomes[0] if name != "plan_seconds"
            }
            key = {"method": cfg.method_name, "train_seed": 0, "epoch": 0, "solver": cell.solver, "cost": "none"}
            table = evaluation.rows(cfg, locked, key | {"w": cell.w, "plan_seed": plan_seed}, outcome, "", cell)
            tables.append(table.assign(code=code_version(__name__, cfg.env)[:16]))
    return evaluation.write(cfg, tables, {"episodes": episodes, "split": split, "manifest": manifest}, out)
