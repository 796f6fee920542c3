"""The published scale is planned with the profile of a cluster, as far as that goes without one."""

import re

import pytest

from clone import Clone


@pytest.mark.pipeline
def test_the_paper_scale_is_planned_with_the_slurm_profile(tmp_path):
    clone = Clone.of_project(tmp_path / "a cluster's folder")
    said = clone.run("snakemake", "-n", "--profile", "workflow/profiles/slurm", "all", "--config", "scale=paper")
    counts = {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE)}
    assert {name: counts[name] for name in ("fetch", "mine", "floors", "ceiling")} == dict.fromkeys(
        ("fetch", "mine", "floors", "ceiling"), 4
    )
    assert "collect" not in counts  # the released files, not our own demonstrations
    assert counts["train"] == counts["evaluate"] == 96
    readme = (clone.path / "README.md").read_text()
    assert f"makes {counts['total'] - 1} jobs" in readme  # `all` itself is none
