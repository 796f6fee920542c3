"""The same parameters give the same bytes: with four cores (the small run), with one, and under DVC with those there are.

Two of these runs are disturbed: whatever a person does meanwhile, what was started comes out as it was started.
"""

import contextlib
import os
import signal

import pytest

from clone import REPORT, Clone

pytestmark = pytest.mark.pipeline
LEWM = {f"{verb}_two_room_lewm_3072" for verb in ("train", "evaluate", "diagnose", "probe")}


def fresh(small_run: Clone, name: str) -> Clone:
    """The same project before anything was made."""
    clone = Clone.of_project(small_run.path.parent / name)
    (clone.path / "params.yaml").write_bytes((small_run.path / "params.yaml").read_bytes())
    ignored = clone.path / ".gitignore"
    ignored.write_text(ignored.read_text().replace("/results/smoke/\n", ""))  # as it is with the other scales
    clone.run("git", "init", "--quiet")
    return clone


def results(clone: Clone) -> dict[str, bytes]:
    """Everything that is made but the records of the managers, which name commands and cores."""
    return {name: content for name, content in clone.artefacts().items() if "/provenance/" not in name}


@contextlib.contextmanager
def started(clone: Clone, *command: str):
    """The command, at work: it has started its first job."""
    logs, said = clone.path / "results/smoke/logs", clone.path.parent / "said"
    with said.open("w") as out, clone.running(*command, until=lambda: list(logs.glob("*.log")), said=out) as run:
        run.said = said.read_text
        yield run


def same(clone: Clone, small_run: Clone) -> None:
    ours, theirs = results(clone), results(small_run)
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert len([name for name in ours if name.endswith(".parquet")]) >= 6


def test_hostile_names_ran_nothing_and_are_shown_as_they_are(small_run):
    assert not list(small_run.path.parent.rglob("owned"))
    page = (small_run.path / "results/smoke/page/index.html").read_text()
    assert "<script>alert" not in page
    assert "T&#39;D&#34;; touch owned" in page
    assert "<script>alert(1)" in (small_run.path / "results/smoke/rows/two_room/tdjepa_3072.card.json").read_text()


def test_one_core_and_parameters_that_change_meanwhile(small_run):
    clone = fresh(small_run, "one core")
    with started(clone, "snakemake", "--cores", "1", "all") as run:
        clone.change("scales.smoke.recipes", {"lewm": {"when": {"method": "lewm"}, "train": {"lr": 2e-3}}})
    assert run.returncode == 0, run.said()
    same(clone, small_run)
    assert clone.planned() == LEWM | REPORT | {"ladder_two_room"}  # its predictor has LeWM's recipe


def test_under_dvc_and_a_second_run_meanwhile(small_run):
    clone = fresh(small_run, "under dvc")
    with started(clone, "dvc", "repro") as run:
        os.killpg(run.pid, signal.SIGSTOP)  # so that the first cannot be between two stages
        said = clone.snakemake("all", status=1)
        os.killpg(run.pid, signal.SIGCONT)
        assert "Another run is alive in this folder: wait for it" in said
        assert "Directory cannot be locked" in said
    assert run.returncode == 0, run.said()
    same(clone, small_run)
    assert clone.planned() == set()
