"""`tdjepa cost --spent`: what the jobs of a run took, by kind.

Wall seconds are Snakemake's (results/<scale>/benchmarks), CPU seconds what each job said of itself at its end: of all its
threads and of the processes it started, from its start, so of a job that was killed and went on the last piece alone.
"""

import os
import re
from pathlib import Path

from tdjepa.base.errors import UserError
from tdjepa.steps.paths import path


def own() -> str:
    """What a job says of itself."""
    t = os.times()
    return f"job: {t.user + t.system + t.children_user + t.children_system:.1f} CPU-seconds"


def rule(job: str) -> str:
    """Jobs are named like their logs: train_two_room_lewm_3072."""
    return job.split("_")[0]


def run(scale: str) -> None:
    wall = wall_seconds(scale)
    if not wall:
        how = f"run `snakemake --config scale={scale}` here first"
        raise UserError(f"{path('benchmark', scale)}: holds no times; {how}")
    cpu = {job: _cpu_seconds(Path(path("log", scale, name=f"{job}.log"))) for job in wall}
    print(f"{'':<10}{'jobs':>5}{'wall minutes':>14}{'CPU minutes':>13}   longest")
    for kind in [*sorted(set(map(rule, wall))), "all"]:
        jobs = [job for job in wall if kind in (rule(job), "all")]
        said = [cpu[job] for job in jobs if cpu[job] is not None]
        shown = f"{sum(said) / 60:.1f}" if said else "–"
        shown += f" ({len(said)})" if 0 < len(said) < len(jobs) else ""
        longest = max(jobs, key=wall.get)
        minutes = sum(wall[job] for job in jobs) / 60
        print(f"{kind:<10}{len(jobs):>5}{minutes:>14.1f}{shown:>13}   {longest}, {wall[longest]:.0f} s")
    print("(n): so many of the jobs said what they took")


def wall_seconds(scale: str) -> dict[str, float]:
    """job -> seconds, as Snakemake measured it; a file without a line of numbers is of a job that has not ended."""
    files = sorted(Path(path("benchmark", scale)).glob("*.tsv"))
    return {file.stem: _first_number(file, line) for file in files for line in file.read_text().splitlines()[1:2]}


def _first_number(file: Path, line: str) -> float:
    try:
        return float(line.split("\t")[0])
    except ValueError:
        raise UserError(f"{file}: is no benchmark file of Snakemake; delete it") from None


def _cpu_seconds(log: Path) -> float | None:
    said = re.findall(r"^job: ([\d.]+) CPU-seconds$", log.read_text(errors="replace"), re.M) if log.exists() else []
    return float(said[-1]) if said else None
