"""Looking damages nothing: in a clone where nothing was run, no verb changes a committed file."""

import shutil
import subprocess

import pytest

from clone import Clone
from conftest import ROOT
from synthetic import outcomes, random_outcomes, write
from tdjepa.cli import main
from tdjepa.cli.tools import VERBS
from tdjepa.config.load import load
from tdjepa.evidence import claims

LOOKS = ("claims", "summary", "status", "verify", "cost", "params", "doctor")  # write only where a destination is named
REFUSES = ("judge", "render", "page", "paper", "recipes")  # have nothing to work on
MORE = {  # what a verb cannot be called without
    "bench": ("sigreg", "--size", "desk"),  # refused: measuring takes long
    "export": ("--checkpoint", "absent.safetensors", "--out", "absent"),
    "import": ("--from", "absent", "--out", "absent.safetensors"),
    "pack": ("--out", "absent.h5"),
    "power": ("--simulations", "0"),  # refused: simulating takes long
    "coverage": ("--simulations", "0"),
    "mirror": ("--scale", "absent"),  # would write and serve files
    "collect": ("--slice", "{"),  # would make data, which is no look
    "fetch": ("--slice", "{"),
    "take": ("--slice", "{"),
    "release": ("--out", "absent.tar.zst"),
    "restore": ("--from", "absent.tar.zst"),
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    clone = Clone.of_project(tmp_path_factory.mktemp("fresh") / "clone")
    for part in ("evidence", "report"):  # what Git holds of the results
        shutil.copytree(ROOT / "results/desk" / part, clone.path / "results/desk" / part)
    write(
        rows := tmp_path_factory.mktemp("rows") / "rows.parquet", outcomes(random_outcomes(0, (2, 1, 6)), scale="desk")
    )
    judged = (clone.path / "paper/claims.yaml", [rows], [], clone.path / "results/desk/evidence")
    claims.run(*judged, load(ROOT / "params.yaml", "smoke").judge)
    clone.run("git", "init", "--quiet")
    clone.run("git", "add", "--all", "--force")
    clone.run("git", "commit", "--quiet", "--message", "as cloned")
    return clone


def test_every_verb_is_tried(clone):
    assert {*LOOKS, *REFUSES, *MORE} <= set(VERBS)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_in_a_fresh_clone_changes_nothing(clone, name, monkeypatch, capsys):
    monkeypatch.chdir(clone.path)
    monkeypatch.setenv("PYTHONPATH", clone.environment()["PYTHONPATH"])  # for the Snakemake that `status` asks
    status = main([name, *MORE.get(name, ())])
    said = capsys.readouterr()
    changed = subprocess.run(["git", "status", "--porcelain", "--ignored"], capture_output=True, text=True, check=True)
    left = [line for line in changed.stdout.splitlines() if "__pycache__" not in line and ".snakemake" not in line]
    assert not left, said
    if name in LOOKS and name != "verify":
        assert status in (0, 1), said.err
    else:
        assert status == 2, said.out
        assert said.err.count("\n") == 1, said.err
    if name == "verify":
        assert "nothing of scale desk was run here" in said.err.lower()


def test_claims_shows_what_is_stored(clone, monkeypatch, capsys):
    monkeypatch.chdir(clone.path)
    assert main(["claims"]) == 0
    assert "not run" not in capsys.readouterr().out.splitlines()[0]
