"""What must be there before anything is made of it: without rows, or a folder to write into, nothing is written."""

from collections.abc import Container, Sequence
from pathlib import Path

from tdjepa.base.errors import UserError


def rows_of(scale: str) -> list[Path]:
    """The rows files of a scale that lie here; those of sweeps lie one folder deeper."""
    return sorted(Path("results", scale, "rows").rglob("[!.]*.parquet"))


def require_rows(rows: Sequence[str | Path], scale: str = "") -> None:
    """Without any row the results would be empty, and they would replace the committed ones."""
    if not rows:
        of_scale, command = (f" of scale {scale}", f"make reproduce SCALE={scale}") if scale else ("", "make reproduce")
        raise UserError(f"no rows{of_scale} are here: run `{command}` first; the committed results are left alone")


def require_folder(out: str | Path) -> None:
    out = Path(out)
    if out.is_file() or (out.suffix and not out.is_dir()):
        raise UserError(f"{out}: the name of a folder is expected, several files are written into it")


def require_keys(path: str | Path, found: Container[str], expected: Sequence[str]) -> None:
    """The keys or columns that a file must have."""
    if missing := [name for name in expected if name not in found]:
        raise UserError(f"{path}: missing {', '.join(missing)}; rerun the step that makes this file")
