"""The repository itself: pins, names that two places must agree on, numbers in the README that the pipeline made."""

import json
import re
import shutil
import subprocess

import pytest
import yte

from conftest import ROOT
from tdjepa_workflow import site


def committed(name: str) -> str:
    return subprocess.check_output(["git", "show", f"HEAD:{name}"], cwd=ROOT, text=True)


def test_every_dependency_is_pinned_exactly():
    lock = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._]+", line) for line in lock), lock
    assert {"torch==2.13.0", "mujoco==3.17.0", "stable-worldmodel==0.1.1"} <= set(lock)


@pytest.mark.parametrize(("mark", "name"), [("summary", "summary.md"), ("claims", "verdicts.md")])
def test_the_readme_shows_the_pipelines_own_tables(mark, name):
    """As committed: somebody's own run of the desk scale may differ in the last digit without breaking the README."""
    known = subprocess.check_output(["git", "ls-files", "results/desk/report"], cwd=ROOT, text=True).split()
    made = committed(made).strip() if (made := f"results/desk/report/{name}") in known else ""
    shown = re.search(rf"<!-- {mark}:desk -->\n(.*?)\n?<!-- /{mark}:desk -->", committed("README.md"), re.DOTALL)
    assert shown[1].strip() == made, "run: tdjepa summary --scale desk --readme README.md, and commit both"


def test_the_committed_results_are_within_the_committed_bands(tmp_path):
    """As committed, too."""
    from tdjepa.evidence import bands

    (tmp_path / "bands.yaml").write_text(committed("workflow/bands/desk.yaml"))
    stats = json.loads(committed("results/desk/evidence/stats.json"))
    assert {result for result, *_ in bands.verify(stats, bands.read(tmp_path / "bands.yaml"))} == {"pass"}


def test_no_machine_paths_in_tracked_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    kinds = (".py", ".smk", ".md", ".yaml", ".toml", ".sh", ".tex", "Makefile")
    texts = [name for name in listed if name.endswith(kinds)]
    pattern = re.compile(r"/(root|home|opt)/\w|\bpypi\.org\b|files\.pythonhosted")
    found = [name for name in texts if name != "tests/test_project.py" and pattern.search((ROOT / name).read_text())]
    assert not found


def test_cluster_profiles_name_rules_that_exist():
    texts = [path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk")]
    rules = {name for text in texts for name in re.findall(r"^rule (\w+):", text, re.MULTILINE)}
    for name in ("slurm", "ci"):
        profile = slurm_profile(name)
        for key in ("groups", "set-resources", "set-threads"):
            assert set(profile.get(key, {})) <= rules, (name, key)
        assert set(profile["group-components"]) <= set(profile["groups"].values())


def slurm_profile(name: str = "slurm") -> dict:
    """As Snakemake reads it."""
    return yte.process_yaml((ROOT / f"workflow/profiles/{name}/config.yaml").read_text(), require_use_yte=True)


@pytest.mark.parametrize(
    ("own", "found"),
    [
        (None, {"cpu_partition": "cpu", "account": None}),
        ("", {"cpu_partition": "cpu"}),
        ("account: me\ngpu_model: a100\n", {"account": "me", "gpu_model": "a100", "gpu_partition": "gpu"}),
        ("partition: long\n", "'partition' must be one of account, .*; did you mean 'gpu_partition'"),
        ("- account\n", "words with their values are expected"),
    ],
)
def test_a_cluster_has_settings_of_its_own(tmp_path, own, found):
    shutil.copy(ROOT / "workflow/profiles/slurm/site.example.yaml", tmp_path)
    if own is not None:
        (tmp_path / "site.yaml").write_text(own)
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            site.read(tmp_path)
    else:
        assert site.read(tmp_path).items() >= found.items()


def test_the_settings_of_a_cluster_reach_its_profile(monkeypatch):
    own = site.read() | {
        "account": "me",
        "gpu_partition": "fast",
        "gpu_model": "a100",
        "gpu_minutes": 600,
        "qos": "low",
    }
    monkeypatch.setattr(site, "read", lambda: own)
    profile = slurm_profile()
    assert (profile["default-resources"]["slurm_account"], profile["slurm-qos"]) == ("me", "low")
    train = profile["set-resources"]["train"]
    assert [train[key] for key in ("slurm_partition", "gpu_model", "runtime")] == ["fast", "a100", "600 * attempt"]


def test_the_cluster_profile_asks_for_what_the_jobs_need():
    profile = slurm_profile()
    usual, special = profile["default-resources"], profile["set-resources"]
    assert usual["slurm_partition"] == "cpu"
    on_gpu = {rule for rule, resources in special.items() if resources.get("slurm_partition") == "gpu"}
    rules = (ROOT / "workflow/rules").glob("*.smk")
    texts = [text for path in rules for text in path.read_text().split("\n\n\n")]
    with_gpu = {text.split("rule ")[1].split(":")[0] for text in texts if "gpu=P.runtime.gpu" in text}
    assert on_gpu == with_gpu == {"train", "evaluate", "sweep"}
    assert not any("gres" in resources for resources in special.values())  # the plugin refuses both
    sizes = [r[key] for r in (usual, *special.values()) for key in ("mem_mb", "runtime") if key in r]
    assert all(re.fullmatch(r"\d+ \* attempt", size) for size in sizes)  # more at the next attempt
    assert profile["retries"] > 0
    assert not on_gpu & set(profile["groups"])  # only small jobs share an allocation
