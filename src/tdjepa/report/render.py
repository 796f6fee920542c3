"""`tdjepa render`: statistics and diagnostics in, tables, figures, numbers.tex and summary.md out.

The three parts are jobs of their own, so that a changed caption does not draw a figure; each imports only what it needs.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

from tdjepa.config.params import Params
from tdjepa.report import inputs

PARTS = ("tables", "figures", "numbers")


def render(
    stats: Path | None,
    rows: Sequence[Path],
    pairs: Sequence[Path],
    cards: Sequence[Path],
    curves: Sequence[Path],
    aliasing: Sequence[Path],
    params: Params,
    out: str | Path,
    claims: Path | None = None,
    parts: Sequence[str] = PARTS,
    probes: Sequence[Path] = (),
) -> None:
    """Write everything under `out`. Any input may be missing."""
    found = inputs.read(stats, rows, pairs, cards, curves, aliasing, params, claims, probes)
    for part in parts:  # by name: the workflow reads imports to know which sources a part depends on
        importlib.import_module(f"tdjepa.report.{part}").write(found, Path(out))
