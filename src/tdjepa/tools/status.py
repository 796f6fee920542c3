"""`tdjepa status`: what of a scale is done, running, failed or still to do, and how long that will take.

While a run is alive its own log tells (a second Snakemake would only get in its way). Otherwise Snakemake is asked what it
would run, the provenance files say what is done, and the last log says what failed.
"""

import fcntl
import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import yaml

from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.tools.time_spent import rule, wall_seconds

SNAKEMAKE = Path(".snakemake")
EXPECTED = Path("workflow", "expected_seconds.yaml")
STAMP = "%a %b %d %H:%M:%S %Y"
PROVIDED = r"Provided (?:cores|remote nodes): (\d+)"  # said before the first job


@dataclass
class Run:
    """What a log of Snakemake tells: jobs by their number, named like their logs."""

    cores: int = 1
    planned: Counter = field(default_factory=Counter)  # by rule
    started: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    def names(self, numbers) -> list[str]:
        return [name for number, (name, _) in self.started.items() if number in numbers]

    @property
    def running(self) -> set[str]:
        return set(self.started) - self.finished - self.failed


def run(params: Params) -> None:
    if not Path("Snakefile").exists():
        raise UserError("Snakefile: not here; run this in the project's folder")
    last = last_run()
    print(f"scale {params.scale}: " + ("a run is alive" if alive() else "no run is alive"))
    seconds = expected_seconds(params.scale)
    if alive():
        _show_run(last, seconds)
    else:
        todo = asked(params.scale)
        failed = [name for name in last.names(last.failed) if name in todo]
        _show_rest(done(params.scale) - set(todo), todo, failed, seconds, params.scale)


# What the sources say -------------------------------------------------------------------------------------------------


def alive() -> bool:
    """Every run on this machine holds a lock on that file (workflow/tdjepa_workflow/locks.py)."""
    try:
        with open(SNAKEMAKE / "alive") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def last_run() -> Run:
    """What the newest log of a run tells. A lint, a graph or a refused second run leave logs too, which name no cores."""
    for path in sorted((SNAKEMAKE / "log").glob("*.snakemake.log"), reverse=True):
        text = path.read_text(errors="replace")
        if re.search(rf"^{PROVIDED}", text, re.MULTILINE):
            return parse_log(text)
    return Run()


def parse_log(text: str) -> Run:
    run, when, error = Run(), datetime.min, False
    for line in text.splitlines():
        if match := re.fullmatch(r" *\[(\w+ \w+ +\d+ [\d:]+ \d+)\]", line):  # indented: part of a group
            when = datetime.strptime(match[1], STAMP)
        elif match := re.match(PROVIDED, line):
            run.cores = int(match[1])
        elif match := re.fullmatch(r"(\w+) +(\d+)", line):
            run.planned[match[1]] = int(match[2])
        elif match := re.fullmatch(r" *Job (\d+): ([\w ]+)", line):
            run.started[match[1]] = (match[2].replace(" ", "_"), when)
            run.failed.discard(match[1])  # tried again
        elif match := re.match(r"Finished jobid: (\d+)", line):
            run.finished.add(match[1])
        elif match := re.fullmatch(r"    jobid: (\d+)", line):
            run.failed |= {match[1]} if error else set()
        if line and not line.startswith(" "):
            error = line.startswith("Error in rule ")
    run.planned = Counter({name: n for name, n in run.planned.items() if name != "total" and not _is_target(name)})
    return run


def _is_target(rule: str) -> bool:
    return rule == "all" or rule.endswith("_all")


def asked(scale: str) -> list[str]:
    """The jobs that Snakemake would run now."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1", "--config", f"scale={scale}"]
    said = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL
    )
    if said.returncode:
        reason = (said.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(f"snakemake --dry-run failed: {reason}; run it yourself to see all of it")
    jobs = re.findall(r"^Job \d+: ([\w ]+)$", said.stdout, re.MULTILINE)
    return [name for job in jobs if not _is_target(name := job.replace(" ", "_"))]


def done(scale: str) -> set[str]:
    """Jobs whose outputs are here, as the provenance files know them."""
    found = set()
    for path in sorted(Path("results", scale, "provenance").glob("*.json")):
        try:
            found |= _done_in(json.loads(path.read_text()))
        except (ValueError, LookupError, TypeError, AttributeError):  # damaged: as good as absent, like in the workflow
            continue
    return found


def _done_in(jobs: list[dict]) -> set[str]:
    there = [job["record"] for job in jobs if all(map(os.path.exists, job["outputs"]))]
    return {Path(record["log"][0]).stem for record in there if record.get("log")}


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


# What a person reads --------------------------------------------------------------------------------------------------


def _show_run(run: Run, seconds: dict[str, float]) -> None:
    states = {"done": run.finished, "running": run.running, "failed": run.failed}
    counts = {state: Counter(map(rule, run.names(numbers))) for state, numbers in states.items()}
    counts["to do"] = run.planned - sum(counts.values(), Counter())
    _table(counts, seconds)
    now = datetime.now()
    for number in run.running:
        name, when = run.started[number]
        usual = f" of about {duration(seconds[rule(name)])}" if rule(name) in seconds else ""
        print(f"running  {name}, for {duration((now - when).total_seconds())}{usual}")
    rest = [*counts["to do"].elements(), *map(rule, run.names(run.running))]
    print(f"left     {len(rest)} jobs on {run.cores} cores, {expected_text(rest, run.cores, seconds)}" if rest else "")


def _show_rest(done: set[str], todo: list[str], failed: list[str], seconds: dict[str, float], scale: str) -> None:
    counts = {"done": done, "failed": failed, "to do": [name for name in todo if name not in failed]}
    _table({state: Counter(map(rule, names)) for state, names in counts.items()}, seconds)
    for name in failed:
        log = Path("results", scale, "logs", f"{name}.log")
        words = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        print(f"failed   {name}: {words[-1] if words else 'it left no word'} ({log})")
    cores = os.cpu_count() or 1
    if todo:
        print(f"left     {len(todo)} jobs, {expected_text(list(map(rule, todo)), cores, seconds)} on {cores} cores")
        print(f"         snakemake --cores all --config scale={scale}")
    else:
        print("left     nothing to be done")


def _table(counts: dict[str, Counter], seconds: dict[str, float]) -> None:
    """A line a rule, in the order of the pipeline."""
    rules = [name for name in seconds if any(name in c for c in counts.values())]
    rules += sorted({name for c in counts.values() for name in c} - set(rules))
    print(f"{'':<10}" + "".join(f"{state:>9}" for state in counts))
    for name in rules:
        print(f"{name:<10}" + "".join(f"{counter[name] or '.':>9}" for counter in counts.values()))
