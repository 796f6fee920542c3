"""Results of methods that were taken out: set aside, never lost, and back when they are wanted again."""

import json
import os
from pathlib import Path

import pytest

from tdjepa_workflow import leftovers, provenance

KEPT, GONE = "results/desk/train/lewm/a.json", "results/desk/train/rc_aux/a.json"
MINED = "data/desk/mined/rc_aux.json"
NOT_OURS = ("results/smoke/train/rc_aux/a.json", "paper/main.tex", "results/desk/../secret", "data/desk")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the results of two methods, and records that name files of other scales and other folders."""
    monkeypatch.chdir(tmp_path)
    known = {"data/desk": "bytes:0"}
    for path in (KEPT, GONE, MINED, *NOT_OURS[:3]):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text("made")
        known[path] = provenance.content(path)
    os.makedirs("results/desk/provenance")
    Path("results/desk/provenance/train.json").write_text(json.dumps([{"outputs": known, "record": {}}]))


def test_they_are_set_aside_and_come_back_as_they_were(project):
    made = os.stat(GONE).st_mtime_ns
    assert sorted(leftovers.set_aside({"train": [KEPT]}, "desk")) == [MINED, GONE]
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
        Path(path).write_text("mine")
    assert leftovers.set_aside({"train": [KEPT]}, "desk") == [MINED]
    leftovers.bring_back({"train": [KEPT, GONE]}, "desk")
    assert Path(GONE).read_text() == "mine"
