"""Where each parameter comes from, and what `tdjepa params` prints of it."""

import copy
import json

import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config import origin, runs
from tdjepa.config.load import resolve
from tdjepa.config.records.base import Record
from tdjepa.config.schema import schema
from tdjepa.config.slices import evaluate_slice, train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.tools import parameters

PARAMS = ROOT / "params.yaml"
RAW = read_yaml(PARAMS)
SCALES = tuple(RAW["scales"])


@pytest.fixture
def raw():
    return copy.deepcopy(RAW)


def at(tree, key: str):
    for part in key.split("."):
        tree = getattr(tree, part) if isinstance(tree, Record) else tree[part]
    return list(tree) if isinstance(tree, tuple) else tree


def found(leaves) -> dict:
    return {leaf.key: (leaf.value, leaf.origin) for leaf in leaves}


@pytest.mark.parametrize("scale", SCALES)
def test_every_value_of_a_scale_is_there_and_its_origin_holds_it(raw, scale):
    p, leaves = resolve(raw, scale), origin.of_scale(raw, scale)
    for key, value, who in leaves:
        assert at(p, key) == value
        plain = who.removesuffix(")").split(" (")[-1]  # like tdjepa (scale desk) -> scale desk
        if plain == "default":
            continue
        where = raw["scales"][plain.removeprefix("scale ")] if plain.startswith("scale ") else raw
        if who.startswith("like "):
            _, _, *rest = key.split(".")
            key = ".".join(["methods", who.split()[1], *rest])
        assert at(where, key) == value, (key, who)
        if plain == "base" and not key.startswith("methods."):
            with pytest.raises((KeyError, TypeError)):
                at(raw["scales"][scale], key)
    assert {leaf.key.split(".")[0] for leaf in leaves} >= set(raw) - {"scale", "scales", "overlays", "recipes"}


def test_a_value_is_the_nearest_scale_s_in_a_chain(raw):
    raw["scales"]["quick"] = {"like": "desk", "train": {"batch": 16}}
    leaves = found(origin.of_scale(raw, "quick"))
    assert leaves["train.batch"] == (16, "scale quick")
    assert leaves["train.lr"] == (0.002, "scale desk")
    assert leaves["train.clip"] == (1.0, "base")
    assert leaves["methods.lewm_compute.terms.sigreg.weight"] == (0.09, "like lewm (base)")
    assert leaves["methods.lewm.trains_on"] == ("train", "default")


def test_one_training_has_its_recipes_and_its_cell(raw):
    leaves = found(origin.of_training(raw, "push_t", "tdjepa_no_hinge", "desk"))
    assert leaves["train.steps_per_epoch"] == (200, "recipe push_t (scale desk)")
    assert leaves["train.batch"] == (32, "scale desk")
    assert leaves["methods.tdjepa_no_hinge.terms.temporal.negatives"] == (False, "base")
    assert leaves["methods.tdjepa_no_hinge.terms.temporal.pairs"] == ("all", "like tdjepa (scale desk)")
    assert leaves["methods.tdjepa_no_hinge.restart"] == (4, "like tdjepa_continued (base)")
    assert leaves["cell.planner.candidates"] == (60, "scale desk")
    assert leaves["cell.planner.horizon"] == (5, "base")
    assert leaves["cell.cost"] == ("l2", "protocol push_t (base)")
    assert leaves["cell.plan_seeds"] == ((20260714,), "scale desk")
    assert leaves["cell.pairs"] == (200, "scale desk")
    assert "train.steps_per_epoch * step_factor" not in leaves
    lewm = found(origin.of_training(raw, "two_room", "lewm_compute", "desk"))
    assert lewm["train.steps_per_epoch * step_factor"] == (230, "computed")
    assert lewm["cell.cost"] == ("l2", "like lewm (base)")
    terms = {"sigreg": {"weight": 2.0}, "temporal": {"margin": 3.0}}
    raw["scales"]["desk"]["recipes"] = [{"when": {"env": "cube"}, "terms": terms}]
    lewm = found(origin.of_training(raw, "cube", "lewm", "desk"))
    assert lewm["methods.lewm.terms.sigreg.weight"] == (2.0, "recipe entry_1 (scale desk)")
    assert "methods.lewm.terms.temporal.margin" not in lewm


@pytest.mark.parametrize("scale", SCALES)
def test_the_values_of_a_training_are_those_of_its_slices(raw, scale):
    p = resolve(raw, scale)
    for env, method in {(env, method): None for env, method, _ in runs.trainings(p)}:
        leaves = found(origin.of_training(raw, env, method, scale))
        train = train_slice(p, env, method, p.train_seeds[0]).model_dump(mode="json")
        cells = evaluate_slice(p, env, method, p.train_seeds[0]).model_dump(mode="json")["cells"]
        cell = next(cell for cell in cells if cell["cost"] == leaves["cell.cost"][0])
        for key, (value, _) in leaves.items():
            if key.startswith("cell."):
                assert at(cell, key.removeprefix("cell.")) == (list(value) if isinstance(value, tuple) else value)
            elif key.startswith(("train.", "model.")) and "step" not in key:
                assert at(train, key) == value
            elif key.startswith(f"methods.{method}.terms."):
                assert at(train["method"], key.removeprefix(f"methods.{method}.")) == value


