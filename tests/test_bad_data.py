"""Data that cannot be trained on: one line that says what and where, before anything is written."""

import json
import shutil

import h5py
import numpy as np
import pytest

from tdjepa.base import artefacts
from tdjepa.cli import main
from tdjepa.config.slices import train_slice
from tdjepa.data.store import pack


@pytest.fixture(params=["plain", "packed"])
def folder(request, data, tmp_path):
    """A copy of the smoke data set in either storage. -> folder with episodes.h5, its card and split.json"""
    for name in ("episodes.h5", "episodes.card.json", "mined/split.json"):
        shutil.copy(data / name, tmp_path)
    if request.param == "packed":
        pack(data / "episodes.h5", tmp_path / "episodes.h5")
    return tmp_path


def change(folder, edit):
    """Edit the HDF5 file and make its card agree: only its content is wrong then."""
    with h5py.File(folder / "episodes.h5", "a") as file:
        edit(file)
    card = artefacts.read_json(folder / "episodes.card.json")
    artefacts.write_json(folder / "episodes.card.json", card | {"sha256": artefacts.sha256(folder / "episodes.h5")})


def refused(smoke, folder, capsys, **train) -> str:
    """What `tdjepa train` says: one line, status 2, nothing written."""
    cfg = train_slice(smoke, "two_room", "lewm", 3072).model_dump(mode="json")
    cfg["method"] |= train
    files = {"episodes": folder / "episodes.h5", "split": folder / "split.json", "out": folder / "out"}
    arguments = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    capsys.readouterr()
    assert main(["train", "--slice", json.dumps(cfg), *arguments]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert not (folder / "out").exists()
    return said[0]


@pytest.mark.parametrize(("value", "why"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_an_action_that_is_no_number_inside_an_episode(smoke, folder, capsys, value, why):
    def edit(file):
        file["action"][file["ep_offset"][3] + 2, 1] = value

    change(folder, edit)
    assert f"episodes.h5: {why} action inside episode 3 (step 2); " in refused(smoke, folder, capsys)


def test_a_window_longer_than_every_episode_and_an_empty_part(smoke, folder, capsys):
    said = refused(smoke, folder, capsys, window=40)
    assert "a window of 40 frames spans 200 rows, but the longest training episode has 61" in said
    artefacts.write_json(folder / "split.json", artefacts.read_json(folder / "split.json") | {"train": []})
    assert "split.json: the train part is empty" in refused(smoke, folder, capsys)


def test_a_file_that_is_cut_off(smoke, folder, capsys):
    path = folder / "episodes.h5"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "episodes.h5: sha256" in refused(smoke, folder, capsys)
    card = artefacts.read_json(folder / "episodes.card.json")
    artefacts.write_json(folder / "episodes.card.json", card | {"sha256": artefacts.sha256(path)})
    assert "episodes.h5: cannot be read as HDF5 (truncated file" in refused(smoke, folder, capsys)


def test_no_episode_at_all(smoke, folder, capsys):
    def edit(file):
        for name in list(file):
            shape, dtype = file[name].shape, file[name].dtype
            del file[name]
            file.create_dataset(name, (0, *shape[1:]), dtype)

    change(folder, edit)
    assert "episodes.h5: holds no episodes" in refused(smoke, folder, capsys)
