"""`tdjepa status`, on a small workflow that real Snakemake runs: one job done, one failed, one waiting."""

import fcntl
import json
import subprocess
import sys
from datetime import datetime

import pytest

from tdjepa.base.errors import UserError
from tdjepa.tools import status

SNAKEFILE = """
rule all:
    input: "results/smoke/judged"

rule collect:
    output: "results/smoke/data"
    log: "results/smoke/logs/collect_two_room.log"
    message: "collect two_room"
    shell: "echo fine >{log}; touch {output}"

rule train:
    input: "results/smoke/data"
    output: "results/smoke/model"
    log: "results/smoke/logs/train_two_room_lewm_1.log"
    message: "train two_room lewm 1"
    shell: "echo 'tdjepa: the loss is not finite' >{log}; exit 1"

rule judge:
    input: "results/smoke/model"
    output: "results/smoke/judged"
    message: "judge"
    shell: "touch {output}"
"""
LIVE = """\
Provided cores: 4
Job stats:
job         count
--------  -------
collect         1
train           3
all             1
total           5

[Mon Nov 16 07:58:05 2026]
Job 1: collect two_room
[Mon Nov 16 07:58:15 2026]
Finished jobid: 1 (Rule: collect)
[Mon Nov  2 07:58:16 2026]
Job 7: train two_room lewm 3073
Job 8: train two_room lewm 3074
[Mon Nov  2 07:59:16 2026]
Error in rule train:
    message: train two_room lewm 3073
    jobid: 7
    input: x
Trying to restart job 7.
[Mon Nov  2 07:59:17 2026]
Job 7: train two_room lewm 3073
[Mon Nov  2 07:59:18 2026]
Error in rule train:
    jobid: 8
"""

GROUP = """\
Provided remote nodes: 100
[Mon Nov 16 13:08:31 2026] Group job probe (jobs in lexicogr. order):

    [Mon Nov 16 13:08:31 2026]
    Job 8: diagnose two_room lewm 3072
    [Mon Nov 16 13:08:31 2026]
    Job 9: floors two_room
[Mon Nov 16 13:09:31 2026]
Finished jobid: 9 (Rule: floors)
"""


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a project")
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "workflow").mkdir()
    (folder / "workflow/expected_seconds.yaml").write_text("smoke: {collect: 1, train: 200, judge: 100}\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 1
    jobs = [{"outputs": {"results/smoke/data": "x"}, "record": {"log": ["results/smoke/logs/collect_two_room.log"]}}]
    jobs += [{"outputs": {"results/smoke/gone": "x"}, "record": {"log": ["results/smoke/logs/mine_two_room.log"]}}]
    (folder / "results/smoke/provenance").mkdir()
    (folder / "results/smoke/provenance/collect.json").write_text(json.dumps(jobs))
    return folder


def lines(text):
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}


def test_after_a_failed_run(failed_run, smoke, monkeypatch, capsys):
    monkeypatch.chdir(failed_run)
    status.run(smoke)
    said = capsys.readouterr().out
    table = lines(said)
    assert "scale smoke: no run is alive" in said
    assert table["done"] == ["failed", "to", "do"]
    assert table["collect"] == ["1", ".", "."]
    assert table["train"] == [".", "1", "."]
    assert table["judge"] == [".", ".", "1"]
    assert "mine" not in table  # its output is gone, and Snakemake does not miss it
    log = "results/smoke/logs/train_two_room_lewm_1.log"
    assert f"failed   train_two_room_lewm_1: tdjepa: the loss is not finite ({log})" in said
    assert "left     2 jobs, about 5 min on " in said


def test_while_a_run_is_alive_its_log_is_read_and_nothing_started(failed_run, smoke, monkeypatch, capsys, tmp_path):
    (tmp_path / "Snakefile").write_text("no workflow")
    (tmp_path / ".snakemake/log").mkdir(parents=True)
    (tmp_path / ".snakemake/log/2026.snakemake.log").write_text(LIVE)
    monkeypatch.chdir(tmp_path)
    with open(".snakemake/alive", "w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        status.run(smoke)
    said = capsys.readouterr().out
    assert "scale smoke: a run is alive" in said
    assert lines(said)["train"] == [".", "1", "1", "1"]
    assert "running  train_two_room_lewm_3073, for " in said
    assert "left     2 jobs on 4 cores, no measured time for this scale yet" in said
    assert not status.alive()


def test_a_log_is_understood():
    run = status.parse_log(LIVE)
    assert (run.cores, run.planned) == (4, {"collect": 1, "train": 3})
    assert run.started["7"] == ("train_two_room_lewm_3073", datetime(2026, 11, 2, 7, 59, 17))
    assert (run.finished, run.failed, run.running) == ({"1"}, {"8"}, {"7"})


def test_grouped_jobs_of_a_cluster_are_understood():
    run = status.parse_log(GROUP)
    assert run.cores == 100
    assert run.started["8"] == ("diagnose_two_room_lewm_3072", datetime(2026, 11, 16, 13, 8, 31))
    assert (run.finished, run.running) == ({"9"}, {"8"})


LINT = "Building DAG of jobs...\n"  # as a lint or a graph leaves it
REFUSED = "Assuming unrestricted shared filesystem usage.\nBuilding DAG of jobs...\nLockException:\n"


def test_logs_that_are_of_no_run_are_passed_over(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / ".snakemake/log"
    logs.mkdir(parents=True)
    assert status.last_run() == status.Run()
    for hour, text in enumerate((GROUP, LIVE, REFUSED, LINT)):
        (logs / f"2026-11-17T0{hour}.snakemake.log").write_text(text)
    assert status.last_run() == status.parse_log(LIVE)
    (logs / "2026-11-17T01.snakemake.log").unlink()
    assert status.last_run() == status.parse_log(GROUP)


@pytest.mark.parametrize(
    "text", ["", "[{", "7", "null", "[7]", '[{"outputs": {}}]', '[{"outputs": [], "record": {"log": 7}}]']
)
def test_a_damaged_record_hides_no_other(text, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    records = tmp_path / "results/smoke/provenance"
    records.mkdir(parents=True)
    (records / "collect.json").write_text(text)
    whole = [{"outputs": {"results": "x"}, "record": {"log": ["logs/mine_two_room.log"]}}]
    (records / "mine.json").write_text(json.dumps(whole))
    assert status.done("smoke") == {"mine_two_room"}


def test_times_measured_here_come_before_expected_ones(failed_run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/smoke/benchmarks").mkdir(parents=True)
    for seed, seconds in (("1", "10.0"), ("2", "20.0")):
        (tmp_path / f"results/smoke/benchmarks/train_two_room_lewm_{seed}.tsv").write_text(f"s\tx\n{seconds}\t0\n")
    assert status.expected_seconds("smoke") == {"train": 15.0}
    monkeypatch.chdir(failed_run)
    assert status.expected_seconds("smoke")["train"] == 200
    assert status.expected_text(["train", "train"], 1, {"train": 15.0}) == "about 30 s"
    assert status.expected_text(["train", "judge"], 1, {"train": 15.0}) == "no measured time for this scale yet"


def test_outside_the_project_it_says_so(smoke, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="Snakefile: not here"):
        status.run(smoke)
    (tmp_path / "Snakefile").write_text("rule: nonsense(")
    with pytest.raises(UserError, match="snakemake --dry-run failed: "):
        status.run(smoke)
