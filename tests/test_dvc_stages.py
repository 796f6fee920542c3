"""dvc.yaml is generated, and each of its stages watches what its jobs depend on."""

import re

import yaml
from snakemake.persistence.file import FilePersistence

from conftest import ROOT
from tdjepa.config import runs, slices
from tdjepa.config.params import Params
from tdjepa.config.records.methods import Recipe, When
from tdjepa.steps.registry import SECTIONS, STEPS
from tdjepa_workflow import dvc, provenance
from tdjepa_workflow.files import Files
from tdjepa_workflow.sources import slice_of, sources


def dependence(p: Params) -> dict[str, list]:
    """Everything of the parameters that reaches the jobs of each phase: their slices and the names of their files."""
    each = {phase: list(paths) for phase, paths in Files(p).phases().items()}
    for name, step in STEPS.items():
        if step.phase and hasattr(slices, f"{step.slice or name}_slice"):
            kind = "envs" if name in ("collect", "fetch") else step.jobs  # whichever the source is
            each[step.phase] += [slice_of(p, name, job) for job in runs.jobs(p, kind)]
    with_groups = Files(p, list(p.groups))  # as if they had been run
    each["judge"] += [*with_groups.rows(), *with_groups.reported("pairs"), p.train_seeds[0]]
    return each


def changed(p: Params) -> dict[str, Params]:
    """The parameters with one section changed, in a value that matters to as many phases as any."""
    other = {
        "envs": (),
        "methods_run": p.methods_run[:1],
        "groups": {},
        "train_seeds": p.train_seeds[:1],
        "collect": p.collect.model_copy(update={"seed": 1}),
        "fetch": p.fetch.model_copy(update={"sha256": dict.fromkeys(p.envs, "0" * 64)}),
        "mine": p.mine.model_copy(update={"frameskip": 1, "goal_offset": 1}),
        "model": p.model.model_copy(update={"latent": 1}),
        "train": p.train.model_copy(update={"epochs": 1}),
        "runtime": p.runtime.model_copy(update={"snapshot_every": 1}),  # watched by nobody
        "recipes": {"mine": Recipe(when=When(method="lewm"), train={"lr": 1.0})},
        "methods": {name: method.model_copy(update={"label": "other"}) for name, method in p.methods.items()},
        "evaluate": p.evaluate.model_copy(update={"budget": 60, "sweeps": {}}),
        "diagnose": p.diagnose.model_copy(update={"probe_frames": 3, "ceiling_pairs": {}}),
        "judge": p.judge.model_copy(update={"seed": 1}),
        "render": p.render.model_copy(update={"digits": 3}),
    }
    return {section: p.model_copy(update={section: value}) for section, value in other.items()}


def test_committed_stages_are_the_generated_ones(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert (ROOT / "dvc.yaml").read_text() == dvc.text(), "run: python -m tdjepa_workflow.dvc"


def test_stages_watch_the_sections_that_their_jobs_depend_on(smoke):
    before = dependence(smoke)
    assert set(changed(smoke)) == set(Params.model_fields) - {"scale", "part"}  # the latter: no DVC stage runs a part
    for section, p in changed(smoke).items():
        after = dependence(p)
        for phase, sections in SECTIONS.items():
            assert (before[phase] != after[phase]) == (section in sections), f"{phase}: {section}"


def test_stages_watch_the_overlays_of_all_scales_that_others_are_like():
    scales = {"desk": {}, "smoke": {}, "quick": {"like": "desk"}, "quicker": {"like": "quick"}}
    assert dvc.watched("mine", scales) == ["envs", "mine", "scales.${item}", "scales.desk", "scales.quick", "overlays"]
    assert dvc.watched("paper", scales) == []


def test_only_environments_are_imported_by_name():
    """Other imports by name would hide a source file from the rules."""
    calls = [
        (path.relative_to(ROOT / "src/tdjepa").as_posix(), line)
        for path in ROOT.glob("src/tdjepa/**/*.py")
        for line in path.read_text().splitlines()
        if "import_module" in line and not re.search("mujoco|stable_worldmodel|torchvision", line)  # no sources of ours
    ]
    # the parts of the report are verbs of their own in sources.py; __init__.py is for Python users and no job's source
    known = {"envs/base.py", "cli/verbs.py", "cli/call.py", "report/gather.py", "__init__.py"}
    assert {name for name, _ in calls} <= known, calls


def test_sources_of_a_verb(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert "src/tdjepa/envs/two_room.py" in sources("collect", "two_room")
    assert "src/tdjepa/envs/two_room.py" not in sources("train", "two_room")
    assert "src/tdjepa/evidence/published.yaml" in sources("figures")
    assert "src/tdjepa/evidence/intervals.py" in sources("judge")
    page = {f"src/tdjepa/report/page/page.{kind}" for kind in ("html", "css", "js")}
    assert page <= set(sources("page"))
    assert not page & set(sources("numbers"))
    assert {"src/tdjepa/steps/train.py", "src/tdjepa/objective/sigreg.py"} <= set(sources("train"))
    assert not {path for path in sources("train") if "/cli/" in path or path.endswith("steps/evaluate.py")}
    assert "src/tdjepa/report/captions.yaml" in sources("tables")
    for verb in ("figures", "numbers", "judge", "claims"):
        assert not [path for path in sources(verb) if "caption" in path or "tables.py" in path]


def test_records_lie_where_snakemake_looks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snakemake = FilePersistence()
    for output in ("results/a b/ü.json", "long/" * 100 + "x"):
        for kind in ("metadata", "incomplete"):
            theirs = snakemake._record_path(str(tmp_path / ".snakemake" / kind), output)
            assert str(tmp_path / provenance._record_path(kind, output)) == theirs


def test_every_rule_has_an_expected_time():
    expected = yaml.safe_load((ROOT / "workflow/expected_seconds.yaml").read_text())
    rules = {"collect", "mine", "train", "evaluate", "sweep", "floors", "ceiling", "diagnose", "probe", "ladder"}
    rules |= {"judge", "claims", "tables", "figures", "numbers", "page", "paper"}
    machines = expected.pop("machines")
    assert set(machines) == set(expected)
    assert all(set(seconds) == rules for seconds in expected.values())
