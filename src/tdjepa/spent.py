"""`tdjepa cost --spent`: what the jobs of a run took, by kind.

Wall seconds are Snakemake's (results/<scale>/benchmarks), CPU seconds what each job said of itself at its end: of all its
threads and of the processes it started, from its start, so of a job that was killed and went on the last piece alone.
"""

import csv
import os
import re
from pathlib import Path

from tdjepa import layout
from tdjepa.errors import UserError


def own() -> str:
    """What a job says of itself."""
    t = os.times()
    return f"job: {t.user + t.system + t.children_user + t.children_system:.1f} CPU-seconds"


def run(scale: str) -> None:
    jobs = read(scale)
    print(f"{'':<10}{'jobs':>5}{'wall minutes':>14}{'CPU minutes':>13}   longest")
    for kind in [*sorted({name.split("_")[0] for name in jobs}), ""]:  # the last line: all of them
        of_kind = {name: times for name, times in jobs.items() if not kind or name.split("_")[0] == kind}
        wall, cpu = (sum(times[i] or 0 for times in of_kind.values()) / 60 for i in (0, 1))
        said = sum(times[1] is not None for times in of_kind.values())
        shown = f"{cpu:.1f}" if said == len(of_kind) else f"{cpu:.1f} ({said})" if said else "–"
        longest = max(of_kind, key=lambda name: of_kind[name][0])
        print(f"{kind or 'all':<10}{len(of_kind):>5}{wall:>14.1f}{shown:>13}   {longest}, {of_kind[longest][0]:.0f} s")
    print("(n): so many of the jobs said what they took")


def read(scale: str) -> dict[str, tuple[float, float | None]]:
    """job -> (wall seconds, CPU seconds or None)"""
    files = sorted(Path(layout.benchmarks(scale)).glob("*.tsv"))
    if not files:
        raise UserError(
            f"{layout.benchmarks(scale)}: holds no times; run `snakemake --config scale={scale}` here first"
        )
    return {file.stem: (_wall(file), _cpu(Path(layout.log(scale, file.stem)))) for file in files}


def _wall(file: Path) -> float:
    try:
        with file.open(newline="") as text:
            return float(next(csv.DictReader(text, delimiter="\t"))["s"])
    except (StopIteration, KeyError, TypeError, ValueError):
        raise UserError(f"{file}: is no benchmark file of Snakemake; delete it") from None


def _cpu(log: Path) -> float | None:
    said = re.findall(r"^job: ([\d.]+) CPU-seconds$", log.read_text(errors="replace"), re.M) if log.exists() else []
    return float(said[-1]) if said else None
