"""The repository itself: pins, names that two places must agree on, numbers in the README that the pipeline made."""

import json
import re
import subprocess

import pytest
import yaml

from conftest import ROOT


def committed(name: str) -> str:
    return subprocess.check_output(["git", "show", f"HEAD:{name}"], cwd=ROOT, text=True)


def test_every_dependency_is_pinned_exactly():
    lock = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._]+", line) for line in lock), lock
    assert {"torch==2.13.0", "mujoco==3.17.0", "stable-worldmodel==0.1.1"} <= set(lock)


@pytest.mark.parametrize(("mark", "name"), [("summary", "summary.md"), ("claims", "verdicts.md")])
def test_the_readme_shows_the_pipelines_own_tables(mark, name):
    """As committed: somebody's own run of the desk scale may differ in the last digit without breaking the README."""
    made = committed(f"results/desk/report/{name}").strip()
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
        profile = yaml.safe_load((ROOT / f"workflow/profiles/{name}/config.yaml").read_text())
        for key in ("groups", "set-resources", "set-threads"):
            assert set(profile.get(key, {})) <= rules, (name, key)
        assert set(profile["group-components"]) <= set(profile["groups"].values())


def test_the_cluster_profile_asks_for_what_the_jobs_need():
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    usual, special = profile["default-resources"], profile["set-resources"]
    assert usual["slurm_partition"] == "cpu"
    on_gpu = {rule for rule, resources in special.items() if resources.get("slurm_partition") == "gpu"}
    with_gpu = {rule for rule, resources in special.items() if "gres" in resources}
    assert on_gpu == with_gpu == {"train", "evaluate", "sweep"}
    sizes = [r[key] for r in (usual, *special.values()) for key in ("mem_mb", "runtime") if key in r]
    assert all(re.fullmatch(r"\d+ \* attempt", size) for size in sizes)  # more at the next attempt
    assert profile["retries"] > 0
    assert not on_gpu & set(profile["groups"])  # only small jobs share an allocation
