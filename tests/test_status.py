"""`tdjepa status`, on a small workflow that real Snakemake runs: one job done, one failed, one waiting."""

import fcntl
import json
import os
import subprocess
import sys
from logging import makeLogRecord
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_tdjepa import LogHandler, LogHandlerSettings
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
NOW = 1_800_000_000.0


def job(number, name):
    return {"event": "started", "id": number, "rule": name.split("_")[0], "job": name, "time": NOW}


LIVE = [
    {"event": "run", "cores": 4},
    {"event": "plan", "jobs": {"collect": 1, "train": 3}},
    job(1, "collect_two_room"),
    {"event": "finished", "id": 1},
    job(7, "train_two_room_lewm_3073"),
    job(8, "train_two_room_lewm_3074"),
    {"event": "failed", "id": 7},
    job(7, "train_two_room_lewm_3073"),  # again
    {"event": "failed", "id": 8},
]


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a project")
    (folder / "Snakefile").write_text(SNAKEFILE)
    (folder / "workflow").mkdir()
    (folder / "workflow/expected_seconds.yaml").write_text("smoke: {collect: 1, train: 200, judge: 100}\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--logger", "tdjepa"]
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


def test_snakemake_finds_the_plugin_where_make_setup_installs_it():
    code = "from snakemake.logging import LoggerPluginRegistry; print(LoggerPluginRegistry().is_installed('tdjepa'))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "True\n"


def test_a_run_writes_its_events(failed_run):
    (file,) = (failed_run / ".snakemake/tdjepa").glob("*.jsonl")  # the dry run of `status` writes none
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [event["event"] for event in events] == ["run", "plan", "started", "finished", "started", "failed"]
    assert events[0]["cores"] == 1
    assert events[1]["jobs"] == {"collect": 1, "train": 1, "judge": 1}
    train = {"rule": "train", "job": "train_two_room_lewm_1", "threads": 1, "wildcards": {}}
    assert events[4].items() >= train.items()
    assert events[4]["id"] == events[5]["id"]
    assert events[4]["time"] <= events[5]["time"]


def test_while_a_run_is_alive_its_events_are_read_and_nothing_started(smoke, monkeypatch, capsys, tmp_path):
    (tmp_path / "Snakefile").write_text("no workflow")
    (tmp_path / ".snakemake/tdjepa").mkdir(parents=True)
    (tmp_path / ".snakemake/tdjepa/2025.jsonl").write_text('{"event": "run", "cores": 9}\n')  # an earlier run
    lines_ = "".join(json.dumps(event) + "\n" for event in LIVE)
    (tmp_path / ".snakemake/tdjepa/2026.jsonl").write_text(lines_ + '{"event": "fin')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(status.time, "time", lambda: NOW + 42)
    with open(".snakemake/alive", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status.run(smoke)
    said = capsys.readouterr().out
    assert "scale smoke: a run is alive" in said
    assert lines(said)["train"] == [".", "1", "1", "1"]
    assert "running  train_two_room_lewm_3073, for 42 s\n" in said
    assert "left     2 jobs on 4 cores, no measured time for this scale yet" in said
    assert not status.alive()


def test_jobs_of_a_cluster_are_told_and_a_full_disk_stops_no_run(tmp_path):
    settings = SimpleNamespace(dryrun=False)
    handler = LogHandler(settings, LogHandlerSettings(file=tmp_path / "events.jsonl"))
    told = {"rule_name": "floors", "jobid": 9, "log": ["floors_two_room.log"], "threads": 1, "wildcards": {}}
    job, resources = {"event": LogEvent.JOB_INFO, **told}, {"event": LogEvent.RESOURCES_INFO}
    events = [resources | {"nodes": 100}, resources, {"event": LogEvent.GROUP_INFO}, job, job | {"rule_name": "all"}]
    for extra in (*events, job | {"event": LogEvent.JOB_ERROR}, {}):
        handler.emit(makeLogRecord(extra))
    run = status.parse(map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines()))
    assert (run.cores, run.each("job", run.failed), run.running) == (100, ["floors_two_room"], set())
    assert LogHandler(SimpleNamespace(dryrun=True), None).path is None  # a dry run is no run
    handler = LogHandler(settings, LogHandlerSettings(file=Path("/dev/full")))
    handler.emit(makeLogRecord({"event": LogEvent.RESOURCES_INFO, "cores": 1}))


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
