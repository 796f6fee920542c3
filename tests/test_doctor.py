"""`tdjepa doctor`: each check tells a good machine from a bad one, and says what to do."""

import subprocess
import sys

import pytest

from conftest import ROOT
from tdjepa.cli import main
from tdjepa.config.load import load
from tdjepa.config.part import choose
from tdjepa.tools import cost, doctor
from tdjepa.tools.doctor import MISSING, OK, PROBLEM


def here(*names):
    return lambda name: f"/bin/{name}" if name in names else None


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "requirements.lock"
    path.write_text("numpy==2.1.0\ntorch==2.13.0\n# a comment\ntimm==1.0.30\n")
    return path


def test_pins_are_compared_without_the_build(lock, tmp_path):
    installed = {"numpy": "2.1.0", "torch": "2.13.0+cpu", "timm": "1.0.30"}
    assert doctor.packages(lock, installed.get) == doctor.Finding(OK, "3 pinned, all at their versions")
    wrong = doctor.packages(lock, {**installed, "numpy": "2.0.0", "timm": None}.get)
    assert wrong.state == PROBLEM
    assert "2 of 3 differ: numpy 2.0.0 (pinned 2.1.0), timm absent (pinned 1.0.30)" in wrong.found
    assert doctor.packages(tmp_path / "none", installed.get).state == MISSING


@pytest.mark.parametrize(
    ("torch", "torchvision", "requires", "state"),
    [
        ("2.13.0+cpu", "0.28.0+cpu", ["torch (==2.13.0)", "numpy"], OK),
        ("2.13.0+cpu", "0.28.0", ["torch==2.13.0"], OK),
        ("2.12.0", "0.28.0", ["torch==2.13.0"], PROBLEM),
        ("2.12.0", "0.28.0", ["torch (==2.13.0)"], PROBLEM),
        ("2.13.0", None, [], PROBLEM),
        (None, "0.28.0", ["torch==2.13.0"], PROBLEM),
    ],
)
def test_torchvision_must_be_built_for_this_torch(torch, torchvision, requires, state):
    assert doctor.torch_pair(torch, torchvision, requires).state == state


def test_what_is_missing_comes_with_what_to_install():
    assert doctor.python((3, 11, 9)).state == OK
    assert doctor.python((3, 12, 0)).state == PROBLEM
    assert doctor.opengl(lambda name: name == "libEGL.so.1", "linux").state == OK
    assert "libegl1" in doctor.opengl(lambda name: False, "linux").advice
    assert doctor.opengl(lambda name: False, "darwin").state == OK
    tex = here("latexmk", "pdflatex", "bibtex", "kpsewhich")
    assert doctor.latex(tex, list).state == OK
    half = doctor.latex(tex, lambda files: ["acmart.cls"])
    assert (half.state, "pgfplots.sty" in half.found, "texlive-science" in half.advice) == (MISSING, True, True)
    assert doctor.latex(here(), list).found.startswith("not found: latexmk")
    assert doctor.on_path("browser", here("google-chrome")).state == OK
    assert "chromium" in doctor.on_path("browser", here()).advice
    assert doctor.on_path("SLURM", here("sbatch", "squeue")).found == "not on PATH: sacct"
    assert doctor.on_path("programs", here("git", "make")).found == "not on PATH: snakemake, dvc"


def test_space_is_measured_against_the_scale():
    desk, paper = (load(ROOT / "params.yaml", scale) for scale in ("desk", "paper"))
    assert doctor.bytes_needed(desk) < 50e9 < doctor.bytes_needed(paper) < 250e9
    disks = [doctor.disk(60_000_000_000, doctor.bytes_needed(p), p) for p in (desk, paper)]
    assert [disk.state for disk in disks] == [OK, PROBLEM]
    assert "4 packed data sets of scale paper" in disks[1].found
    assert doctor.bytes_needed(choose(paper, {"envs": "two_room"})) < doctor.bytes_needed(paper) / 4
    assert [doctor.memory(size * 1_000_000_000).state for size in (2, 16)] == [PROBLEM, OK]
    assert [doctor.cores(8, threads).state for threads in "18"] == [OK, MISSING]


@pytest.mark.parametrize(
    ("found", "needed", "states"),
    [
        ([], False, {"GPU": MISSING}),
        ([], True, {"GPU": PROBLEM, "bf16": MISSING}),
        ([("A100", 8.0), ("H100", 9.0)], True, {"GPU": OK, "bf16": OK}),
        ([("V100", 7.0)], True, {"GPU": OK, "bf16": MISSING}),
    ],
)
def test_a_gpu_is_a_must_where_the_scale_wants_one(found, needed, states):
    assert {name: finding.state for name, finding in doctor.gpus(found, needed).items()} == states


def test_time_is_that_of_the_gpus_that_are_there(smoke, monkeypatch):
    monkeypatch.setattr(cost, "gpu_hours", lambda p: 240.0)
    one, eight = doctor.time(smoke, 1), doctor.time(smoke, 8)
    assert (one.state, eight.state) == (MISSING, OK)
    assert "240 GPU-hours assumed (`tdjepa cost`), 10.0 days on 1 GPU" in one.found


def test_it_says_everything_and_ends_with_one_when_there_is_a_problem(lock, capsys, monkeypatch):
    monkeypatch.setattr(doctor, "_version", {"numpy": "2.1.0", "torch": "2.13.0", "timm": "1.0.30"}.get)
    monkeypatch.chdir(lock.parent)
    assert main(["doctor", "--scale", "smoke", "--params", str(ROOT / "params.yaml")]) == 1  # without torchvision
    said = capsys.readouterr().out
    assert "PROBLEM  torchvision  torchvision is not installed" in said
    for name in ("python", "packages", "OpenGL", "LaTeX", "SLURM", "disk", "memory", "cores"):
        assert f" {name} " in said


def test_nothing_heavy_is_imported():
    heavy = ("torch", "numpy", "mujoco", "snakemake")
    code = f"import sys, tdjepa.tools.doctor, tdjepa.tools.status; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
