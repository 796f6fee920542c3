"""Pictures: they are written, move, and tell the truth about the wall."""

import numpy as np
import pytest
from PIL import Image

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config.slices import evaluate_slice
from tdjepa.steps import pictures


@pytest.fixture
def arguments(smoke, data, trained):
    cfg = evaluate_slice(smoke, "two_room", "tdjepa", 3072)
    cfg = cfg.model_copy(update={"evaluate": cfg.evaluate.model_copy(update={"budget": 20})})
    epochs = sorted({cell.epoch for cell in cfg.cells})
    saved = {epoch: trained / f"tdjepa/epoch_{epoch:02d}.safetensors" for epoch in epochs}
    return cfg, data / "episodes.h5", data / "mined/test.json", saved


def test_an_episode_as_a_gif(arguments, tmp_path):
    facts = pictures.rollout(*arguments, 1, "l2", tmp_path / "e.gif")
    with Image.open(tmp_path / "e.gif") as gif:
        assert gif.n_frames > 1
        assert facts["steps"] <= 20
        first = np.asarray(gif.convert("RGB"), int)
        gif.seek(gif.n_frames - 1)
        assert np.abs(np.asarray(gif.convert("RGB"), int) - first).max() > 50
    with pytest.raises(UserError, match="--pair 99: must be 0 to 5"):
        pictures.rollout(*arguments, 99, "l2", tmp_path / "x.gif")
    with pytest.raises(UserError, match="--cost rc_aux: must be one of d_psi, l2, blend"):
        pictures.rollout(*arguments, 0, "rc_aux", tmp_path / "x.gif")


def test_a_planner_that_sees_three_frames_is_drawn_too(arguments, tmp_path):
    cfg, *files = arguments
    cell = next(cell for cell in cfg.cells if cell.cost == "blend")
    cell = cell.model_copy(update={"planner": cell.planner.model_copy(update={"history": 3, "receding": 1})})
    cfg = cfg.model_copy(update={"cells": (cell,)})
    facts = pictures.rollout(cfg, *files, 1, "blend", tmp_path / "e.gif")
    assert facts["plans"] == -(-facts["steps"] // cfg.frameskip)  # a plan a block, the third from three frames
    assert facts["plans"] > 2
    with Image.open(tmp_path / "e.gif") as gif:
        assert gif.n_frames > 1


def test_the_landscape_of_two_room(arguments, tmp_path):
    jumps = pictures.landscape(arguments[0], arguments[3][2], tmp_path / "l.pdf", side=24)
    assert set(jumps) == {"d_psi", "l2"}
    assert (tmp_path / "l.pdf").read_bytes()[:4] == b"%PDF"
    assert Image.open(tmp_path / "l.png").width > 500
    with pytest.raises(UserError, match="the landscape is that of two_room"):
        pictures.landscape(arguments[0].model_copy(update={"env": "reacher"}), arguments[3][2], tmp_path / "r.pdf")


def test_the_files_of_a_landscape_are_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pictures, "landscape", lambda *_: {"l2": 1.0})
    out = tmp_path / "l.png"
    assert main(["landscape", "--params", str(ROOT / "params.yaml"), "--scale", "smoke", "--out", str(out)]) == 0
    said = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert said == [["pdf", str(out.with_suffix(".pdf"))], ["png", str(out)]]


def test_a_jump_is_seen_where_there_is_one():
    """A cost that is the way to walk jumps at the wall; the straight distance does not."""
    from tdjepa.envs import two_room as t

    line, places = pictures._places(64)
    goal, door = np.array(pictures.GOAL), np.array([t.WALL, t.DOOR])
    straight = np.linalg.norm(places - goal, axis=1)
    detour = np.linalg.norm(places - door, axis=1) + np.linalg.norm(door - goal)
    walk = np.where(places[:, 0] < t.WALL, detour, straight)
    assert pictures._jump(walk.reshape(64, 64), line) > 1
    assert pictures._jump(straight.reshape(64, 64), line) < 0.6
