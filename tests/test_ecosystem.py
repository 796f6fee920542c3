"""What others' tools read: notebook, citation, container, GitHub's CI, Snakemake's catalog and report."""

import json
import re
import shutil
import tomllib
import zipfile

import nbformat
import pytest
import yaml

import tdjepa
from conftest import ROOT


def test_the_notebook_is_valid_and_committed_without_outputs():
    tour = nbformat.read(ROOT / "docs/tour.ipynb", 4)
    nbformat.validate(tour)
    assert not any(cell.outputs or cell.execution_count for cell in tour.cells if cell.cell_type == "code")


@pytest.mark.pipeline
def test_the_notebook_runs(small_run, tmp_path):
    """As one script, cell after cell: it has no magics, so a kernel and twenty packages around it would prove no more."""
    cells = json.loads((ROOT / "docs/tour.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "tour.py").write_text("\n\n".join(code))
    clone = type(small_run)(small_run.path)
    clone.settings = {"MPLBACKEND": "agg", "TDJEPA_SCALE": "smoke"}
    assert re.search(r"solved after \d+ steps with", clone.run("python", str(tmp_path / "tour.py")))


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == tdjepa.__version__
    assert cited["license"] == project["license"]


def test_the_dockerfile_follows_the_pins_and_the_usual_advice():
    """No linter for it could be had from pip, and there is no Docker here."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {word for word, _ in lines} <= {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "CMD"}
    of = {word: [rest for first, rest in lines if first == word] for word, _ in lines}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert of["FROM"] == [f"python:{re.match(r'>=([0-9.]+)', wanted)[1]}-slim-bookworm"]
    apt, pip = of["RUN"]
    assert "--no-install-recommends" in apt
    assert apt.endswith("rm -rf /var/lib/apt/lists/*")
    packages = set(apt.split("--no-install-recommends")[1].split("&&")[0].split())
    script = (ROOT / "workflow/system_packages.sh").read_text()
    named = re.findall(r'needed="(texlive[^"]*)"|(poppler-utils)"|optional="(libegl1[^"]*)"', script)
    assert {name for found in named for part in found for name in part.split()} <= packages
    assert "--no-cache-dir" in pip
    assert of["COPY"][0].split()[0] == "requirements.lock"
    assert json.loads(of["CMD"][0])[:3] == ["python", "-m", "tdjepa"]


def test_githubs_ci_calls_targets_that_there_are():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    called = [step["run"].split()[1] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"lint", "test", "reproduce", "snakemake-report"} == set(called) <= targets


def test_a_profile_switches_the_container_on():
    profile = yaml.safe_load((ROOT / "workflow/profiles/container/config.yaml").read_text())
    assert profile["software-deployment-method"] == "apptainer"
    catalog = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert catalog["software-stack-deployment"]["apptainer"]
    assert catalog["report"]


@pytest.mark.pipeline
def test_snakemakes_own_report_shows_tables_figures_and_rollouts(small_run, tmp_path):
    clone = small_run.copy(tmp_path / "run")
    clone.snakemake("pictures")
    clone.snakemake("all", "pictures", "--report", "report.zip")
    with zipfile.ZipFile(clone.path / "report.zip") as found:
        names = [name.rsplit("/", 1)[1] for name in found.namelist()]
        text = "".join(found.read(name).decode() for name in found.namelist() if name.endswith((".html", ".js")))
    assert {"main.md", "cost_matrix.png", "paper.pdf", "tdjepa_3072_landscape.png"} <= set(names)
    assert any(name.endswith(".gif") for name in names)
    assert "Real frames, the goal" in text
    shutil.rmtree(clone.path)


@pytest.mark.pipeline
def test_the_catalogs_snakefile_plans_the_same(small_run):
    assert "Nothing to be done" in small_run.snakemake("--snakefile", "workflow/Snakefile", "--dry-run", "all")
