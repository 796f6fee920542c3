"""What a run says to a person before it begins, and what it refuses to begin."""

from types import SimpleNamespace

import pytest
import yaml

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.yaml_file import read_yaml
from tdjepa_workflow import announce

ONE_CORE = SimpleNamespace(cores=1)


def workflow(*rules, unlocked=lambda: None):
    jobs = [SimpleNamespace(rule=SimpleNamespace(name=name, norun=False)) for name in rules]
    dag = SimpleNamespace(needrun_jobs=lambda: jobs)
    return SimpleNamespace(dag=dag, local_exec=True, persistence=SimpleNamespace(unlock=unlocked))


def test_without_latex_no_run_that_would_make_the_paper_begins(smoke, monkeypatch, capsys):
    def missing():
        raise UserError("latexmk: not found; install LaTeX")

    def end(status):
        raise SystemExit(status)

    unlocked = []
    monkeypatch.setattr(announce, "require_latex", missing)
    monkeypatch.setattr(announce.os, "_exit", end)
    with pytest.raises(SystemExit, match="2"):
        announce.start(smoke, workflow("train", "paper", unlocked=lambda: unlocked.append(True)))
    assert unlocked
    instead = "; or make all but the paper: snakemake render_all page_all\n"
    assert capsys.readouterr().err == f"tdjepa: latexmk: not found; install LaTeX{instead}"


def test_a_changed_base_value_that_the_scale_overlays_is_named(smoke, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    raw = read_yaml(ROOT / "params.yaml")
    for pairs, run, said in ((1, True, False), (2, False, True), (2, True, True), (2, False, False)):
        raw["mine"]["pairs"] = pairs
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(raw))
        announce.shadowed("smoke")  # at every start, until jobs were run with it
        assert ("tdjepa: mine.pairs changed in the base from 1 to 2" in capsys.readouterr().err) == said
        if run:
            announce.start(smoke, SimpleNamespace(**vars(workflow()), basedir=ROOT, resource_settings=ONE_CORE))
            capsys.readouterr()
