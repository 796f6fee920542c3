"""What the steps take: as Snakemake measured every job here, or as the project expects it."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import yaml

from tdjepa.base.errors import UserError
from tdjepa.report.page.html import Html, element, join
from tdjepa.report.page.sections import not_run, sortable
from tdjepa.report.tables import number


def section(paths: Sequence[Path], scale: str) -> Html:
    measured = sorted(path for path in paths if path.suffix == ".tsv")
    if measured:
        return _measured(pd.concat([_benchmark(path) for path in measured], ignore_index=True))
    for path in paths:
        expected = yaml.safe_load(path.read_text()) or {}
        if scale in expected:
            return _expected(expected[scale], expected.get("machines", {}).get(scale, "an unnamed machine"), scale)
    return not_run("Nobody has measured this scale yet.")


def _expected(seconds: dict[str, float], machine: str, scale: str) -> Html:
    """Not those of this run, which differ each time: equal results shall give equal pages."""
    rows = [_row(step, [number(value, 0)]) for step, value in seconds.items()]
    hint = f"tdjepa page --scale {scale} --out page.html"
    return join(
        [
            sortable("Expected run times", ["Step", "One job, expected (s)"], rows, 1),
            element(
                "p",
                f"Expected seconds, on one core of {machine}; this run’s own are not shown. With those that your machine "
                "measured: ",
                element("code", hint),
                class_="caption",
            ),
        ]
    )


def _measured(jobs: pd.DataFrame) -> Html:
    """A line a step, and every job below."""
    steps = []
    for step, of_step in jobs.groupby("step", sort=False):
        values = [f"{len(of_step)}", *(number(of_step[c].sum(), 0) for c in ("s", "cpu_time"))]
        steps.append(_row(step, values + [number(of_step[c].max(), 0) for c in ("s", "max_rss")]))
    every = [_row(job.name, [number(v, 1) for v in (job.s, job.cpu_time, job.max_rss)]) for job in jobs.itertuples()]
    head = ["Step", "Jobs", "Wall (s)", "CPU (s)", "Longest job (s)", "Peak memory (MB)"]
    wall, cpu = (number(jobs[c].sum() / 60, 1) for c in ("s", "cpu_time"))
    return join(
        [
            sortable("Run times by step", head, steps, 1),
            element("p", f"All jobs one after the other: {wall} minutes, {cpu} of CPU.", class_="caption"),
            element(
                "details",
                element("summary", "Every job"),
                sortable("Run times of every job", ["Job", "Wall (s)", "CPU (s)", "Peak memory (MB)"], every, 1),
            ),
        ]
    )


def _row(name: str, values: list[str]) -> Html:
    return element("tr", element("th", name, scope="row"), *(element("td", value) for value in values))


def _benchmark(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, sep="\t", na_values="-")[["s", "cpu_time", "max_rss"]].astype(float)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: not a benchmark file of Snakemake ({error}); delete it") from None
    return frame.tail(1).fillna(0.0).assign(name=path.stem, step=path.stem.split("_")[0])
