"""What would run: the published scale with the profile of a cluster, and each diagnostic by its name."""

import re

import pytest

from clone import Clone

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return Clone.of_project(tmp_path_factory.mktemp("clone") / "a cluster's folder")


def test_the_paper_scale_is_planned_with_the_slurm_profile(clone):
    said = clone.run("snakemake", "-n", "--profile", "workflow/profiles/slurm", "all", "--config", "scale=paper")
    counts = {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE)}
    assert {counts[name] for name in ("fetch", "mine", "floors")} == {4}
    assert counts["ceiling"] == 1 + 1 + 10 + 12  # diagnose.ceiling_jobs
    assert "collect" not in counts  # the released files, not our own demonstrations
    assert counts["train"] == counts["evaluate"] == 60
    readme = (clone.path / "README.md").read_text()
    assert f"makes {counts['total'] - 1} jobs" in readme  # `all` itself is none


@pytest.mark.parametrize(
    ("target", "jobs"),
    [
        ("sweep_reacher_protocol_all scale=desk", {"sweep": 10, "train": 10, "judge": 0}),  # two methods
        ("sweep_gates_all scale=desk", {"sweep": 5, "train": 5, "judge": 0}),
        ("probe_all scale=desk", {"probe": 40, "train": 40, "evaluate": 0}),
        ("phases_all scale=smoke", {"judge": 1, "tables": 1, "figures": 0}),
        ("calibration_all scale=smoke", {"figures": 1, "tables": 0}),
    ],
)
def test_a_diagnostic_by_its_name_takes_its_own_jobs(clone, target, jobs):
    target, scale = target.split()
    said = clone.run("snakemake", "-n", target, "--config", scale)
    counts = {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE)}
    assert {name: counts.get(name, 0) for name in jobs} == jobs
