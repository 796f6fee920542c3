"""`tdjepa render`: statistics and diagnostics in, tables, figures, numbers.tex and summary.md out."""

from collections.abc import Sequence
from pathlib import Path

from tdjepa.artefacts import publish, write_text
from tdjepa.params import Params
from tdjepa.render import figures, inputs, numbers, summary, tables


def render(
    stats: Path | None,
    rows: Sequence[Path],
    pairs: Sequence[Path],
    cards: Sequence[Path],
    curves: Sequence[Path],
    aliasing: Sequence[Path],
    params: Params,
    out: str | Path,
) -> str:
    """Write everything under `out` and give back the summary for the terminal. Any input may be missing."""
    out = Path(out)
    found = inputs.read(stats, rows, pairs, cards, curves, aliasing, params)
    for build in tables.ALL:
        table = build(found)
        write_text(out / "tables" / f"{table.name}.tex", table.to_latex())
        write_text(out / "tables" / f"{table.name}.md", table.to_markdown())
    for name, build in figures.ALL.items():
        figure = figures.draw(build, found)
        for suffix in ("pdf", "png"):
            with publish(out / "figures" / f"{name}.{suffix}") as temporary:
                figures.save(figure, temporary)
    write_text(out / "numbers.tex", numbers.write(found))
    write_text(out / "summary.md", summary.markdown(found))
    return summary.terminal(found, out)
