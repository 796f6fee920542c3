"""The report: no number typed by hand, every macro and file there, a PDF from nothing, clear words when LaTeX fails."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from conftest import ROOT
from synthetic import everything, judged, results
from tdjepa.base.errors import UserError
from tdjepa.config.load import load
from tdjepa.config.records.base import ENVS
from tdjepa.report import gather, inputs, pdf
from tdjepa.tools import coverage

TEXT = (ROOT / "paper/main.tex").read_text()
ALGORITHMS = (ROOT / "paper/algorithms.tex").read_text()


@pytest.fixture(scope="module")
def p():
    desk = load(ROOT / "params.yaml", "desk")
    return desk.model_copy(update={"envs": ("two_room",), "methods_run": ("tdjepa", "lewm")})


@pytest.fixture(scope="module")
def empty(p, tmp_path_factory):
    out = tmp_path_factory.mktemp("empty") / "report"
    gather.render(inputs.read(p), out)
    return out


@pytest.fixture(scope="module")
def full(p, tmp_path_factory):
    """All four environments and all methods."""
    folder = tmp_path_factory.mktemp("full")
    files = results(folder, p)
    p = load(ROOT / "params.yaml", "desk").model_copy(update={"envs": ENVS})
    files["rows"], files["pairs"] = everything(folder, p)
    gather.render(judged(folder, p, **files), folder / "report")
    return folder / "report"


def typed_digits(text):
    """Digits in the prose: not in comments, the preamble, optional arguments, keys, file names or subscripts."""
    body = re.sub(r"(?<!\\)%.*", "", text.split(r"\begin{document}")[1])
    body = re.sub(r"\\(label|ref|cite|input|includegraphics|bibliography)(\[[^]]*\])?\{[^}]*\}", "", body)
    body = re.sub(r"\\\w+\[[^]]*\]", "", body)
    body = re.sub(r"(\\\w+)_\{?\d\}?", r"\1", body)  # $\ell_2$ is a name
    return re.findall(r"\S*\d\S*", body)


def test_no_number_is_typed_into_the_text():
    assert typed_digits(TEXT) == []
    assert r"\begin{tabular}" not in TEXT  # tables are only input
    assert typed_digits(r"\begin{document}" + ALGORITHMS) == ["z_{0},", r"(1-w)\,"]  # formulas, not results
    prose = r"\begin{document} success is 97.4 percent, $w = 0.3$ "  # which would be found
    named = r"\ref{tab:2} \includegraphics[width=0.5\linewidth]{figures/a1} $\ell_2$ % 3"
    assert typed_digits(prose + named) == ["97.4", "0.3$"]


def test_every_macro_table_figure_and_citation_exists(empty):
    own = set(re.findall(r"\\newcommand\{\\(\w+)\}", TEXT + (empty / "numbers.tex").read_text()))
    commands = {"Description", "Comment", "EndFor", "For", "Require", "Return", "State"}
    used = set(re.findall(r"\\([A-Z]\w+)", TEXT + ALGORITHMS)) - commands
    assert used <= own
    for kind, suffix in (("tables", "tex"), ("figures", "pdf")):
        for name in re.findall(rf"\{{({kind}/\w+)\}}", TEXT):
            assert (empty / f"{name}.{suffix}").exists()
    cited = {key for keys in re.findall(r"\\cite\{([^}]*)\}", TEXT) for key in keys.split(",")}
    known = set(re.findall(r"@\w+\{(\w+),", (ROOT / "paper/references.bib").read_text()))
    assert cited == known


def test_coverage_is_as_the_docs_say():
    """The table of docs/statistics.md is that of the committed simulation, and its sentence on desk's design holds."""
    found = pd.read_csv(ROOT / "docs/coverage.csv")
    assert coverage.shown(found, 200).to_markdown().strip() in (ROOT / "docs/statistics.md").read_text()
    desk = found.query("trainings == 5 and pairs == 200")["coverage"]
    assert 0.94 <= desk.min() <= desk.max() <= 0.98
    assert found["coverage"].min() > 0.91


def test_a_pdf_comes_from_nothing_in_a_folder_with_spaces_and_is_the_same_twice(empty, tmp_path):
    spaced = tmp_path / "a folder with spaces"
    shutil.copytree(ROOT / "paper", spaced / "my paper")
    shutil.copytree(empty, spaced / "my results")
    pdf.build(spaced / "my paper", spaced / "my results", spaced / "out/the paper.pdf")
    pdf.build(ROOT / "paper", empty, tmp_path / "again.pdf")
    assert (spaced / "out/the paper.pdf").read_bytes() == (tmp_path / "again.pdf").read_bytes()
    assert sorted(path.name for path in (spaced / "out").iterdir()) == ["the paper.pdf"]


def test_the_full_report_has_eight_pages_no_overfull_line_and_no_open_reference(full, tmp_path):
    pdf._copy_inputs(ROOT / "paper", full, tmp_path)
    pdf._latexmk(tmp_path)
    log = (tmp_path / "main.log").read_text(errors="replace")
    appendix = re.search(r"newlabel\{appendix\}\{\{A\}\{(\d+)\}", (tmp_path / "main.aux").read_text())
    assert int(appendix[1]) <= 9  # it starts on a page of its own
    assert int(re.search(r"Output written on main\.pdf \((\d+) pages", log)[1]) <= 11
    assert re.findall(r"^Overfull.*|.*undefined.*", log, re.MULTILINE) == []


def test_a_latex_error_is_told_in_one_line_with_the_log(empty, tmp_path):
    broken = tmp_path / "paper"
    shutil.copytree(ROOT / "paper", broken)
    (broken / "main.tex").write_text(TEXT.replace(r"\maketitle", r"\maketitle \NoSuchMacro"))
    with pytest.raises(UserError, match=r"LaTeX failed: .*main\.tex:\d+: Undefined control sequence") as error:
        pdf.build(broken, empty, tmp_path / "out.pdf")
    log = Path(re.search(r"\(log: (.*)\)", str(error.value))[1])
    assert "NoSuchMacro" in log.read_text()
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out.pdf").exists()


def test_missing_inputs_and_missing_latex_are_named(empty, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"numbers\.tex: no such file; run `tdjepa render` first"):
        pdf.build(ROOT / "paper", tmp_path, tmp_path / "out.pdf")
    with pytest.raises(UserError, match=r"main\.tex: no such file"):
        pdf.build(tmp_path, empty, tmp_path / "out.pdf")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(UserError, match="latexmk: not found.*apt-get install texlive-publishers.* latexmk"):
            pdf.require_latex()
    monkeypatch.setattr(pdf.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess([], 1, stdout="", stderr=""))
    with pytest.raises(UserError, match="acmart.cls: not found.*texlive-publishers"):
        pdf.require_latex()
