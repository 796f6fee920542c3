"""`tdjepa take`: demonstrations of a user's own. docs/own_data.md is followed as it is written."""

import re

import h5py
import numpy as np
import pytest

from clone import Clone
from conftest import ROOT
from released_files import columns, leftovers, write_released
from tdjepa.base.artefacts import read_json, sha256
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config.slices import TakeSlice
from tdjepa.data.store import Store
from tdjepa.steps import take
from test_extending import apply, blocks

LENGTHS = np.array([31, 27, 28])


def slice_of(path, env="two_room", **more):
    amounts = {"episodes": 3, "min_length": 26, "image_size": 24, "storage": "plain", "goal_offset": 25}
    return TakeSlice(env=env, sha256=sha256(path), **amounts | more)


def own(path, env, width, changes=()):
    """A file of our layout: whole states, of which the simulator knows nothing."""
    rng, rows = np.random.default_rng(0), LENGTHS.sum()
    made = columns(env, LENGTHS)
    file = {"pixels": made["pixels"], "action": made["action"], "state": rng.normal(size=(rows, width))}
    file |= {"ep_len": LENGTHS, **dict(changes)}
    with h5py.File(path, "w") as out:
        for name, values in file.items():
            if values is not None:
                out[name] = values
    return path


@pytest.mark.parametrize(("env", "width"), [("two_room", 2), ("reacher", 8), ("push_t", 10), ("cube", 73)])
def test_whole_states_are_taken_as_they_are(env, width, tmp_path, monkeypatch):
    monkeypatch.setattr(take, "measured", lambda *_: {})  # states that no simulator has seen
    path, out = own(tmp_path / "own.h5", env, width), tmp_path / "taken/episodes.h5"
    card = take.run(slice_of(path, env), out, path)
    assert (card["verb"], card["episodes"], card["rows"]) == ("take", 3, LENGTHS.sum())
    with h5py.File(path) as given:
        assert np.array_equal(Store(out).state, given["state"])
        assert np.array_equal(Store(out).pixels, given["pixels"])


def test_a_file_of_the_released_layout_is_taken_too_and_made_smaller(tmp_path):
    path = write_released(tmp_path / "own.h5", columns("two_room", LENGTHS), lengths=LENGTHS)
    card = take.run(slice_of(path, image_size=16, episodes=2), tmp_path / "taken/episodes.h5", path)
    assert card["columns"]["state"] == ["proprio"]
    assert (card["image_size"], card["episodes"]) == (16, 2)


ROWS = LENGTHS.sum()
BAD = {
    "no pixels": ({"pixels": None}, {}, "no column pixels; it holds action, ep_len, state"),
    "no action": ({"action": None}, {}, "no column action; it holds"),
    "no state": ({"state": None}, {}, "no column proprio or pos_agent .* a column state of 2 numbers per row"),
    "no episodes": ({"ep_len": None}, {}, "its episodes are unknown"),
    "grey frames": ({"pixels": np.zeros((ROWS, 24, 24), np.uint8)}, {}, r"expected uint8 \(rows, H, W, 3\)"),
    "flat frames": ({"pixels": np.zeros((ROWS, 24, 32, 3), np.uint8)}, {}, "frames of 24 x 32 px, expected square"),
    "small frames": ({}, {"image_size": 64}, "frames of 24 px, collect.two_room.image_size asks for 64"),
    "whole numbers": ({"state": np.zeros((ROWS, 2), int)}, {}, "state is int64, expected floating-point"),
    "lost state": ({"state": np.full((ROWS, 2), np.nan)}, {}, "state of row 0 is not finite"),
    "lost action": ({"action": np.full((ROWS, 2), np.nan)}, {}, "NaN action inside episode 0"),
    "wide action": ({"action": np.zeros((ROWS, 3))}, {}, "action of two_room has 2 numbers per row, found are 3"),
    "lengths": ({"ep_len": LENGTHS + 1}, {}, f"do not add up to its {ROWS} rows"),
    "short episodes": ({}, {"min_length": 30}, "episode 1 has 27 rows, collect.min_length asks for 30"),
    "few episodes": ({}, {"episodes": 4}, "has 3 episodes, collect.two_room.episodes asks for 4"),
    "another file": ({}, {"sha256": "0" * 64}, "its sha256 is [0-9a-f]{64}, collect.file.two_room.sha256 says 000"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_one_line_and_nothing_is_written(name, tmp_path):
    changes, asked, why = BAD[name]
    path = own(tmp_path / "own.h5", "two_room", 2, changes)
    with pytest.raises(UserError, match=why) as caught:
        take.run(slice_of(path).model_copy(update=asked), tmp_path / "episodes.h5", path)
    assert "\n" not in str(caught.value)
    assert leftovers(tmp_path) == ["own.h5"]


def test_what_is_no_hdf5_file_or_no_file_is_one_line(tmp_path):
    path = tmp_path / "own.h5"
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read as HDF5"):
        take.run(slice_of(path), tmp_path / "episodes.h5", path)
    with pytest.raises(UserError, match="no such file; collect.file.two_room.path"):
        take.run(slice_of(path), tmp_path / "episodes.h5", tmp_path / "absent.h5")


def test_the_page_works_as_it_is_written(tmp_path, monkeypatch, capsys):
    clone, said = Clone(tmp_path), ""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    for kind, file, text in blocks("docs/own_data.md"):
        if kind == "python":
            (tmp_path / file).write_text(text)
        elif kind == "diff":
            apply(text.replace("<what sha256sum said>", said.split()[0]), clone)
        else:
            for command in text.splitlines():
                if command.startswith("tdjepa "):
                    assert main(command.split()[1:]) == 0
                else:
                    said = clone.run("bash", "-ec", command)
    assert re.search(r"replay .*100", capsys.readouterr().out)
    card = read_json("data/smoke/episodes/two_room/episodes.card.json")
    assert card["renderer_difference"] == {"mean": 0, "max": 0}  # the frames of the example are ours


@pytest.mark.pipeline
def test_one_word_chooses_it_and_the_checksum_decides_what_runs_again(data, tmp_path):
    clone = Clone.of_project(tmp_path / "a clone")
    clone.change("scale", "smoke")
    clone.change("scales.smoke.collect.source.two_room", "file")
    said = clone.snakemake("--dry-run", "mine_all", status=2)
    assert "collect.source.two_room: file, but collect.file has no entry for two_room" in said
    file = {"path": str(data / "episodes.h5"), "sha256": sha256(data / "episodes.h5")}
    clone.change("scales.smoke.collect.file", {"two_room": file})
    with clone.executed() as jobs:
        clone.snakemake("mine_all")
    assert jobs == {"take_two_room", "mine_two_room"}
    clone.change("scales.smoke.collect.file", {"two_room": file | {"path": "moved.h5"}})
    assert clone.planned("mine_all") == set()
    clone.change("scales.smoke.collect.file", {"two_room": file | {"sha256": "0" * 64}})
    assert "take_two_room" in clone.planned("mine_all")
