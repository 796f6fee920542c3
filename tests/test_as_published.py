"""`as_published`: the authors' evaluation over any scale, beside ours and never in its place; frames by their source."""

import copy
import json

import numpy as np
import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config import origin, runs
from tdjepa.config.load import resolve, resolve_every_scale
from tdjepa.config.slices import evaluate_slice, mine_slice, slice_json, train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.steps import evaluate as evaluation
from tdjepa.steps import mine, train
from tdjepa.steps.paths import path

RAW = read_yaml(ROOT / "params.yaml")


@pytest.fixture
def raw():
    return copy.deepcopy(RAW)


@pytest.mark.parametrize("scale", RAW["scales"])
def test_any_scale_is_evaluated_as_published_in_folders_of_its_own(raw, scale):
    ours, theirs = resolve(raw, scale), resolve(raw, f"{scale}_as_published")
    assert theirs.scale == f"{scale}_as_published"
    assert path("rows", theirs.scale, env="cube", method="lewm", seed=1) != path(
        "rows", scale, env="cube", method="lewm", seed=1
    )
    assert (theirs.mine.manifest_draw, theirs.mine.validation_goals, theirs.mine.test_goals) == (
        "all_episodes",
        50,
        200,
    )
    assert theirs.collect == ours.collect
    assert theirs.train == ours.train.model_copy(update={"windows_from": "all_episodes"})
    assert theirs.model == ours.model
    main = evaluate_slice(theirs, "two_room", "tdjepa", 3072)
    assert main.evaluate.manifest == "validation"
    assert {cell.epoch for cell in main.cells} == {theirs.train.epochs}  # curves are sweeps
    assert {cell.pairs for cell in main.cells if cell.design == "main"} == {50}
    curve = evaluate_slice(theirs, "two_room", "tdjepa", 3072, "two_room_epochs")
    assert curve.evaluate.manifest == "curves"
    assert [cell.epoch for cell in curve.cells] == runs.diagnosed_epochs(ours)
    assert {cell.plan_seeds for cell in curve.cells} == {(3072,)}
    swept = {(job["sweep"], job["env"]) for job in runs.jobs(theirs, "sweeps")}
    assert ("two_room_epochs", "two_room") in swept
    for sweep in ("blend", "cube_epochs", "reacher_protocol"):
        assert theirs.evaluate.sweeps[sweep].manifest == "curves"
        assert theirs.evaluate.sweeps[sweep].plan_seed == 3072


def test_an_overlay_says_where_its_values_come_from_and_is_checked(raw):
    said = {leaf.key: leaf.origin for leaf in origin.of_scale(raw, "desk_as_published")}
    assert said["evaluate.manifest"] == "overlay as_published"
    assert said["train.lr"] == "scale desk"
    raw["scales"]["paper_as_published"] = None  # for DVC, which wants to find the name
    assert resolve(raw, "paper_as_published").evaluate.manifest == "validation"
    raw["overlays"]["as_published"]["evaluate"]["manifest"] = "all"
    with pytest.raises(
        UserError, match=r"scale paper_as_published: evaluate\.manifest = 'all': input should be 'validation'"
    ):
        resolve_every_scale(raw, "smoke")
    raw["overlays"]["as_published"] = {"like": "desk"}
    with pytest.raises(UserError, match=r"overlays\.as_published\.like: no such key"):
        resolve(raw, "smoke")
    for wrong in (["as_published"], {"as_published": 3}):
        raw["overlays"] = wrong
        with pytest.raises(UserError, match=r"overlays.*: a mapping of (overlays|parameters) is expected"):
            resolve(raw, "smoke")