def test_the_difference_of_two_scales(raw):
    quick = {"train_seeds": [3072], "evaluate": {"designs": {"main": {"pairs": 40}}}, "recipes": {"cube_rc_aux": None}}
    raw["scales"]["quick"] = {"like": "desk", **quick}
    assert origin.difference(raw, "desk", "quick") == [
        ("train_seeds", ([3072, 3073, 3074, 3075, 3076], [3072]), ("scale desk", "scale quick")),
        ("recipes.cube_rc_aux.when.env", ("cube", None), ("scale desk", "")),
        ("recipes.cube_rc_aux.when.method", ("rc_aux", None), ("scale desk", "")),
        ("recipes.cube_rc_aux.train.lr", (0.004, None), ("scale desk", "")),
        ("evaluate.designs.main.pairs", (200, 40), ("scale desk", "scale quick")),
    ]
    assert origin.difference(raw, "desk", "desk") == []


def test_a_base_value_that_a_scale_overlays_makes_no_difference_there(raw):
    raw["scales"]["quick"] = {"like": "desk", "train": {"batch": 16}}
    now = copy.deepcopy(raw)
    now["train"] |= {"lr": 1.0e-4, "batch": 64, "clip": 2.0}
    lines = origin.shadowed(raw, now, "desk")
    assert lines == [
        "train.batch changed in the base from 128 to 64, but scale desk has its own value 32 (scales.desk.train.batch): "
        "nothing depends on the base value here",
        "train.lr changed in the base from 5e-05 to 0.0001, but scale desk has its own value 0.002 (scales.desk.train.lr): "
        "nothing depends on the base value here",
    ]
    assert [line.split("value ")[1].split(":")[0] for line in origin.shadowed(raw, now, "quick")] == [
        "16 (scales.quick.train.batch)",
        "0.002 (scales.desk.train.lr)",
    ]
    assert origin.shadowed(raw, now, "paper") == origin.shadowed(raw, raw, "desk") == []
    now = copy.deepcopy(raw)
    now["recipes"]["push_t_batch"]["train"]["batch"] = 64
    (line,) = origin.shadowed(raw, now, "desk")
    assert "own value null (scales.desk.recipes.push_t_batch)" in line
    now["scales"]["desk"]["train"]["lr"] = 1.0  # a change in the scale itself is no shadow
    assert origin.shadowed(raw, now, "desk") == [line]


def test_the_sections_of_a_scale_follow_like(raw):
    raw["scales"]["quick"] = {"like": "desk"}
    base = [key for key in raw if key not in ("scale", "scales", "overlays", "runtime")]
    assert origin.sections(raw, "desk") == [*base, "scales.desk"]
    assert origin.sections(raw, "quick") == [*base, "scales.desk", "scales.quick"]
    assert origin.sections(raw, "desk_as_published") == [*base, "scales.desk", "overlays.as_published"]


def test_params_checks_every_scale_and_prints_a_short_table(raw, tmp_path, capsys):
    parameters.run(params=PARAMS, scale="smoke")
    assert capsys.readouterr().out.splitlines()[:2] == ["  scale        smoke", "  envs         two_room"]
    path = tmp_path / "params.yaml"
    raw["scales"]["paper"]["train"] = {"lr": -1.0}
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match=r"params\.yaml, scale paper: train\.lr = -1\.0"):
        parameters.run(params=path, scale="smoke")


def test_params_prints_values_origins_differences_and_the_schema(capsys):
    parameters.run(params=PARAMS, scale="desk", resolved=True)
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.split()[0] == "train.lr"]
    assert line.split(maxsplit=2) == ["train.lr", "0.002", "scale desk"]
    origins = {line.index("scale desk") for line in lines if line.endswith("scale desk") and len(line) < 120}
    assert len(origins) == 1  # one column
    parameters.run(params=PARAMS, resolved=True, env="push_t", method="tdjepa")
    assert "recipe push_t (scale desk)" in capsys.readouterr().out
    parameters.run(params=PARAMS, scale="desk", diff="smoke")
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["train.lr", "0.002", "0.001", "scale", "desk", "|", "scale", "smoke"] in shown
    parameters.run(schema=True)
    assert json.loads(capsys.readouterr().out) == schema()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"resolved": True, "env": "push_t"}, "--method: needed beside --env"),
        ({"env": "push_t", "method": "lewm"}, "--env and --method: only with --resolved"),
        ({"resolved": True, "diff": "smoke"}, "--diff and --resolved: only one of them"),
        ({"resolved": True, "env": "pusht", "method": "lewm"}, r"--env pusht: must be one of .*; .* mean 'push_t'\?"),
        ({"resolved": True, "env": "push_t", "method": "lewn"}, r"--method lewn: must be one of .*; .* mean 'lewm'\?"),
        ({"diff": "smok"}, r"scale = 'smok': must be one of .*; did you mean 'smoke'\?"),
    ],
)
def test_params_refuses_in_one_line(options, said):
    with pytest.raises(UserError, match=said):
        parameters.run(params=PARAMS, **options)
