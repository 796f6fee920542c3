"""The paper's Figure 2 in our own drawing (pipeline.yaml): what is trained, and how the planner uses it."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from tdjepa.config.yaml_file import read_yaml
from tdjepa.report.inputs import Inputs
from tdjepa.report.style import GREY, PAGE


def diagram(inputs: Inputs) -> Figure:
    """Left: training on demonstrations. Right: planning with the same predictor and head."""
    drawn = read_yaml(Path(__file__).with_name("pipeline.yaml"))
    numbers = {"horizon": inputs.params.evaluate.planner.horizon, "frameskip": inputs.params.mine.frameskip}
    figure = Figure(figsize=(PAGE, 2.35))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 100), ylim=(0, 34))
    ax.axis("off")
    for x, title in drawn["titles"]:
        ax.text(x, 32, title, fontsize=8, weight="bold", va="center")
    ax.plot([56.5, 56.5], [1, 33], color=GREY, lw=0.6, ls=":")
    for part in drawn["parts"]:
        if "box" in part:
            kind, x, y, width, height, text = part["box"]
            fill, edge, line = drawn["kinds"][kind]
            style = {"boxstyle": "round,pad=0,rounding_size=0.8", "fc": fill, "ec": edge, "ls": line, "lw": 0.9}
            ax.add_patch(FancyBboxPatch((x, y), width, height, **style))
            where = {"ha": "center", "va": "center", "fontsize": 6.5}
            ax.text(x + width / 2, y + height / 2, text.format(**numbers), **where)
        else:
            kind, start, end, bend = part["arrow"]
            colour = drawn["kinds"][kind][1] if kind in drawn["kinds"] else kind
            look = {"arrowstyle": "-|>", "color": colour, "lw": 0.8, "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", end, start, arrowprops={**look, "connectionstyle": f"arc3,rad={bend}"})
    return figure
