"""The reference library's solvers: our models for them, and their solvers for us.

`LibraryModel` gives a world model of ours the library's `get_cost`, written as in its LeWM (windows recomputed at every
step). So its solvers run on our models unchanged, in the equality tests and the benchmarks. `mppi` and `gradient` are its
solvers in the form of ours. The library takes seconds to import, so it is imported when a solver is needed.
"""

import contextlib
import io
from types import SimpleNamespace

import torch

from tdjepa.base.torchvision_shim import library
from tdjepa.config.records.planning import Cell, Planner
from tdjepa.planning.cem import Bounds, Cost
from tdjepa.planning.costs import trajectory_cost


class LibraryModel(torch.nn.Module):
    """info: pixels and goal, each (B, N, 1, H, W, 3) uint8, the same for all N; candidates (B, N, H, block), z-scored."""

    def __init__(self, model, cell: Cell):
        super().__init__()
        self.model, self.cell = model, cell

    def get_cost(self, info: dict, candidates: torch.Tensor) -> torch.Tensor:
        if "z" not in info:  # a solver passes the same info at every refinement
            info["z"], info["z_goal"] = (self.model.encode(info[key][:, 0, -1]) for key in ("pixels", "goal"))  # (B, D)
        costs = []
        for z, z_goal, actions in zip(info["z"], info["z_goal"], candidates, strict=True):
            z_hat = self.model.rollout(z.expand(len(actions), 1, -1), self.model.action_encoder(actions))  # (N, H, D)
            costs.append(trajectory_cost(self.model, self.cell, z_goal)(z, z_hat.transpose(0, 1)))
        return torch.stack(costs)


def library_solver(model, cell: Cell, seed: int):
    """The library's solver of the cell's name, with its budget, on a model of ours."""
    kind = {"cem": "CEMSolver", "icem": "ICEMSolver"}[cell.solver]
    budget = {"num_samples": cell.planner.candidates, "topk": cell.planner.elites, "n_steps": cell.refinements}
    return getattr(library("solver"), kind)(LibraryModel(model, cell), seed=seed, **budget)


def mppi(cost: Cost, planner: Planner, *search) -> torch.Tensor:
    """Model-predictive path integral control. -> (H, A)"""
    return _solve("MPPISolver", {"topk": planner.elites, "temperature": planner.temperature}, cost, planner, *search)


def gradient(cost: Cost, planner: Planner, *search) -> torch.Tensor:
    """Gradient descent from several starts; the best one is taken. `cost` must be differentiable. -> (H, A)"""
    return _solve("GradientSolver", {"optimizer_kwargs": {"lr": planner.step_size}}, cost, planner, *search)


def _solve(name: str, options: dict, cost, planner, refinements: int, generator: torch.Generator, bounds: Bounds):
    costable = SimpleNamespace(get_cost=lambda info, candidates: cost(candidates[0])[None])  # candidates (1, N, H, A)
    options |= {"num_samples": planner.candidates, "var_scale": planner.std, "n_steps": refinements}
    solver = getattr(library("solver"), name)(costable, **options)
    solver.torch_gen = generator  # the episode's own stream
    return solve(solver, planner.horizon, len(bounds[0]), 1, {"unused": torch.zeros(1, 1)}).to(bounds[0].device)


def solve(solver, horizon: int, action_dim: int, action_block: int, info: dict) -> torch.Tensor:
    """The plan of a library solver for one episode. -> (H, action_dim * action_block)"""
    from gymnasium.spaces import Box

    config = SimpleNamespace(horizon=horizon, action_block=action_block)
    solver.configure(action_space=Box(-1.0, 1.0, (1, action_dim)), n_envs=1, config=config)
    with contextlib.redirect_stdout(io.StringIO()):  # it reports its time at every call
        return solver.solve(info)["actions"][0]
