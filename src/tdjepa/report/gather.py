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
from tdjepa.evidence.guard import require_folder, require_rows
from tdjepa.report import inputs
from tdjepa.report.inputs import Inputs
from tdjepa.steps import paths as layout

PARTS = {"tables": ("tables",), "figures": ("figures",), "numbers": ("numbers.tex", "summary.md")}


def run(params: Params, out: Path | None = None, only: str | None = None) -> dict:
    out, found = Path(out or layout.report(params.scale)), files(params)
    require_rows(found["rows"], params.scale)
    require_folder(out)
    parts = (only,) if only else tuple(PARTS)
    render(inputs.read(params, **found), out, parts)
    places = {part: out / PARTS[part][0] for part in parts}
    return places if only else {**places, "summary": out / "summary.md"}


def render(found: Inputs, out: Path, parts: Sequence[str] = tuple(PARTS)) -> None:
    """Write everything under `out`. Any input may be missing."""
    for part in parts:  # by name: the workflow reads imports to know which sources a part depends on
        importlib.import_module(f"tdjepa.report.{part}").write(found, Path(out))


def show(params: Params) -> None:
    """`tdjepa summary`: the one-screen summary of a scale, from what lies in its folders now."""
    from tdjepa.report import summary

    print(summary.terminal(inputs.read(params, **files(params)), Path(layout.report(params.scale))), end="")
    for name, path in (("paper", layout.paper(params.scale)), ("page", layout.page(params.scale))):
        print(f"{name:<8} {path if Path(path).exists() else 'not built yet'}")


def update_readme(params: Params, readme: Path) -> None:
    """Copy the scale's summary and verdicts into the README, so that no number there is typed."""
    for mark, name in (("summary", "summary.md"), ("claims", "tables/claims.md")):
        insert(readme, f"{mark}:{params.scale}", Path(layout.report(params.scale, name)).read_text())


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


def files(p: Params) -> dict:
    """The files of this scale that exist, by the names that `inputs.read` gives them."""
    trained, diagnosed = ([(p.scale, *t) for t in which] for which in (runs.trainings(p), runs.diagnosed(p)))

    def there(paths):
        return [Path(path) for path in paths if Path(path).exists()]

    swept = [
        path
        for env in p.envs
        for name, sweep in p.evaluate.sweeps.items()
        if env in sweep.envs
        for path in sorted(Path(layout.sweep(p.scale, name, env, "", "")).parent.glob("[!.]*.parquet"))
    ]
    floors = [layout.rows(p.scale, env, name) for env in p.envs for name in ("floors", "ceiling")]
    return {
        "stats": Path(layout.evidence(p.scale)),
        "claims": Path(layout.evidence(p.scale, "claims.json")),
        "rows": there([*(layout.rows(*t) for t in trained), *floors, *swept]),
        "pairs": there(layout.diagnostic(*t, "pairs.parquet") for t in diagnosed),
        "cards": there(layout.episodes(p.scale, env).with_name("episodes.card.json") for env in p.envs),
        "curves": there(layout.training(*t) / "curve.csv" for t in trained),
        "probes": there(layout.diagnostic(*t, "probe.json") for t in diagnosed),
        "aliasing": there(layout.diagnostic(*t, "aliasing.json") for t in diagnosed),
    }
