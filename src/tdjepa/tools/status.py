"""`tdjepa status`: what of a scale is done, running, failed or still to do, and how long that will take.

Every run of the workflow writes its events as JSON lines. While a run is alive they tell (a second Snakemake would only get in
its way). Otherwise Snakemake is asked what it would run, the provenance files say what is done, and the events of the last run
say what failed.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.tools.time_spent import rule, wall_seconds

ALIVE = Path(".snakemake/alive")  # every run on this machine holds a lock on it
EVENTS = Path(".snakemake/tdjepa")  # one file per run
EXPECTED = Path("workflow", "expected_seconds.yaml")


@dataclass
class Run:
    """What the events of a run tell: jobs by their number, named like their logs."""

    cores: int = 1
    planned: Counter = field(default_factory=Counter)  # by rule
    started: dict[int, dict] = field(default_factory=dict)  # the event of each
    finished: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)

    def each(self, key: str, numbers: set[int]) -> list[str]:
        """The job or the rule of these."""
        return [event[key] for number, event in self.started.items() if number in numbers]

    @property
    def running(self) -> set[int]:
        return set(self.started) - self.finished - self.failed


def run(p: Params) -> None:
    if not Path("Snakefile").exists():
        raise UserError("Snakefile: not here; run this in the project's folder")
    last, seconds, lives = last_run(), expected_seconds(p.scale), alive()
    print(f"scale {p.scale}: " + ("a run is alive" if lives else "no run is alive"))
    if lives:
        _show_run(last, seconds)
    else:
        todo = [event["job"] for event in asked(p.scale)]
        failed = [name for name in last.each("job", last.failed) if name in todo]
        _show_rest(done(p.scale) - set(todo), todo, failed, seconds, p.scale)


def alive() -> bool:
    try:
        with open(ALIVE) as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def last_run() -> Run:
    files = sorted(EVENTS.glob("*.jsonl"))
    return parse(_events(files[-1])) if files else Run()


def _events(file: Path) -> Iterable[dict]:
    """Whole lines only: the last one may be in the making, or cut off by a kill."""
    for line in file.read_text(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def parse(events: Iterable[dict]) -> Run:
    run = Run()
    for event in events:
        match event["event"]:
            case "run":
                run.cores = event["cores"]
            case "plan":
                run.planned = Counter(event["jobs"])
            case "started":
                run.started[event["id"]] = event
                run.failed.discard(event["id"])  # tried again
            case "finished" | "failed" as state:
                getattr(run, state).add(event["id"])
    return run


def asked(scale: str) -> list[dict]:
    """The jobs that Snakemake would run now."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.jsonl")
        file.touch()
        command = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--config", f"scale={scale}"]
        command += ["--logger", "tdjepa", "--logger-tdjepa-file", str(file)]
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        said = subprocess.run(command, **how)
        if said.returncode:
            reason = (said.stdout.strip().splitlines() or ["it said nothing"])[-1]
            raise UserError(f"snakemake --dry-run failed: {reason}; run it yourself to see all of it")
        return list(_events(file))


def done(scale: str) -> set[str]:
    """Jobs whose outputs are here, as the provenance files know them."""
    found = set()
    for path in sorted(Path("results", scale, "provenance").glob("*.json")):
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):  # damaged: as good as absent
            jobs = json.loads(path.read_text())
            there = [job["record"] for job in jobs if all(map(os.path.exists, job["outputs"]))]
            found |= {Path(record["log"][0]).stem for record in there if record.get("log")}
    return found


def expected_seconds(scale: str) -> dict[str, float]:
    """Seconds of one job of each rule: as measured here, else as the project expects."""
    known = (yaml.safe_load(EXPECTED.read_text()) or {}).get(scale, {}) if EXPECTED.exists() else {}
    measured: dict[str, list[float]] = {}
    for job, seconds in wall_seconds(scale).items():
        measured.setdefault(rule(job), []).append(seconds)
    return known | {name: sum(values) / len(values) for name, values in measured.items()}


def expected_text(rules: list[str], cores: int, seconds: dict[str, float]) -> str:
    """The work shared by the cores, but no shorter than one job of each rule after the other."""
    if not set(rules) <= set(seconds):
        return "no measured time for this scale yet"
    shared = sum(seconds[name] for name in rules) / min(cores, os.cpu_count() or 1)
    return f"about {duration(max(shared, sum(seconds[name] for name in set(rules))))}"


def duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(seconds, 1):.0f} s"


def _show_run(run: Run, seconds: dict[str, float]) -> None:
    states = {"done": run.finished, "running": run.running, "failed": run.failed}
    counts = {state: Counter(run.each("rule", numbers)) for state, numbers in states.items()}
    counts["to do"] = run.planned - sum(counts.values(), Counter())
    _table(counts, seconds)
    for event in map(run.started.get, run.running):
        usual = f" of about {duration(seconds[event['rule']])}" if event["rule"] in seconds else ""
        print(f"running  {event['job']}, for {duration(time.time() - event['time'])}{usual}")
    rest = [*counts["to do"].elements(), *run.each("rule", run.running)]
    print(f"left     {len(rest)} jobs on {run.cores} cores, {expected_text(rest, run.cores, seconds)}" if rest else "")


def _show_rest(done: set[str], todo: list[str], failed: list[str], seconds: dict[str, float], scale: str) -> None:
    counts = {"done": done, "failed": failed, "to do": [name for name in todo if name not in failed]}
    _table({state: Counter(map(rule, names)) for state, names in counts.items()}, seconds)
    for name in failed:
        log = Path("results", scale, "logs", f"{name}.log")
        words = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        print(f"failed   {name}: {words[-1] if words else 'it left no word'} ({log})")
    cores = os.cpu_count() or 1
    usual = expected_text(list(map(rule, todo)), cores, seconds)
    left = f"{len(todo)} jobs, {usual} on {cores} cores\n{'':<9}snakemake --cores all --config scale={scale}"
    print(f"left     {left if todo else 'nothing to be done'}")


def _table(counts: dict[str, Counter], seconds: dict[str, float]) -> None:
    """One line per rule, in the order of the pipeline."""
    rules = [name for name in seconds if any(name in c for c in counts.values())]
    rules += sorted({name for c in counts.values() for name in c} - set(rules))
    print(f"{'':<10}" + "".join(f"{state:>9}" for state in counts))
    for name in rules:
        print(f"{name:<10}" + "".join(f"{counter[name] or '.':>9}" for counter in counts.values()))
