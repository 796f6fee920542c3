"""Results of methods that were taken out: set aside, never lost, and back when they are wanted again."""

import json
import os

import pytest

from tdjepa_workflow import leftovers, provenance

KEPT, GONE = "results/desk/train/lewm/a.json", "results/desk/train/rc_aux/a.json"
NOT_OURS = ("results/smoke/train/rc_aux/a.json", "paper/main.tex", "results/desk/../secret", "data/desk")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the results of two methods, and records that name files of other scales and other folders."""
    monkeypatch.chdir(tmp_path)
    for path in (KEPT, GONE, "data/desk/mined/rc_aux.json", *NOT_OURS[:3]):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("made")
    known = {path: provenance.content(path) for path in (KEPT, GONE, "data/desk/mined/rc_aux.json", *NOT_OURS[:3])}
    os.makedirs("results/desk/provenance")
    with open("results/desk/provenance/train.json", "w") as file:
        json.dump([{"outputs": {**known, "data/desk": "bytes:0"}, "record": {}}], file)


def test_they_are_set_aside_and_come_back_as_they_were(project):
    made = os.stat(GONE).st_mtime_ns
    assert sorted(leftovers.set_aside({"train": [KEPT]}, "desk")) == ["data/desk/mined/rc_aux.json", GONE]
    assert os.path.exists("results/desk/set_aside/train/rc_aux/a.json")
    assert not os.path.exists("results/desk/train/rc_aux")  # no empty folder either
    assert os.path.exists(KEPT)
    assert all(map(os.path.exists, NOT_OURS))
    assert leftovers.set_aside({"train": [KEPT]}, "desk") == []
    leftovers.bring_back({"train": [KEPT, GONE]}, "desk")
    assert os.stat(GONE).st_mtime_ns == made
    assert not os.path.exists("results/desk/set_aside")


def test_what_a_person_wrote_stays(project):
    for path in (GONE, "results/desk/train/rc_aux/notes.txt"):
        with open(path, "w") as file:
            file.write("mine")
    assert leftovers.set_aside({"train": [KEPT]}, "desk") == ["data/desk/mined/rc_aux.json"]
    leftovers.bring_back({"train": [KEPT, GONE]}, "desk")
    with open(GONE) as file:
        assert file.read() == "mine"
