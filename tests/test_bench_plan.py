"""The planning benchmarks measure the same thing on both sides."""

import json

from conftest import ROOT
from tdjepa.base.torchvision_shim import library
from tdjepa.steps import evaluate as evaluation
from tdjepa.tools.bench import encoder, evaluate, plan


def test_both_sides_find_the_same_plan(monkeypatch):
    for name, value in {"CANDIDATES": 40, "ELITES": 5, "REFINEMENTS": 2, "SIZES": {"desk": (64, 1)}}.items():
        monkeypatch.setattr(plan, name, value)
    monkeypatch.chdir(ROOT)
    found = plan.run("desk")
    assert found["bench"] == "plan"
    assert found["difference"] < 1e-5
    assert found["ratio"] > 0
    assert found["share_of_matmul_peak"] > 0


def test_both_sides_evaluate_the_same_episodes(smoke, monkeypatch):
    ours, theirs, played, world = [], [], [], library().World
    run, play = evaluation.run, world.evaluate

    def recorded(*args):
        ours.append(run(*args))
        return ours[-1]

    def of_library(world, **given):
        theirs.append(list(zip(given["episodes_idx"], given["start_steps"], strict=True)))
        found = play(world, **given)
        played.append(len(found["episode_successes"]))
        return found

    monkeypatch.setattr(evaluate, "load", lambda *_: smoke)
    monkeypatch.setattr(evaluation, "run", recorded)
    monkeypatch.setattr(world, "evaluate", of_library)
    for name, value in {"SIZE": 32, "COLLECTED": 40, "EPISODES": 3}.items():
        monkeypatch.setattr(evaluate, name, value)
    found = json.loads(json.dumps(evaluate.run()))
    numbers = ("ratio", "ours", "reference", "success", "reference_success")
    assert set(found) == {"bench", "unit", "planner", *numbers}
    assert found["planner"] == "icem 24 x 2"
    assert all(found[name] >= 0 for name in numbers)
    assert played == [3, 3]
    for table, entries in zip(ours, theirs, strict=True):
        assert list(zip(table.episode, table.start, strict=True)) == entries
        assert (table.plans >= 1).all()


def test_both_readouts_encode_the_same_frames(monkeypatch):
    for name, value in {"EPISODES": 2, "WINDOWS": 3}.items():
        monkeypatch.setattr(encoder, name, value)
    monkeypatch.chdir(ROOT)
    found = encoder.run("two_room")
    assert found["frames"] == 12
    assert min(found["ratio"], found["encoder_ratio"], found["ours"], found["reference"]) > 0
