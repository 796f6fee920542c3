"""The reference library's solvers: ours offered to them, and theirs offered to us.

`LibraryModel` gives a world model of ours the library's `get_cost`, written as its LeWM writes it (windows recomputed at
every step), so that its solvers run on it unchanged: the equality tests and the benchmarks. `mppi` and `gradient` are its
solvers in the form of ours. The library takes seconds to import, so that happens when a solver is asked for.
"""

import contextlib
import io
import warnings
from types import SimpleNamespace

import torch

from tdjepa.base import torchvision_shim
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


def library_solver(name: str):
    """CEMSolver, ICEMSolver, MPPISolver, GradientSolver, or anything else of the library's solvers."""
    torchvision_shim.ensure()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optional environments that are not installed
        from stable_worldmodel import solver

    return getattr(solver, name)


def mppi(
    cost: Cost, planner: Planner, refinements: int, action_dim: int, generator: torch.Generator, bounds: Bounds
) -> torch.Tensor:
    """Model-predictive path integral control. -> (H, A)"""
    options = {"num_samples": planner.candidates, "topk": planner.elites, "var_scale": planner.std}
    options["temperature"] = planner.temperature
    return _solve("MPPISolver", options, cost, planner, refinements, action_dim, generator, bounds)


def gradient(
    cost: Cost, planner: Planner, refinements: int, action_dim: int, generator: torch.Generator, bounds: Bounds
) -> torch.Tensor:
    """Gradient descent from several starts; the best one is taken. `cost` must be differentiable. -> (H, A)"""
    options = {"num_samples": planner.candidates, "var_scale": planner.std}
    options["optimizer_kwargs"] = {"lr": planner.step_size}
    return _solve("GradientSolver", options, cost, planner, refinements, action_dim, generator, bounds)


class _Costable:
    def __init__(self, cost: Cost):
        self.cost = cost

    def get_cost(self, info, candidates):  # (1, N, H, A)
        return self.cost(candidates[0])[None]


def _solve(name, options, cost, planner, refinements, action_dim, generator, bounds):
    from gymnasium.spaces import Box

    device = bounds[0].device
    solver = library_solver(name)(_Costable(cost), n_steps=refinements, **options)
    solver.torch_gen = generator  # the episode's own stream
    config = SimpleNamespace(horizon=planner.horizon, action_block=1)
    solver.configure(action_space=Box(-1.0, 1.0, (1, action_dim)), n_envs=1, config=config)
    with contextlib.redirect_stdout(io.StringIO()):  # it reports its time at every call
        plan = solver.solve({"unused": torch.zeros(1, 1)})["actions"][0]
    return plan.to(device)
