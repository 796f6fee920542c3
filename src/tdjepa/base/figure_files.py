"""How figures look and how they are saved: equal figures are equal files, and colours are told apart in grey too."""

import functools
import io
from pathlib import Path

import matplotlib
import yaml
from matplotlib import font_manager
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"  # Okabe and Ito's, and a grey
STYLE = yaml.safe_load(Path(__file__).with_name("figure_files.yaml").read_text())


@functools.cache
def family() -> str:
    """acmart's typeface if this machine has it, else the one that comes with matplotlib."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in ("Linux Libertine O", "Libertinus Serif") if name in installed), "DejaVu Sans")


def save(figure: Figure, path) -> None:
    """Without dates or program versions, so that equal figures are equal files.

    Drawn in memory: on a full disk matplotlib fails in its own cleaning up, and hides the reason.
    """
    kind, drawn = Path(path).suffix[1:], io.BytesIO()
    metadata = {"CreationDate": None, "Producer": None, "Creator": None} if kind == "pdf" else {"Software": None}
    with matplotlib.rc_context({**STYLE, "font.family": family()}):
        figure.savefig(drawn, format=kind, metadata=metadata, dpi=200)
    Path(path).write_bytes(drawn.getvalue())
