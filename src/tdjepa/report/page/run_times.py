"""What the steps take: as Snakemake measured every job here, or as the project expects it."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import yaml

from tdjepa.base.errors import UserError
from tdjepa.report.phrases import number
from tdjepa.report.table import Table


def tables(paths: Sequence[Path], scale: str) -> dict:
    """The tables that the template shows: `steps` and `jobs`, or `expected`; empty if nobody has measured this scale."""
    measured = sorted(path for path in paths if path.suffix == ".tsv")
    if measured:
        return _measured(pd.concat([_benchmark(path) for path in measured], ignore_index=True))
    for path in paths:
        known = yaml.safe_load(path.read_text()) or {}
        if scale in known:  # not those of this run, which differ each time: equal results shall give equal pages
            body = [[step, number(seconds, 0)] for step, seconds in known[scale].items()]
            machine = known.get("machines", {}).get(scale, "an unnamed machine")
            return {"expected": Table("", "", ["Step", "One job, expected (s)"], body), "machine": machine}
    return {}


def _measured(jobs: pd.DataFrame) -> dict:
    """One line per step, and every job."""
    steps = []
    for step, of_step in jobs.groupby("step", sort=False):
        values = [f"{len(of_step)}", *(number(of_step[c].sum(), 0) for c in ("s", "cpu_time"))]
        steps.append([step, *values, *(number(of_step[c].max(), 0) for c in ("s", "max_rss"))])
    every = [[job.name, *(number(v, 1) for v in (job.s, job.cpu_time, job.max_rss))] for job in jobs.itertuples()]
    head = ["Step", "Jobs", "Wall (s)", "CPU (s)", "Longest job (s)", "Peak memory (MB)"]
    return {
        "steps": Table("", "", head, steps),
        "jobs": Table("", "", ["Job", "Wall (s)", "CPU (s)", "Peak memory (MB)"], every),
        "minutes": [number(jobs[c].sum() / 60, 1) for c in ("s", "cpu_time")],
    }


def _benchmark(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, sep="\t", na_values="-")[["s", "cpu_time", "max_rss"]].astype(float)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: not a benchmark file of Snakemake ({error}); delete it") from None
    return frame.tail(1).fillna(0.0).assign(name=path.stem, step=path.stem.split("_")[0])
