"""The report's figures: vector PDF and PNG, the same bytes for the same input, told apart without colour."""

from collections.abc import Callable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from tdjepa.base.artefacts import publish
from tdjepa.base.figure_files import STYLE, family, save
from tdjepa.report import diagnostic_figures, forest, pipeline, planning_figures
from tdjepa.report.inputs import Inputs


def draw(figure: Callable[[Inputs], Figure], inputs: Inputs) -> Figure:
    """One of the figures below, in the house style."""
    with matplotlib.rc_context({**STYLE, "font.family": family()}):
        return figure(inputs)


ALL = {
    "alignment": diagnostic_figures.alignment_scatter,
    "pipeline": pipeline.diagram,
    "cost_matrix": planning_figures.cost_matrix,
    "epoch_curve": planning_figures.epoch_curve,
    "offline": planning_figures.offline,
    "calibration": diagnostic_figures.calibration,
    "training_seeds": planning_figures.training_seeds,
    "variants": planning_figures.variants,
    "aliasing": diagnostic_figures.aliasing,
    "training": diagnostic_figures.training,
    "claims": forest.claims,
}


def write(inputs: Inputs, out: Path) -> None:
    for name, build in ALL.items():
        figure = draw(build, inputs)
        for suffix in ("pdf", "png"):
            with publish(out / "figures" / f"{name}.{suffix}") as temporary:
                save(figure, temporary)
