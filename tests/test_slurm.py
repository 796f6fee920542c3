"""The smoke DAG on a SLURM of one node: what is killed goes on, and the results are those of a run without a cluster."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

import cluster
from clone import REPORT, Clone

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.skipif(bool(cluster.missing()), reason="no SLURM: workflow/system_packages.sh slurm"),
]

PROFILE = "SNAKEMAKE_PROFILE=workflow/profiles/ci"
TRAINING = "results/smoke/train/two_room/lewm/3072"
LOG = "results/smoke/logs/train_two_room_lewm_3072.log"


def reduce_further(clone: Clone) -> None:
    clone.change("scales.smoke.methods_run", ["tdjepa", "lewm"])
    clone.change("scales.smoke.train_seeds", [3072])


@pytest.fixture(scope="module")
def slurm():
    with cluster.Cluster() as running:
        yield running


@pytest.fixture(scope="module")
def local(first_run, folder):
    """The results of the same parameters from this machine: two cores up to the rows, one core after them."""
    clone = first_run[0].copy(folder / "without a cluster")
    reduce_further(clone)
    clone.run("git", "update-ref", "-d", "HEAD")  # the report names the commit of the ledger; the other folder has none
    with clone.executed() as jobs:
        clone.run("snakemake", "--cores", "1", "all")
    assert jobs == REPORT
    return clone


@pytest.fixture(scope="module")
def tools():
    """A folder for PATH with this Python's `python` and `snakemake` under names without spaces: SLURM's jobs start no others."""
    with tempfile.TemporaryDirectory(prefix="tools-") as folder:
        environment = Path(folder, "environment")
        environment.symlink_to(Path(sys.executable).parent.parent)
        for name, command in (("python", ""), ("snakemake", "-m snakemake"), ("dvc", "-m dvc")):
            script = Path(folder, name)
            script.write_text(f'#!/bin/sh\nexec {environment}/bin/python {command} "$@"\n')
            script.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def clone(folder, slurm, tools):
    clone = Clone.of_project(folder / "cluster")
    clone.reduce_smoke()
    reduce_further(clone)
    clone.run("git", "init", "--quiet")
    clone.settings = slurm.environment | {"PATH": f"{tools}{os.pathsep}{slurm.environment['PATH']}"}
    return clone


@pytest.fixture
def coordinator(clone):
    """A function that starts one; none outlives the test."""
    started = []

    def start() -> subprocess.Popen:
        said = (clone.path / "coordinator.log").open("a")
        command = ["env", PROFILE, "snakemake", "all"]
        started.append(subprocess.Popen(command, cwd=clone.path, env=clone.environment(), stdout=said, stderr=said))
        return started[-1]

    yield start
    for run in started:
        kill(run)


def running(slurm: cluster.Cluster) -> list[str]:
    return [job for job, state in slurm.jobs().items() if state == "RUNNING"]


def kill(run: subprocess.Popen) -> None:
    run.kill()
    run.wait(60)


def training_process(clone: Clone) -> psutil.Process | None:
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or [""]
        if "python" in words[0] and TRAINING in words and process.info["cwd"] == str(clone.path):
            return process
    return None


def test_killed_jobs_and_coordinators(clone, slurm, coordinator, local):
    # The coordinator dies; the job that it had submitted outlives it, and what that makes is kept.
    run = coordinator()
    slurm.wait(lambda: running(slurm), "collect")
    kill(run)
    slurm.wait(lambda: list(slurm.jobs().values()) == ["COMPLETED"], "the job without a coordinator")
    with clone.executed() as jobs:
        # A training is cancelled (SIGTERM and some seconds, as at its time limit): it saves itself and is submitted again.
        run = coordinator()
        process = slurm.wait(lambda: training_process(clone), "the training")
        job = process.environ()["SLURM_JOB_ID"]
        first = clone.path / TRAINING / ".running/epoch_01.safetensors"
        slurm.wait(lambda: first.exists() or not process.is_running(), "its first epoch", pause=0.005)
        process.suspend()  # until the signal is there; it comes with a SIGCONT
        slurm.run("scancel", job)
        slurm.wait(lambda: "stopped by SIGTERM after step" in (clone.path / LOG).read_text(), "the saved training")
        slurm.wait(lambda: "Trying to restart job" in (clone.path / "coordinator.log").read_text(), "the second try")
        slurm.wait(lambda: running(slurm), "the second try")
        # The coordinator dies, and the next one comes while jobs of the first are there.
        kill(run)
        said = clone.run("env", PROFILE, "snakemake", "all")
        assert "An earlier run was killed; SLURM still has" in said
        assert " for the cluster" in said
    assert "CANCELLED" in slurm.jobs().values()
    assert not running(slurm)
    assert "collect_two_room" not in jobs
    assert {"mine_two_room", "floors_two_room", "train_two_room_lewm_3072", "diagnose_two_room_tdjepa_3072"} <= jobs
    assert clone.planned() == set()
    assert_equal(clone, local)


def test_dvc_repro(clone, local):
    """The same stages and commands as on one machine; what is missing is made again by jobs of SLURM, to the same bytes."""
    for path in [*(clone.path / TRAINING).iterdir(), clone.path / "results/smoke/evidence/stats.json"]:
        path.unlink()
    with clone.executed() as jobs:
        clone.run("env", PROFILE, "dvc", "repro")
    assert jobs == {"train_two_room_lewm_3072", "judge"}
    assert_equal(clone, local)
    assert clone.planned() == set()
    assert "Data and pipelines are up to date." in clone.dvc("status")


def test_one_method_of_the_rehearsal(slurm, tools, folder):
    """The paper's scale in small, from a file of the released layout to the PDF."""
    clone = Clone.of_project(folder / "rehearsal")
    clone.reduce_rehearsal(["push_t"], ["lewm"])
    clone.settings = slurm.environment | {"PATH": f"{tools}{os.pathsep}{slurm.environment['PATH']}"}
    before = len(slurm.jobs())
    clone.rehearse("env", PROFILE, "snakemake", "all")
    assert len(slurm.jobs()) > before
    assert (clone.path / "results/rehearsal/paper.pdf").exists()


