"""What a run says to a person before it begins, and what it refuses to begin."""

from types import SimpleNamespace

import pytest

from tdjepa.base.errors import UserError
from tdjepa_workflow import announce


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
    said = capsys.readouterr().err
    assert (
        said == "tdjepa: latexmk: not found; install LaTeX; or make all but the paper: snakemake render_all page_all\n"
    )


def test_a_changed_base_value_that_the_scale_overlays_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "params.yaml"
    for keep, said in ((True, False), (False, True), (True, True), (True, False)):  # a dry run does not count as a run
        file.write_text(f"train: {{lr: {1 if not file.exists() else 2}}}\nscales: {{desk: {{train: {{lr: 3}}}}}}\n")
        announce.shadowed("desk", keep)
        assert ("train.lr" in capsys.readouterr().err) == said
