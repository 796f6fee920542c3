"""The checksums of one run: its own files pass, others are named, with what may explain them."""

import json
import os
import shutil

import pytest

from clone import Clone
from conftest import ROOT
from tdjepa.base.artefacts import fingerprint
from tdjepa.cli import main
from tdjepa.evidence.checksums import code, found


def test_checksums_hold_their_own_files_and_name_others(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    rows = tmp_path / "results/smoke/rows/two_room/tdjepa_3072.parquet"
    rows.parent.mkdir(parents=True)
    assert main(["verify", "--scale", "smoke", "--bytes", "--write"]) == 2
    assert "there are no results of scale smoke" in capsys.readouterr().err
    rows.write_bytes(b"rows")
    rows.with_suffix(".card.json").write_text("{}")  # it has a date
    assert main(["verify", "--scale", "smoke", "--bytes"]) == 2
    assert "no checksums are committed for this scale" in capsys.readouterr().err
    assert main(["verify", "--scale", "smoke", "--bytes", "--write"]) == 0
    capsys.readouterr()
    assert main(["verify", "--scale", "smoke", "--bytes"]) == 0
    assert capsys.readouterr().out == "1 of 1 files equal, byte for byte\n"
    rows.write_bytes(b"Rows")
    assert main(["verify", "--scale", "smoke", "--bytes"]) == 1
    said = ["differs    results/smoke/rows/two_room/tdjepa_3072.parquet", "0 of 1 files equal, byte for byte"]
    assert capsys.readouterr().out.splitlines() == said
    (tmp_path / "params.yaml").write_text((tmp_path / "params.yaml").read_text() + "\n# other\n")
    rows.unlink()
    assert main(["verify", "--scale", "smoke", "--bytes"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "not there  results/smoke/rows/two_room/tdjepa_3072.parquet",
        "code or params.yaml are not those of the list: files may differ",
    ]


@pytest.mark.parametrize("text", ["[]", "7", "{}", '{"machine": "x", "code": "y", "files": ["z"]}'])
def test_a_list_of_another_shape_is_refused(text, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workflow/checksums").mkdir(parents=True)
    (tmp_path / "workflow/checksums/smoke.json").write_text(text)
    assert main(["verify", "--params", str(ROOT / "params.yaml"), "--scale", "smoke", "--bytes"]) == 2
    assert "smoke.json: no list of checksums, which has machine, code, files; `tdjepa" in capsys.readouterr().err


@pytest.mark.skipif("TDJEPA_NO_SKIPS" not in os.environ, reason="while code changes, the published list is behind")
def test_the_committed_list_is_of_this_code():
    committed = json.loads((ROOT / "workflow/checksums/smoke.json").read_text())
    wanted = "make reproduce SCALE=smoke; tdjepa verify --scale smoke --bytes --write"
    assert committed["code"] == code(ROOT / "params.yaml"), wanted


@pytest.mark.pipeline
def test_a_fresh_clone_makes_the_committed_files(tmp_path):
    """The smoke scale as it is shipped, all methods and seeds. On the kind of machine that made the list: to the byte."""
    clone = Clone.of_project(tmp_path / "a fresh clone")
    clone.run("git", "init", "--quiet")
    clone.snakemake("all", "--config", "scale=smoke")
    committed, made = json.loads((ROOT / "workflow/checksums/smoke.json").read_text()), found("smoke", clone.path)
    assert set(made) == set(committed["files"])
    if (committed["machine"], committed["code"]) == (fingerprint(), code(ROOT / "params.yaml")):
        assert [name for name in made if made[name] != committed["files"][name]] == []
