"""The paper's Figure 2 in our own drawing: what is trained, and how the planner uses it."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from tdjepa.report.inputs import Inputs
from tdjepa.report.style import BLUE, GREEN, GREY, ORANGE, PAGE

FILLS = {"data": "#EEEEEE", "model": "#DCEAF5", "loss": "#FBE5D6", "plan": "#DFF2EA"}
EDGES = {"data": GREY, "model": BLUE, "loss": ORANGE, "plan": GREEN}
STYLES = {"data": "-", "model": "-", "loss": "--", "plan": "-"}  # the kinds are told apart in grey, too


def diagram(inputs: Inputs) -> Figure:
    """Left: training on demonstrations. Right: planning with the same predictor and head."""
    p = inputs.params
    figure = Figure(figsize=(PAGE, 2.35))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 100), ylim=(0, 34))
    ax.axis("off")
    horizon, frameskip = p.evaluate.planner.horizon, p.mine.frameskip
    ax.text(1, 32, "Training, on demonstrations without rewards", fontsize=8, weight="bold", va="center")
    ax.text(59, 32, "Planning, towards a goal frame", fontsize=8, weight="bold", va="center")
    ax.plot([56.5, 56.5], [1, 33], color=GREY, lw=0.6, ls=":")
    _box(ax, 1, 18, 11, 7, "frames $o_t$,\nactions $a_t$", "data")
    _box(ax, 16, 18, 10, 7, "encoder\n$z_t$", "model")
    _box(ax, 30, 18, 11, 7, "predictor\n$\\hat{z}_{t+1}$", "model")
    _box(ax, 45, 18, 10, 7, "distance\n$d_\\psi(z_s, z_g)$", "model")
    _arrow(ax, (12, 21.5), (16, 21.5))
    _arrow(ax, (26, 21.5), (30, 21.5))
    _arrow(ax, (21, 25), (50, 25), bend=-0.28)
    _box(ax, 9, 3, 13, 8, "SIGReg:\nlatents keep\ntheir spread", "loss")
    _box(ax, 23.5, 3, 13, 8, "error of one step\nand of open-loop\nrollouts", "loss")
    _box(ax, 38, 3, 17.5, 8, "one episode: gap $j-i$ of\nthe two frames; two\nepisodes: a margin", "loss")
    _arrow(ax, (20, 18), (17.5, 11), colour=ORANGE)
    _arrow(ax, (35, 18), (30.5, 11), colour=ORANGE)
    _arrow(ax, (50, 18), (47.5, 11), colour=ORANGE)
    _box(ax, 58.5, 18, 11, 7, "now $z_0$ and\ngoal $z_g$", "data")
    _box(ax, 73, 18, 12, 7, f"roll out {horizon} blocks\nof {frameskip} actions", "model")
    _box(ax, 88.5, 18, 11, 7, "cost: $d_\\psi$, $\\ell_2$\nor a blend", "model")
    _box(ax, 66, 4, 18, 7, "CEM or iCEM: refit the\nproposal to its elites", "plan")
    _box(ax, 88.5, 4, 11, 7, "execute,\nlook, replan", "plan")
    _arrow(ax, (69.5, 21.5), (73, 21.5))
    _arrow(ax, (85, 21.5), (88.5, 21.5))
    _arrow(ax, (92, 18), (81, 11), colour=GREEN)
    _arrow(ax, (75, 11), (77, 18), colour=GREEN)
    _arrow(ax, (84, 7.5), (88.5, 7.5), colour=GREEN)
    return figure


def _box(ax: Axes, x: float, y: float, width: float, height: float, text: str, kind: str) -> None:
    style = {"fc": FILLS[kind], "ec": EDGES[kind], "ls": STYLES[kind], "lw": 0.9}
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.8", **style))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=6.5)


def _arrow(ax: Axes, start: tuple, end: tuple, colour: str = "black", bend: float = 0.0) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "lw": 0.8, "mutation_scale": 7, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", end, start, arrowprops={**look, "shrinkA": 0, "shrinkB": 0})
