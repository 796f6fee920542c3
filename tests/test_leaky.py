"""What the leak of the published split is worth: leaky trainings see the evaluated episodes, and nothing else differs."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from conftest import ROOT
from synthetic import outcomes, write, write_episodes
from tdjepa.base.errors import UserError
from tdjepa.config.load import load, resolve
from tdjepa.config.slices import evaluate_slice, train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.data.store import Store
from tdjepa.evidence import judge, paired, summary
from tdjepa.evidence.intervals import Pool
from tdjepa.mining import split
from tdjepa.model import checkpoint
from tdjepa.report import extra_tables, inputs, tables
from tdjepa.report.summary import markdown
from tdjepa.steps import train as training
from tdjepa_workflow import files as phases

PARTS = {"train": [1, 3, 4, 8, 9, 11], "validation": [0, 5, 7], "test": [2, 6, 10]}
TWINS = {"tdjepa": "tdjepa_leaky", "lewm": "lewm_leaky"}


@pytest.fixture
def raw():
    return read_yaml(ROOT / "params.yaml")


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """Twelve episodes whose frames say where they come from, and their split."""
    folder = tmp_path_factory.mktemp("marked")
    write_episodes(folder / "episodes.h5", 32, lengths=[48] * 12)
    (folder / "split.json").write_text(json.dumps(PARTS))
    return folder


@pytest.mark.parametrize(("method", "episodes"), [("lewm", PARTS["train"]), ("lewm_leaky", list(range(12)))])
@pytest.mark.parametrize("steps", [12, 0])
def test_only_the_leaky_training_sees_test_episodes(smoke, marked, tmp_path, monkeypatch, method, episodes, steps):
    seen, compute = set(), training.objective

    def objective(model, method, frames, *rest):
        seen.update(frames[:, :, 0, 0, 0].unique().tolist())
        return compute(model, method, frames, *rest)

    monkeypatch.setattr(training, "objective", objective)
    cfg = train_slice(smoke, "two_room", method, 3072)
    cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"steps_per_epoch": steps})})
    last = training.run(cfg, marked / "episodes.h5", marked / "split.json", tmp_path)
    assert sorted(seen) == episodes
    assert split.trained_on(PARTS, cfg.method.trains_on) == episodes
    windows = 48 - 4 * cfg.frameskip + 1  # of an episode
    assert last["windows"] == len(episodes) * windows
    assert last["step"] == cfg.train.epochs * (steps or len(PARTS["train"]) * windows // cfg.train.batch)
    model, _ = checkpoint.load(tmp_path / "epoch_02.safetensors")
    mean, _ = Store(marked / "episodes.h5").action_statistics(np.array(episodes))
    torch.testing.assert_close(model.action_mean[:2].double(), torch.from_numpy(mean), atol=1e-6, rtol=0)


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_a_leaky_method_differs_in_its_episodes_alone(raw, scale):
    """Recipes and overlays included: as many steps, the same weights of the terms."""
    for env in ("two_room", "push_t"):
        raw["scales"][scale]["envs"] = [env]
        p = resolve(raw, scale)
        for honest, leaky in TWINS.items():
            a, b = (train_slice(p, env, m, 3072).model_dump() for m in (honest, leaky))
            for named, episodes in ((a, "train"), (b, "all")):
                assert named["method"].pop("trains_on") == episodes
                del named["method_name"], named["method"]["label"], named["method"]["costs"]
            assert a == b
            assert set(p.methods[leaky].costs) <= set(p.methods[honest].costs)
            cells = evaluate_slice(p, env, leaky, 3072)
            assert {cell.epoch for cell in cells.cells} == {p.train.epochs}
            assert cells.evaluate == evaluate_slice(p, env, honest, p.train_seeds[1]).evaluate


def test_the_name_says_whether_it_leaks(raw):
    for method, episodes in {"tdjepa_leaky": "train", "lewm": "all"}.items():
        raw["methods"][method]["trains_on"] = episodes
    raw["scales"]["smoke"]["envs"] = ["push_t"]
    with pytest.raises(UserError) as error:
        resolve(raw, "smoke")
    for text in (
        "methods.tdjepa_leaky.trains_on: train: rows tell a method by its name only",
        "methods.lewm.trains_on: all",
    ):
        assert text in str(error.value)


def test_leaky_trainings_are_planned_but_have_no_held_out_pairs(smoke):
    files = phases.Files(smoke, ["extras"])
    assert any("lewm_leaky" in path for path in files.rows())
    asked = [path for paths in files.known().values() for path in paths] + files.reported("pairs", "aliasing")
    assert not any("leaky" in path and "diagnostics" in path for path in asked)


# The table ------------------------------------------------------------------------------------------------------------


def made_up(rng):
    """Two-Room rows of two methods and their leaky twins. -> {(method, cost): success (T, P, E)}"""
    rates = {("tdjepa", "d_psi"): 0.7, ("tdjepa", "l2"): 0.6, ("lewm", "l2"): 0.5, ("random", "none"): 0.2}
    rates |= {("tdjepa_leaky", "d_psi"): 0.9, ("tdjepa_leaky", "l2"): 0.6, ("lewm_leaky", "l2"): 0.8}
    return {key: rng.random((1 if key[1] == "none" else 3, 2, 20)) < rate for key, rate in rates.items()}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """(success, statistics with leaky trainings, statistics without, the report's inputs)"""
    folder, success = tmp_path_factory.mktemp("leak"), made_up(np.random.default_rng(3))
    p = load(ROOT / "params.yaml", "smoke")
    settings = p.judge.model_copy(update={"bootstrap": 100})
    frames = {"_".join(key): outcomes(s, *key, epoch=p.train.epochs) for key, s in success.items()}
    files = [write(folder / f"{name}.parquet", frame) for name, frame in frames.items()]
    stats = judge.run(files, folder / "with", settings)
    honest = [file for file in files if "_leaky" not in file.name]
    without = judge.run(honest, folder / "without", settings)
    return success, stats, without, inputs.read(p, folder / "with/stats.json")


def test_the_table_holds_the_paired_differences(judged):
    success, _, _, found = judged
    body = extra_tables.split_leak(found).body
    methods = ["LeWM, ℓ₂", "TD-JEPA, d_ψ", "TD-JEPA, ℓ₂"]
    assert [row[:2] for row in body] == [[env, method] for env in ("Two-Room", "Push-T") for method in methods]
    assert all(row[2:4] == ["not run", "not run"] for row in body[3:])
    for row, (method, cost) in zip(body[:3], [("lewm", "l2"), ("tdjepa", "d_psi"), ("tdjepa", "l2")], strict=True):
        honest, leaky = success[method, cost], success[method + "_leaky", cost]
        gain = 100 * (leaky.mean() - honest.mean())
        assert [text.split(" ")[0] for text in row[2:4]] == [f"{100 * s.mean():.1f}" for s in (honest, leaky)]
        assert float(row[4].split(" ")[0].replace("−", "-")) == pytest.approx(gain, abs=0.05)
        c = found.comparison(*(found.cell("two_room", m, cost) for m in (method + "_leaky", method)))
        assert row[4].cells == (c["a"], c["b"])


def test_leaky_trainings_change_nothing_of_the_honest_comparisons(judged):
    _, stats, without, found = judged
    assert [c for c in stats["comparisons"] if "leaky" not in c["a"] + c["b"]] == without["comparisons"]
    for table in (tables.main, extra_tables.floors, extra_tables.training_seeds):
        assert "leaky" not in table(found).to_markdown()
    lines = [line for line in markdown(found).splitlines() if "leaky" in line]
    assert len(lines) == 3
    assert all("TD-JEPA, leaky split" in line or "LeWM, leaky split" in line for line in lines)


def test_a_leaky_training_is_paired_with_the_honest_one_of_its_seed():
    """Trainings that differ much and gain alike: the gain is sure only if they are compared seed by seed."""
    solved = np.array([2, 9, 16])[:, None, None].repeat(3, 1)
    base, better = (np.arange(20) < solved + gain for gain in (0, 3))  # (T, P, E)

    def gain(method):
        rows = [outcomes(base, "tdjepa", train_seeds=[1, 2, 3]), outcomes(better, method, train_seeds=[1, 2, 3])]
        a, b = (next(c for c in summary.cells(pd.concat(rows)) if c.method == m) for m in ("tdjepa", method))
        return paired.compare(b, a, Pool(), 0.95, 0)

    leaky, other = gain("tdjepa_leaky"), gain("another")
    assert leaky["difference"] == pytest.approx(other["difference"]) == pytest.approx(15)
    assert other["low"] < 0 < leaky["low"] < 15 < leaky["high"]
    assert leaky["p_permutation"] == other["p_permutation"]
