"""A 50-episode locked evaluation of Two-Room against the library's World.evaluate: same model, planner budget, episodes.

Both sides plan with iCEM at the desk budget from freshly made weights, which solve next to nothing, so that every episode
takes its whole budget; CPU seconds on one thread, reading data and checkpoint included, imports not.
"""

import contextlib
import io
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

from tdjepa.base import torchvision_shim
from tdjepa.config.load import load
from tdjepa.config.slices import collect_slice, evaluate_slice, mine_slice, train_slice
from tdjepa.model import checkpoint
from tdjepa.model.world_model import build
from tdjepa.planning.reference import LibraryModel, library_solver
from tdjepa.steps import collect, mine
from tdjepa.steps import evaluate as evaluation
from tdjepa.tools.bench.plan import awake
from tdjepa.tools.bench.timing import cpu_seconds, result

ENV, METHOD, SIZE, COLLECTED, EPISODES = "two_room", "tdjepa", 64, 200, 50


def run() -> dict:
    torch.set_num_threads(1)
    p = load("params.yaml", "desk")
    data = p.collect.two_room.model_copy(update={"episodes": COLLECTED, "image_size": SIZE})
    p = p.model_copy(update={"collect": p.collect.model_copy(update={"two_room": data})})
    change = {"plan_seeds": (7,), "episodes": EPISODES, "curve_epochs": (), "manifest": "test"}
    p = p.model_copy(update={"evaluate": p.evaluate.model_copy(update=change)})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        episodes = folder / "episodes.h5"
        collect.run(collect_slice(p, ENV), episodes)
        mine.run(mine_slice(p, ENV), episodes, folder)
        cfg = evaluate_slice(p, ENV, METHOD, p.train_seeds[0])
        cfg = cfg.model_copy(update={"cells": cfg.cells[:1]})
        trained = train_slice(p, ENV, METHOD, p.train_seeds[0])
        model = awake(build(trained.model, trained.method.head, SIZE, 2 * cfg.frameskip, trained.seed))
        model.action_std.fill_(0.7)
        saved = folder / "epoch.safetensors"
        checkpoint.save(saved, model, trained, SIZE, cfg.epochs[-1], {})
        found, theirs = [], library_evaluation(cfg, model, episodes, folder / "test.json")

        def ours():
            rows = evaluation.run(cfg, episodes, folder / "test.json", {cfg.epochs[-1]: saved}, folder / "rows.parquet")
            found.append(round(100 * rows.success.mean(), 1))

        with contextlib.redirect_stderr(io.StringIO()):
            times = [(cpu_seconds(ours), cpu_seconds(lambda: found.append(theirs()))) for _ in range(2)]
    a, b = (min(side) for side in zip(*times, strict=True))
    cell = cfg.cells[0]
    budget = f"{cell.solver} {cell.planner.candidates} x {cell.refinements}"
    return result("evaluate", b / a, a, b, unit="s", planner=budget, success=found[-2], reference_success=found[-1])


def library_evaluation(cfg, model, episodes: Path, manifest: Path):
    """World.evaluate on the manifest's pairs as a function that gives the success rate in percent."""
    torchvision_shim.ensure()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import stable_worldmodel as swm
        from stable_worldmodel.data.formats.hdf5 import HDF5Dataset
        from stable_worldmodel.policy import PlanConfig, WorldModelPolicy
    cell, locked = cfg.cells[0], evaluation.Episodes(cfg, episodes, manifest)
    planner, names = cell.planner, {"cem": "CEMSolver", "icem": "ICEMSolver"}
    of_step = SimpleScale(model.action_mean[:2].numpy(), model.action_std[:2].numpy())
    restore = [
        {"method": "_set_state", "args": {"state": {"value": "state"}}},
        {"method": "_set_goal_state", "args": {"goal_state": {"value": "goal_state"}}},
    ]

    def evaluate() -> float:
        world = swm.World(
            "swm/TwoRoom-v1", num_envs=len(locked.entries), image_shape=(SIZE, SIZE), max_episode_steps=1000
        )
        solver = library_solver(names[cell.solver])(
            LibraryModel(model, cell),
            num_samples=planner.candidates,
            topk=planner.elites,
            n_steps=cell.refinements,
            seed=cell.plan_seeds[0],
        )
        config = PlanConfig(planner.horizon, planner.receding, action_block=cfg.frameskip)
        world.set_policy(WorldModelPolicy(solver, config, process={"action": of_step}))
        with contextlib.redirect_stdout(io.StringIO()):
            return world.evaluate(
                dataset=HDF5Dataset(path=episodes, keys_to_load=["pixels", "action", "state"]),
                episodes_idx=locked.entries[:, 0].tolist(),
                start_steps=locked.entries[:, 1].tolist(),
                goal_offset=cfg.goal_offset,
                eval_budget=cfg.evaluate.budget,
                callables=restore,
            )["success_rate"]

    return evaluate


class SimpleScale:
    """z-scores of single actions, as the library's policies want them."""

    def __init__(self, mean: np.ndarray, std: np.ndarray):
        self.mean, self.std = mean, std

    def transform(self, x):
        return (x - self.mean) / self.std

    def inverse_transform(self, x):
        return x * self.std + self.mean
