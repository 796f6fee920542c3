"""A method is data: any combination of terms trains, ablations differ in one thing."""

import csv

import pytest

from conftest import ROOT
from tdjepa.config import runs
from tdjepa.config.load import resolve
from tdjepa.config.records.methods import Terms
from tdjepa.config.slices import train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.objective.methods import TERMS
from tdjepa.steps import train as training
from tdjepa_workflow import files as phases

ABLATIONS = {
    "tdjepa_symmetric_head": ("head",),
    "tdjepa_no_hinge": ("terms", "temporal", "negatives"),
    "tdjepa_no_rollout": ("terms", "rollout"),
}


@pytest.fixture
def raw():
    return read_yaml(ROOT / "params.yaml")


def test_every_term_has_its_function():
    assert list(TERMS) == list(Terms.model_fields)


def test_every_method_of_the_issue_is_run_at_smoke_and_trains(smoke, trained):
    ours = {"tdjepa", "lewm", "lewm_original", "lewm_compute", "rc_aux_tdj", "rc_aux", *ABLATIONS}
    run = runs.widened(smoke).methods_run
    assert ours <= set(run)
    for method in run:
        curve = list(csv.DictReader((trained / method / "curve.csv").read_text().splitlines()))
        assert len(curve) == smoke.train.epochs
        assert {name for name, term in smoke.methods[method].terms if term} == set(curve[0]) & set(TERMS)


TEMPORAL = {"weight": 0.5, "margin": 0.5, "negatives": False, "pairs": "all"}
HARD = dict(weight=1.0, horizon=4, predicted=1.0, predicted_hard=1.0, terminal=0.0, terminal_predicted=0.0)
NEW = {
    "open loop and a distance": (
        *("symmetric", 6, ["d_psi", "l2"]),
        {"open_loop": {"weight": 1.0, "horizon": 3, "curriculum": 2, "targets": "detached"}, "temporal": TEMPORAL},
    ),
    "reachability without any prediction": (
        *("reachability", 4, ["l2"]),
        {"pair_reachability": {"weight": 1.0, "horizon": 3}, "sigreg": {"weight": 0.1, "directions": 8, "knots": 5}},
    ),
    "budgets beside a rollout": (
        *("budget_reachability", 8, ["rc_aux"]),
        {"one_step": {"weight": 1.0, "targets": "attached"}, "budget_reachability": HARD}
        | {"rollout": {"weight": 1.0, "horizons": [2, 4]}},
    ),
}


@pytest.mark.parametrize("name", NEW)
def test_a_combination_that_nobody_had_before_needs_no_code(raw, data, tmp_path, name):
    head, window, costs, terms = NEW[name]
    raw["methods"]["mine"] = {"label": name, "window": window, "head": head, "terms": terms, "costs": costs}
    raw["scales"]["smoke"]["methods_run"] = ["mine"]
    raw["scales"]["smoke"]["train"] |= {"epochs": 1, "steps_per_epoch": 2}
    raw["scales"]["smoke"]["evaluate"]["curve_epochs"] = [1]
    cfg = train_slice(resolve(raw, "smoke"), "two_room", "mine", 1)
    last = training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path)
    assert last["step"] == 2
    assert {term for term in TERMS if term in last} == set(terms)
    weighted = sum(terms[term]["weight"] * last[term] for term in terms)
    assert last["loss"] == pytest.approx(weighted, rel=1e-5)


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_an_ablation_differs_from_the_full_model_in_one_thing(raw, scale):
    methods = resolve(raw, scale).methods
    full, continued = (methods[name].model_dump() for name in ("tdjepa", "tdjepa_continued"))
    assert differences(full, continued) - {("train_seeds",)} == {("label",), ("restart",), ("envs",)}
    for name, place in ABLATIONS.items():
        assert differences(continued, methods[name].model_dump()) == {("label",), place}
    lewm = methods["lewm"].model_dump()
    assert differences(lewm, methods["lewm_compute"].model_dump()) == {("label",)}
    original = differences(lewm, methods["lewm_original"].model_dump()) - {("train_seeds",)}
    assert original == {("label",), ("terms", "one_step", "targets")}


def differences(a, b, place=()):
    """Where two nested mappings differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {found for key in a.keys() | b.keys() for found in differences(a.get(key), b.get(key), (*place, key))}
    return set() if a == b else {place}


def test_a_method_is_run_only_where_it_says(raw):
    raw["scales"]["paper"]["envs"] = ["two_room", "push_t"]
    p = resolve(raw, "paper")
    assert set(runs.methods_in(p, "push_t")) == set(p.methods_run)
    assert set(p.methods_run) - set(runs.methods_in(p, "two_room")) == {*ABLATIONS, "tdjepa_continued"}
    wanted = {path for paths in phases.Files(p).phases().values() for path in paths}
    assert any("push_t/tdjepa_no_hinge" in path for path in wanted)
    assert not any("two_room/tdjepa_no_hinge" in path for path in wanted)


def test_steps_frames_and_continued_streams(smoke, data, tmp_path, monkeypatch):
    """What each optimiser step is given: how many frames, which epoch, which place in the random streams."""
    seen, compute = [], training.objective

    def objective(model, method, frames, blocks, seed, step, epoch, *rest):
        seen.append((frames.shape[0] * frames.shape[1], step, epoch))
        return compute(model, method, frames, blocks, seed, step, epoch, *rest)

    monkeypatch.setattr(training, "objective", objective)

    def steps(method):
        seen.clear()
        cfg = train_slice(smoke, "two_room", method, 3072)
        last = training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path / method)
        return last["step"], sum(frames for frames, _, _ in seen), [(step, epoch) for _, step, epoch in seen]

    taken, frames, calls = steps("tdjepa")
    assert calls == [(k, 1 + k // 6) for k in range(12)]
    assert steps("lewm")[:2] == (taken, frames / 2)
    assert steps("lewm_compute")[:2] == (2 * taken, frames)  # the base's factor
    assert steps("tdjepa_continued") == (taken, frames, calls)  # its streams go on where the schedule starts anew
