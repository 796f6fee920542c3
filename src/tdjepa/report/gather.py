"""`tdjepa render`: gather whatever has been run of a scale and render it; what has not been run is shown as such.

Tables, figures and numbers are jobs of their own, so that a changed caption draws no figure; each imports only what it needs.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

from tdjepa.base.artefacts import write_text
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.part import place
from tdjepa.evidence.guard import require_folder, require_rows, rows_of
from tdjepa.report import inputs
from tdjepa.report.inputs import Inputs
from tdjepa.steps.paths import card, path

PARTS = {"tables": ("tables", "verdicts.md"), "figures": ("figures",), "numbers": ("numbers.tex", "summary.md")}


def run(params: Params, out: Path | None = None, only: str | None = None) -> dict:
    out, there = Path(out or path("report", place(params))), files(params)
    require_rows(rows_of(params.scale), params.scale)
    require_folder(out)
    parts = (only,) if only else tuple(PARTS)
    render(inputs.read(params, **there), out, parts)
    places = {part: out / PARTS[part][0] for part in parts}
    return places if only else {**places, "summary": out / "summary.md"}


def render(found: Inputs, out: Path, parts: Sequence[str] = tuple(PARTS)) -> None:
    """Write everything under `out`. Any input may be missing."""
    for part in parts:  # by name: the workflow reads imports to know which sources a part depends on
        importlib.import_module(f"tdjepa.report.{part}").write(found, Path(out))


def show(params: Params) -> None:
    """`tdjepa summary`: the one-screen summary of a scale, from what lies in its folders now."""
    from tdjepa.report import summary

    print(summary.terminal(inputs.read(params, **files(params)), Path(path("report", place(params)))), end="")
    for name in ("paper", "page"):
        file = Path(path(name, place(params)))
        print(f"{name:<8} {file if file.exists() else 'not built yet'}")


def update_readme(params: Params, readme: Path) -> None:
    """Copy the scale's summary and verdicts into the README, so that no number there is typed."""
    for mark, name in (("summary", "summary.md"), ("claims", "verdicts.md")):
        insert(readme, f"{mark}:{params.scale}", Path(path("report", params.scale, name=name)).read_text())


def insert(file: Path, mark: str, made: str) -> None:
    """Put what was made between the two marks in a file of prose."""
    before, after = around(file, mark)
    write_text(file, before + made.strip() + "\n" + after)


def around(file: Path, mark: str) -> tuple[str, str]:
    """The text up to the first mark and from the second on; a clear error if there are none."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    text = file.read_text() if file.exists() else ""
    if begin not in text or end not in text:
        raise UserError(f"{file}: has no place for the table: the lines {begin.strip()} and {end} are needed")
    head, rest = text.split(begin, 1)
    return head + begin, end + rest.split(end, 1)[1]


def run_so_far(p: Params) -> Params:
    """With those methods of the groups that have been run: whose rows lie here."""
    trained = [job for job in runs.jobs(runs.widened(p), "trainings") if Path(path("rows", p.scale, **job)).exists()]
    return runs.widened(p, among={job["method"] for job in trained})


def files(p: Params) -> dict:
    """The files of this scale that exist, by the names that `inputs.read` gives them."""
    p = run_so_far(p)

    def there(kind: str, jobs: str) -> list[Path]:
        return [file for job in runs.jobs(p, jobs) if (file := Path(path(kind, p.scale, **job))).exists()]

    cards = [Path(card(path("episodes", p.scale, **job))) for job in runs.jobs(p, "envs")]
    floors = [*there("floors", "envs"), *there("ladder", "ladders"), *there("ceiling", "ceilings")]
    return {
        "stats": Path(path("evidence/stats.json", place(p))),
        "claims": Path(path("evidence/claims.json", place(p))),
        "rows": [*there("rows", "trainings"), *floors, *there("sweep", "sweeps")],
        "pairs": there("pairs", "diagnosed"),
        "cards": list(filter(Path.exists, cards)),
        "curves": there("curve", "trainings"),
        "probes": there("probe", "diagnosed"),
        "aliasing": there("aliasing", "diagnosed"),
    }
