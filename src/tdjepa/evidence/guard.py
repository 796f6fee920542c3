"""What must be there before results are written, so that looking damages nothing: rows, and a folder to write into."""

from collections.abc import Sequence
from pathlib import Path

from tdjepa.base.errors import UserError


def rows_of(scale: str) -> list[Path]:
    """The rows files of a scale that lie here; those of sweeps lie one folder deeper."""
    return sorted(Path("results", scale, "rows").rglob("[!.]*.parquet"))


def was_run(scale: str) -> bool:
    """Whether this scale was run here, or only its committed results are."""
    return bool(rows_of(scale))


def require_rows(rows: Sequence[str | Path], scale: str = "") -> None:
    """Without any row the results would be empty, and they would replace the committed ones."""
    if not rows:
        of_scale, command = (f" of scale {scale}", f"make reproduce SCALE={scale}") if scale else ("", "make reproduce")
        raise UserError(f"no rows{of_scale} are here: run `{command}` first; the committed results are left alone")


def require_folder(out: str | Path) -> None:
    out = Path(out)
    if out.is_file() or out.suffix:
        raise UserError(f"{out}: the name of a folder is expected, several files are written into it")
