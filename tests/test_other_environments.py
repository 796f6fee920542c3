"""What Two-Room's tests cannot show: every method trains on Reacher, Push-T and Cube, and what was learned is evaluated there.

Two optimiser steps and two pairs each: shapes, units and columns are at stake, not success.
"""

import csv
import math
from types import SimpleNamespace

import numpy as np
import pytest

from tdjepa.config import runs
from tdjepa.config.records.planning import Design
from tdjepa.config.slices import collect_slice, evaluate_slice, mine_slice, train_slice
from tdjepa.envs import gl
from tdjepa.envs.base import make
from tdjepa.model import checkpoint
from tdjepa.steps import collect, mine
from tdjepa.steps import evaluate as evaluation
from tdjepa.steps import train as training

needs_gl = pytest.mark.skipif(gl.BACKEND == "disable", reason=f"no OpenGL here; {gl.INSTALL}")
SEED = 3072


@pytest.fixture(scope="module", params=["reacher", "push_t", pytest.param("cube", marks=needs_gl)])
def place(request, smoke, tmp_path_factory):
    """An environment's smoke data, collected and mined. -> its parameters, name, files, and a folder for trainings"""
    env, folder = request.param, tmp_path_factory.mktemp(request.param)
    designs = {"main": Design(pairs=2, plan_seeds=1)}
    sweeps = {name: sweep.model_copy(update={"pairs": 2}) for name, sweep in smoke.evaluate.sweeps.items()}
    few = {"designs": designs, "sweeps": sweeps, "plan_seeds": (7,), "curve_epochs": (), "budget": 30}
    few = smoke.evaluate.model_copy(update=few)
    two_steps = smoke.train.model_copy(update={"steps_per_epoch": 1})
    p = smoke.model_copy(update={"envs": (env,), "train": two_steps, "evaluate": few})
    episodes, mined = folder / "episodes.h5", folder / "mined"
    collect.run(collect_slice(p, env), episodes)
    mine.run(mine_slice(p, env), episodes, mined)
    return SimpleNamespace(p=p, env=env, episodes=episodes, mined=mined, trained=folder / "train")


def train(place, method: str):
    """The method's checkpoints by epoch; trained if they are not there."""
    cfg, out = train_slice(place.p, place.env, method, SEED), place.trained / method
    saved = {epoch: out / f"epoch_{epoch:02d}.safetensors" for epoch in (1, 2)}
    if not (out / "curve.csv").exists():
        frozen = cfg.method.backbone
        backbone = train(place, frozen)[2] if frozen else None
        training.run(cfg, place.episodes, place.mined / "split.json", out, backbone=backbone)
    return saved


def test_every_method_trains(place):
    methods = runs.methods_in(runs.widened(place.p), place.env)
    assert {"tdjepa", "lewm", "lewm_compute", "rc_aux_tdj", "rc_aux"} <= set(methods)
    assert {"tdjepa_no_hinge", "tdjepa_leaky"} <= set(methods) or place.env != "push_t"
    for method in methods:
        model, about = checkpoint.load(train(place, method)[2], {"env": place.env, "method_name": method})
        assert about["block"] == place.p.mine.frameskip * make(place.env).action_dim
        assert model.action_std.min() > 0
        curve = list(csv.DictReader((place.trained / method / "curve.csv").read_text().splitlines()))
        per_epoch = train_slice(place.p, place.env, method, SEED).train.steps_per_epoch
        assert [int(line["step"]) for line in curve] == [per_epoch, 2 * per_epoch]
        assert all(math.isfinite(float(value)) for line in curve for value in line.values())


def test_together_and_one_by_one_are_the_same(place):
    """Physics, frames and, on Push-T, the contact gates are those of an episode's own state, whatever is planned beside it."""
    sweep = "gates" if place.env == "push_t" else ""
    cfg = evaluate_slice(place.p, place.env, "tdjepa", SEED, sweep)
    locked = evaluation.Episodes(cfg, place.episodes, place.mined / "test.json")

    def play(which):
        planner = evaluation.load_planners(cfg, train(place, "tdjepa"), locked)[0]
        policy = planner.policy(locked.goal_frames[which], 7, locked.entries[which])
        return locked.play(policy, which, cfg.cells[0].planner.history)

    together, alone = play(slice(0, 2)), [play(slice(k, k + 1)) for k in (1, 0)][::-1]
    for column in ("success", "steps", "final"):
        np.testing.assert_array_equal(np.concatenate([outcome[column] for outcome in alone]), together[column])


def test_a_learned_model_is_evaluated(place, tmp_path):
    def evaluated(sweep=""):
        cfg = evaluate_slice(place.p, place.env, "tdjepa", SEED, sweep)
        out = tmp_path / f"{sweep or 'main'}.parquet"
        return evaluation.run(cfg, place.episodes, place.mined / "test.json", train(place, "tdjepa"), out)

    table, protocol = evaluated(), place.p.evaluate.protocol[place.env]
    assert table.groupby("cost").size().to_dict() == {"d_psi": 2, "l2": 2, "blend": 2}
    assert set(table.solver) == {protocol.solver}
    assert set(table.w) == {protocol.w}
    failed = table[~table.success]
    assert (failed.steps == 30).all()
    assert (failed.plans == 2).all()  # 30 steps are six blocks of five, of which a plan carries out five
    assert (table.final_distance >= 0).all()
    assert ((table.final_distance <= 1) | ~table.success).all()  # in tolerances of the task
    of_contact = {"contact", "touched", "least_distance", "start_distance"}
    assert of_contact & set(table) == (of_contact if place.env == "push_t" else set())
    if place.env != "push_t":
        return
    assert table.contact.dtype == table.touched.dtype == bool
    assert (table.contact == (table.touched | (table.least_distance < 40))).all()
    assert (table.least_distance <= table.start_distance).all()
    assert (table.start_distance >= 0).all()
    assert table.groupby(["episode", "start"]).start_distance.nunique().eq(1).all()  # of the pair, whatever the cost
    gates = evaluated("gates")
    assert gates.groupby(["setting", "cost"]).size().to_dict() == {("gates", "hard_gate"): 2, ("gates", "soft_gate"): 2}
    assert set(gates.start_distance) == set(table.start_distance)