def test_the_published_manifests_are_mined_and_planned(raw, data, trained, tmp_path):
    """From all episodes, those of the training among them; the curve of two epochs on pairs and a plan seed of its own."""
    p = resolve(raw, "smoke_as_published")
    mine.run(mine_slice(p, "two_room"), data / "episodes.h5", tmp_path)
    parts = json.loads((tmp_path / "split.json").read_text())
    for name, goals in (("validation", 50), ("test", 200), ("curves", 50)):
        episodes = {episode for episode, _ in json.loads((tmp_path / f"{name}.json").read_text())["entries"]}
        assert len(json.loads((tmp_path / f"{name}.json").read_text())["entries"]) == goals
        assert episodes & set(parts["train"])
    cfg, saved = evaluate_slice(p, "two_room", "tdjepa", 3072, "two_room_epochs"), trained / "tdjepa"
    cfg = cfg.model_copy(update={"cells": tuple(cell.model_copy(update={"pairs": 3}) for cell in cfg.cells)})
    saved = {epoch: saved / f"epoch_{epoch:02d}.safetensors" for epoch in (1, 2)}
    cfg = json.loads(slice_json(cfg).replace('"smoke_as_published"', '"smoke"'))  # trained at the scale smoke
    cfg = evaluation.EvaluateSlice.model_validate_json(json.dumps(cfg))
    table = evaluation.run(cfg, data / "episodes.h5", tmp_path / "curves.json", saved, tmp_path / "rows.parquet")
    assert table.groupby(["setting", "epoch", "plan_seed"]).size().to_dict() == {
        ("two_room_epochs", 1, 3072): 3,
        ("two_room_epochs", 2, 3072): 3,
    }
    with pytest.raises(UserError, match="is the validation manifest, but evaluate.manifest = 'curves'"):
        evaluation.Episodes(cfg, data / "episodes.h5", tmp_path / "validation.json")


@pytest.mark.parametrize(
    ("source", "asked", "found"),
    [
        ("released", "as_data", "library"),
        ("generated", "as_data", "fast"),
        ("released", "fast", "fast"),
        ("generated", "library", "library"),
    ],
)
def test_frames_are_drawn_by_whom_drew_the_data(raw, source, asked, found):
    raw["collect"]["source"]["two_room"], raw["evaluate"]["renderer"] = source, asked
    p = resolve(raw, "paper")
    assert evaluate_slice(p, "two_room", "lewm", 3072).evaluate.renderer == found


def test_the_planner_sees_goal_and_first_frame_of_the_data_and_later_ones_of_the_renderer(smoke, data):
    """The two renderers of Two-Room differ by a grey level: enough to see who drew what."""
    seen = {}
    for renderer in ("fast", "library"):
        few = smoke.evaluate.model_copy(update={"renderer": renderer})
        cfg = evaluate_slice(smoke.model_copy(update={"evaluate": few}), "two_room", "lewm", 3072)
        locked, frames = evaluation.Episodes(cfg, data / "episodes.h5", data / "mined/test.json"), []

        def still(i, plan, now, past, frames=frames):
            frames.append(now[-1])
            return np.zeros((5, 5, 2))

        locked.play(still, slice(0, 1), history=1)
        store = Store(data / "episodes.h5")
        np.testing.assert_array_equal(frames[0], store.pixels[locked.first[:1]][0])
        np.testing.assert_array_equal(locked.goal_frames, store.pixels[locked.last])
        seen[renderer] = np.stack(frames).astype(int)
    assert (seen["fast"][0] == seen["library"][0]).all()
    np.testing.assert_array_equal(seen["fast"][1], seen["fast"][0])  # nothing moved, and the data is drawn by it
    assert 0 < np.abs(seen["library"][1] - seen["fast"][1]).max() <= 2


def test_training_takes_nine_of_ten_of_all_windows(raw, data, tmp_path):
    cfg = train_slice(resolve(raw, "smoke_as_published"), "two_room", "lewm", 3072)
    found = train.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path)
    store, shape = Store(data / "episodes.h5"), (cfg.method.window, cfg.frameskip, cfg.train.window_ends)
    every = windows.starts(store.length, store.offset, np.arange(store.episodes), *shape)
    assert found["windows"] == round(0.9 * len(every))
    some = windows.nine_tenths(every, np.random.default_rng(0))
    assert len(set(some)) == found["windows"]
    assert set(some) < set(every)
