"""Pictures as data URIs: the report's figures as SVG, rollouts as GIF with a still in front, so that nothing moves unasked."""

import base64
import inspect
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from PIL import Image, UnidentifiedImageError

from tdjepa.base.errors import UserError
from tdjepa.base.figure_files import STYLE
from tdjepa.report import figures as drawings
from tdjepa.report.inputs import Inputs

FIGURE_BYTES = 300_000  # a scatter of many points is smaller as PNG
ROLLOUT_BYTES = 2_000_000  # of all rollouts together, so that the page stays below 5 MB


def figures(found: Inputs, title: Callable[[str], str]) -> list[dict[str, str]]:
    """The report's figures; a caption is what the function that draws a figure says of it."""
    shown = []
    for name, build in drawings.ALL.items():
        caption = (inspect.getdoc(build) or title(name)).replace("d_psi", "d_ψ").replace("l2", "ℓ₂")
        shown.append({"name": name, "caption": caption, "uri": _figure_uri(drawings.draw(build, found))})
    return shown


def _figure_uri(figure: Figure) -> str:
    """Without a background, so that the page's shows through; dates and random identifiers are left out."""
    svg, png = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        if len(svg.getvalue()) <= FIGURE_BYTES:
            return _uri("image/svg+xml", svg.getvalue())
        figure.savefig(png, format="png", transparent=True, metadata={"Software": None}, dpi=200)
        return _uri("image/png", png.getvalue())


def rollouts(paths: Sequence[Path]) -> tuple[list[dict[str, str]], list[Path]]:
    """The GIFs that fit, each with its first frame as a still, and those that are left out for their size."""
    shown, left_out, used = [], [], 0
    for path in sorted(paths):
        content, still = path.read_bytes(), _still(path)
        size = len(content) + len(still)
        if used + size > ROLLOUT_BYTES:
            left_out.append(path)
            continue
        used += size
        shown.append({"name": path.stem, "gif": _uri("image/gif", content), "still": _uri("image/png", still)})
    return shown, left_out


def _still(path: Path) -> bytes:
    buffer = io.BytesIO()
    try:
        with Image.open(path) as image:
            image.convert("RGB").save(buffer, "PNG", optimize=True)
    except (UnidentifiedImageError, OSError) as error:
        raise UserError(f"{path}: not a readable GIF ({error}); delete it or make it again") from None
    return buffer.getvalue()


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
