"""How figures look: one column wide, told apart without colour, in the report's own typeface where it is installed."""

import math
from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tdjepa.base.figure_files import BLUE, GREEN, GREY, ORANGE
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import ENVS, NOT_RUN

PAGE = 7.0  # inches, both columns of acmart's sigconf
COLUMN = 3.33  # inches, one column of acmart's sigconf
MATH = {"d_psi": r"$d_\psi$", "l2": r"$\ell_2$", "blend": "blend"}
COST_LOOK = {"d_psi": (BLUE, "", "o"), "l2": (ORANGE, "///", "s"), "blend": (GREEN, "...", "^")}
# Colours of unequal brightness, and another mark and dash each: told apart in grey, too.
METHOD_LOOK = {"tdjepa": (BLUE, "o", "-"), "lewm": (ORANGE, "s", "--"), "rc_aux_tdj": (GREEN, "^", "-.")}
METHOD_LOOK |= {"rc_aux": ("#CC79A7", "v", (0, (5, 1))), "lewm_original": ("#E69F00", "P", (0, (1, 1)))}
METHOD_LOOK |= {"lewm_compute": ("#56B4E9", "X", (0, (3, 1, 1, 1)))}
ENV_LOOK = {"two_room": (BLUE, "o", "-"), "reacher": ("#56B4E9", "s", "--")}
ENV_LOOK |= {"push_t": (ORANGE, "^", "-."), "cube": ("black", "D", (0, (1, 1)))}


def look(method: str) -> tuple[str, str, str]:
    return METHOD_LOOK.get(method, (GREY, "D", ":"))


def grid(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def panels(shown: list, columns: int, width: float, height: float) -> tuple[Figure, list[tuple]]:
    """One panel for each of what is shown, so many in a row: (what is shown, its axes)."""
    figure, axes = grid(-(-len(shown) // columns), columns, width, height)
    for unused in axes.flat[len(shown) :]:
        unused.remove()
    return figure, list(zip(shown, axes.flat, strict=False))


def env_panels(envs: list[str], height: float) -> tuple[Figure, list[tuple[str, Axes]]]:
    """One panel per environment, two in a row, so that four environments still fit a column of the page."""
    return panels(envs, min(2, len(envs)), COLUMN, height)


def light_grid(ax: Axes) -> None:
    ax.grid(axis="x", lw=0.3, color="#CCCCCC")
    ax.set_axisbelow(True)


def not_run(axes: Axes) -> None:
    box = {"facecolor": "white", "edgecolor": "none"}
    axes.text(0.5, 0.5, NOT_RUN, transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=9, bbox=box)
    if not axes.has_data():
        axes.set(xticks=[], yticks=[])


def envs_with(frame, inputs: Inputs) -> list[str]:
    """Environments that have lines in the frame; the first of the run when there are none."""
    found = set(frame["env"])
    return [env for env in ENVS if env in found] or [inputs.params.envs[0]]


def finished(figure: Figure, axes: Iterable[Axes], x: str = "", y: str = "") -> Figure:
    """With labels that all panels share, and one legend above them, in as few lines as the width allows."""
    for label, place in ((x, figure.supxlabel), (y, figure.supylabel)):
        if label:
            place(label, fontsize=7.5)
    labelled = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        labelled |= dict(zip(labels, handles, strict=True))
    renderer = FigureCanvasAgg(figure).get_renderer()
    for columns in range(len(labelled), 0, -1):
        how = {"loc": "outside upper center", "ncols": columns, "columnspacing": 1.0, "handlelength": 2.2}
        legend = figure.legend(labelled.values(), labelled.keys(), **how)
        if columns == 1 or legend.get_window_extent(renderer).width <= figure.bbox.width:
            break
        legend.remove()
    return figure


def wilson(rate: float, n: int, z: float) -> tuple[float, float]:
    """Wilson's interval of a rate in percent over n episodes, z standard deviations wide."""
    p = rate / 100
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return 100 * (centre - half), 100 * (centre + half)