def test_a_job_is_tried_again_by_the_coordinator_alone_and_with_more_memory(clone, slurm):
    """`retries` of the profile does not count inside a submission too: three attempts, each a job of its own."""
    said, before = clone.path / "attempts", len(slurm.jobs())
    step = clone.path / "src/tdjepa/steps/collect.py"
    text = step.read_text()
    step.write_text(
        text
        + """
import os


def run(cfg, out):
    with open("attempts", "a") as f:
        print(os.environ["SLURM_JOB_ID"], file=f)
    raise SystemExit(1)
"""
    )
    grows = "collect:mem_mb=500 * attempt"
    clone.run("env", PROFILE, "snakemake", "collect_all", "--set-resources", grows, status=1)
    step.write_text(text)
    attempts = said.read_text().split()
    memory = dict(map(str.split, slurm.run("squeue", "--noheader", "--states=all", "--format=%i %m").splitlines()))
    assert [memory[job] for job in attempts] == ["500M", "1000M", "1500M"]
    assert len(slurm.jobs()) - before == 3


def assert_equal(clone: Clone, local: Clone) -> None:
    """Byte for byte; the other folder also holds trainings that are none of these parameters."""
    ours, theirs = ({n: c for n, c in each.artefacts().items() if "/provenance/" not in n} for each in (clone, local))
    assert {name for name in ours if ours[name] != theirs.get(name)} == set()
    made = ("evidence", "report", "page", "paper.pdf", "rows", "train", "diagnostics")
    assert {name.split("/")[2] for name in ours if name.startswith("results/")} >= set(made)
    for path in (clone.path / "results/smoke/provenance").iterdir():  # the records too, so that they can move house
        records = json.loads((local.path / "results/smoke/provenance" / path.name).read_text())
        assert all(job in records for job in json.loads(path.read_text())), path.name
