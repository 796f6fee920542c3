"""A 50-episode locked evaluation of Two-Room against the library's World.evaluate: same model, planner budget, episodes.

Both sides plan with iCEM at the desk budget. Their weights are freshly made and solve next to nothing, so every episode takes
its whole budget. CPU seconds on one thread, reading data and checkpoint included, imports not.
"""

import contextlib
import io
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch

from tdjepa.base.torchvision_shim import library
from tdjepa.config.load import load
from tdjepa.config.records.planning import Design
from tdjepa.config.slices import collect_slice, evaluate_slice, mine_slice, train_slice
from tdjepa.model import checkpoint
from tdjepa.model.world_model import build
from tdjepa.planning.reference import library_solver
from tdjepa.steps import collect, mine
from tdjepa.steps import evaluate as evaluation
from tdjepa.tools.bench.plan import awake
from tdjepa.tools.bench.timing import best, faster

ENV, METHOD, SIZE, COLLECTED, EPISODES = "two_room", "tdjepa", 64, 200, 50


def run() -> dict:
    torch.set_num_threads(1)
    p = load("params.yaml", "desk")
    data = p.collect.two_room.model_copy(update={"episodes": COLLECTED, "image_size": SIZE})
    designs = {"main": Design(pairs=EPISODES, plan_seeds=1)}
    protocol = {"plan_seeds": (7,), "designs": designs, "curve_epochs": (), "manifest": "test"}
    collected, evaluated = p.collect.model_copy(update={"two_room": data}), p.evaluate.model_copy(update=protocol)
    p = p.model_copy(update={"collect": collected, "evaluate": evaluated})
    with tempfile.TemporaryDirectory() as name:
        folder, episodes, saved = Path(name), Path(name, "episodes.h5"), Path(name, "epoch.safetensors")
        collect.run(collect_slice(p, ENV), episodes)
        mine.run(mine_slice(p, ENV), episodes, folder)
        cfg = evaluate_slice(p, ENV, METHOD, p.train_seeds[0])
        cell = cfg.cells[0]
        cfg = cfg.model_copy(update={"cells": (cell,)})
        trained = train_slice(p, ENV, METHOD, p.train_seeds[0])
        model = awake(build(trained.model, trained.method.head, SIZE, 2 * cfg.frameskip, trained.seed))
        model.action_std.fill_(0.7)
        checkpoint.save(saved, model, trained, SIZE, cell.epoch, {})
        found, theirs = {}, library_evaluation(cfg, model, episodes, folder / "test.json")

        def ours():
            rows = evaluation.run(cfg, episodes, folder / "test.json", {cell.epoch: saved}, folder / "rows.parquet")
            found["success"] = round(100 * rows.success.mean(), 1)

        def reference():
            found["reference_success"] = theirs()

        with contextlib.redirect_stderr(io.StringIO()):
            a, b = best(ours, reference, rounds=2, warm_up=False)
    budget = f"{cell.solver} {cell.planner.candidates} x {cell.refinements}"
    return faster("evaluate", a, b, planner=budget, **found)


def library_evaluation(cfg, model, episodes: Path, manifest: Path):
    """World.evaluate on the manifest's pairs, as a function that gives the success rate in percent."""
    cell, locked = cfg.cells[0], evaluation.Episodes(cfg, episodes, manifest)
    mean, std = model.action_mean[:2].numpy(), model.action_std[:2].numpy()  # of single actions, as its policies want
    z_score = SimpleNamespace(transform=lambda x: (x - mean) / std, inverse_transform=lambda x: x * std + mean)
    keys = {"_set_state": "state", "_set_goal_state": "goal_state"}
    restore = [{"method": method, "args": {key: {"value": key}}} for method, key in keys.items()]
    shape = {"num_envs": len(locked.entries), "image_shape": (SIZE, SIZE), "max_episode_steps": 1000}
    pairs = {"episodes_idx": locked.entries[:, 0].tolist(), "start_steps": locked.entries[:, 1].tolist()}
    options = {"goal_offset": cfg.goal_offset, "eval_budget": cfg.evaluate.budget, "callables": restore}
    policy, dataset = library("policy"), library("data.formats.hdf5").HDF5Dataset

    def evaluate() -> float:
        world = library().World("swm/TwoRoom-v1", **shape)
        config = policy.PlanConfig(cell.planner.horizon, cell.planner.receding, action_block=cfg.frameskip)
        solver = library_solver(model, cell, cell.plan_seeds[0])
        world.set_policy(policy.WorldModelPolicy(solver, config, process={"action": z_score}))
        data = dataset(path=episodes, keys_to_load=["pixels", "action", "state"])
        with contextlib.redirect_stdout(io.StringIO()):
            return world.evaluate(dataset=data, **pairs, **options)["success_rate"]

    return evaluate
