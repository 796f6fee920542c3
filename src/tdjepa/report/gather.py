"""`tdjepa render`: gather whatever has been run of a scale and render it; what has not been run is shown as such."""

from pathlib import Path

from tdjepa.base.artefacts import write_text
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.steps.paths import card, path


def run(params: Params, out: Path | None = None, only: str | None = None) -> dict:
    from tdjepa.report.render import PARTS, render

    out = out or Path(path("report", params.scale))
    render(**inputs(params), params=params, out=out, parts=(only,) if only else PARTS)
    places = {
        "tables": out / "tables",
        "figures": out / "figures",
        "numbers": out / "numbers.tex",
        "summary": out / "summary.md",
    }
    return {only: places[only]} if only else places


def show(params: Params) -> None:
    """`tdjepa summary`: the one-screen summary of a scale, from what lies in its folders now."""
    from tdjepa.report import inputs as reader
    from tdjepa.report import summary

    print(summary.terminal(reader.read(**inputs(params), params=params), Path(path("report", params.scale))), end="")
    pdf = Path(path("paper", params.scale))
    print(f"paper    {pdf if pdf.exists() else 'not built yet'}")
    page = Path(path("page", params.scale))
    print(f"page     {page if page.exists() else 'not built yet'}")


def update_readme(params: Params, readme: Path) -> None:
    """Copy the scale's summary and verdicts into the README, so that no number there is typed."""
    for mark, name in (("summary", "summary.md"), ("claims", "tables/claims.md")):
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


def inputs(p: Params) -> dict:
    """The files of this scale that exist, by the names that `render` gives them."""

    def there(kind: str, jobs: str) -> list[Path]:
        found = [Path(path(kind, p.scale, **job)) for job in runs.jobs(p, jobs)]
        return [file for file in found if file.exists()]

    swept = [
        file
        for env in p.envs
        for name, sweep in p.evaluate.sweeps.items()
        if env in sweep.envs
        for file in sorted(Path("results", p.scale, "rows", env, name).glob("[!.]*.parquet"))
    ]
    floors = [Path(path(kind, p.scale, env=env)) for env in p.envs for kind in ("floors", "ceiling")]
    cards = [Path(card(path("episodes", p.scale, env=env))) for env in p.envs]
    return {
        "stats": Path(path("evidence/stats.json", p.scale)),
        "claims": Path(path("evidence/claims.json", p.scale)),
        "rows": [*there("rows", "trainings"), *(file for file in floors if file.exists()), *swept],
        "pairs": there("pairs", "diagnosed"),
        "cards": [file for file in cards if file.exists()],
        "curves": there("curve", "trainings"),
        "probes": there("probe", "diagnosed"),
        "aliasing": there("aliasing", "diagnosed"),
    }
