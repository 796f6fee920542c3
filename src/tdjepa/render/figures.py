"""The report's figures: vector PDF and PNG, the same bytes for the same input, told apart without colour."""

from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from tdjepa.evidence import alignment, published
from tdjepa.render.inputs import Inputs
from tdjepa.render.labels import COSTS, ENVS, NOT_RUN, method_label

COLUMN = 3.33  # inches, one column of acmart's sigconf
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"  # Okabe and Ito's, and a grey
MATH = {"d_psi": r"$d_\psi$", "l2": r"$\ell_2$", "blend": "blend"}
COST_LOOK = {"d_psi": (BLUE, "", "o"), "l2": (ORANGE, "///", "s"), "blend": (GREEN, "...", "^")}
METHOD_LOOK = {"tdjepa": (BLUE, "o", "-"), "lewm": (ORANGE, "s", "--"), "rc_aux": (GREEN, "^", "-.")}
STYLE = {
    "font.size": 7.5,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.framealpha": 0.85,
    "legend.edgecolor": "none",
    "legend.fontsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "tdjepa",
}


def look(method: str) -> tuple[str, str, str]:
    return METHOD_LOOK.get(method, (GREY, "D", ":"))


def draw(figure: Callable[[Inputs], Figure], inputs: Inputs) -> Figure:
    """One of the figures below, in the house style."""
    with matplotlib.rc_context(STYLE):
        return figure(inputs)


def save(figure: Figure, path) -> None:
    """Without dates or program versions, so that equal figures are equal files."""
    metadata = {"CreationDate": None, "Producer": None, "Creator": None}
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, metadata=metadata if str(path).endswith(".pdf") else {"Software": None}, dpi=200)


def grid(rows: int, columns: int, width: float, height: float) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def env_panels(envs: list[str], height: float) -> tuple[Figure, list[tuple[str, Axes]]]:
    """A panel an environment, two in a row, so that four environments still fit a column of the page."""
    columns = min(2, len(envs))
    figure, axes = grid(-(-len(envs) // columns), columns, COLUMN, height)
    for unused in axes.flat[len(envs) :]:
        unused.remove()
    return figure, list(zip(envs, axes.flat, strict=False))


def not_run(axes: Axes) -> None:
    box = {"facecolor": "white", "edgecolor": "none"}
    axes.text(0.5, 0.5, NOT_RUN, transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=9, bbox=box)
    if not axes.has_data():
        axes.set(xticks=[], yticks=[])


def envs_with(frame, inputs: Inputs) -> list[str]:
    """Environments that have lines in the frame; the first of the run when there are none."""
    found = set(frame["env"])
    return [env for env in ENVS if env in found] or [inputs.params.envs[0]]


# Planning -------------------------------------------------------------------------------------------------------------


def epoch_curve(inputs: Inputs) -> Figure:
    """Success by training epoch, first training and plan seed, as the paper's Figure 3."""
    p, cost = inputs.params, inputs.params.evaluate.curve_cost
    rows = inputs.rows
    rows = rows[(rows["train_seed"] == p.train_seeds[0]) & (rows["plan_seed"] == p.evaluate.plan_seeds[0])]
    rows = rows[rows["cost"] == cost]
    figure, panels = env_panels(envs_with(rows, inputs), 1.9)
    for env, ax in panels:
        _published_curve(ax, env, cost)
        for method, of_method in rows[rows["env"] == env].groupby("method", sort=True):
            _own_curve(ax, of_method, *look(method), f"{method_label(p, method)}, reproduced", p.judge.level)
        for method, of_cost, style in (("lewm", "l2", "--"), ("random", "", ":")):
            cell = inputs.cell(env, method, of_cost)
            if cell:
                label = f"{method_label(p, method)}, reproduced"
                ax.axhline(cell["mean"], color=ORANGE if method == "lewm" else GREY, ls=style, lw=0.9, label=label)
        if not (rows["env"] == env).any():
            not_run(ax)
        ax.set(ylim=(-3, 103), ylabel="success (%)", xlabel="training epoch", title=f"{ENVS[env]}, {MATH[cost]}")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _shared_legend(figure, panels)
    return figure


def _shared_legend(figure: Figure, panels: list[tuple[str, Axes]]) -> None:
    """One legend for all panels, above them, where it covers nothing."""
    labelled = {}
    for _, ax in panels:
        handles, labels = ax.get_legend_handles_labels()
        labelled |= dict(zip(labels, handles, strict=True))
    if labelled:
        figure.legend(
            labelled.values(), labelled.keys(), loc="outside upper center", ncols=3 if len(labelled) == 3 else 2
        )


def _published_curve(ax: Axes, env: str, cost: str) -> None:
    curve = published.epoch_curve(env, "tdjepa", cost)
    if curve:
        x = np.arange(1, len(curve["rates"]) + 1)
        ax.plot(x, curve["rates"], color="black", marker="D", mfc="white", ls="-.", lw=0.9, label="TD-JEPA, published")


def _own_curve(ax: Axes, rows, colour: str, marker: str, line: str, label: str, level: float) -> None:
    by_epoch = rows.groupby("epoch", sort=True)["success"].agg(["sum", "count"])
    rate = 100 * by_epoch["sum"] / by_epoch["count"]
    bounds = [
        stats.binomtest(int(k), int(n)).proportion_ci(level, "wilson") for k, n in by_epoch.itertuples(index=False)
    ]
    low, high = np.array([[100 * b.low, 100 * b.high] for b in bounds]).T
    ax.fill_between(by_epoch.index, low, high, color=colour, alpha=0.15, lw=0)
    ax.plot(by_epoch.index, rate, color=colour, marker=marker, ls=line, label=label)


def cost_matrix(inputs: Inputs) -> Figure:
    """Success by plan cost on the same checkpoints, as the paper's Figure 2: bars are ours, diamonds published."""
    figure, axes = grid(1, 1, COLUMN, 1.8)
    ax = axes[0, 0]
    costs = list(COSTS)
    for i, env in enumerate(ENVS):
        cells = [inputs.cell(env, "tdjepa", cost) for cost in costs]
        for j, (cost, cell) in enumerate(zip(costs, cells, strict=True)):
            x = i + 0.26 * (j - 1)
            _bar(ax, x, cell, cost, label=i == 0)
            printed = published.cell(env, "tdjepa", cost)
            if printed:
                label = "published" if i == j == 0 else None
                ax.errorbar(
                    x + 0.06, printed["mean"], printed["std"], fmt="D", ms=3, mfc="white", mec="black", color="black",
                    elinewidth=0.6, label=label,
                )  # fmt: skip
        floor = inputs.cell(env, "random")
        if floor:
            ax.hlines(floor["mean"], i - 0.42, i + 0.42, color="black", ls=":", lw=0.9, label="random")
        if not any(cells):
            ax.text(i, 3, NOT_RUN, ha="center", color=GREY, fontsize=6.5)
    ax.set(xlim=(-0.55, len(ENVS) - 0.45), ylim=(0, 104), ylabel="success (%)")
    ax.set_xticks(range(len(ENVS)), list(ENVS.values()))
    by_label = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))  # one entry a label
    order = [name for name in (*MATH.values(), "published", "random") if name in by_label]
    figure.legend([by_label[name] for name in order], order, loc="outside upper center", ncols=5, columnspacing=1)
    return figure


def _bar(ax: Axes, x: float, cell: dict | None, cost: str, label: bool) -> None:
    colour, hatch, _ = COST_LOOK[cost]
    mean = cell["mean"] if cell else 0
    name = MATH[cost] if label else None
    ax.bar(x, mean, 0.24, color=colour, alpha=0.75, hatch=hatch, edgecolor="white", lw=0.5, label=name)
    if cell:
        error = [[mean - cell["low"]], [cell["high"] - mean]]
        ax.errorbar(x - 0.06, mean, error, color="black", elinewidth=0.8, capsize=1.5)


# Diagnostics ----------------------------------------------------------------------------------------------------------


def alignment_scatter(inputs: Inputs) -> Figure:
    """Cost against step gap on held-out pairs, as the paper's Figure 1: LeWM's l2 beside TD-JEPA's d_psi."""
    envs = envs_with(inputs.pairs, inputs)
    figure, axes = grid(len(envs), 2, COLUMN, 1.75 if len(envs) == 1 else 1.4)
    for env, row in zip(envs, axes, strict=True):
        for ax, (method, measure) in zip(row, (("lewm", "l2"), ("tdjepa", "d_psi")), strict=True):
            _scatter(ax, inputs, env, method, measure)
            ax.set_xlabel(r"step gap $\tau$")
            ax.set_ylabel(f"{MATH[measure]} of {method_label(inputs.params, method)}")
    return figure


def _scatter(ax: Axes, inputs: Inputs, env: str, method: str, measure: str) -> None:
    seed = inputs.params.train_seeds[0]
    p = inputs.pairs
    part = p[(p["env"] == env) & (p["method"] == method) & (p["train_seed"] == seed)].dropna(subset=[measure])
    rho = alignment.over_seeds(
        inputs.ranks, env=env, method=method, train_seed=seed, measure=measure, split="all"
    )  # of the seed that is drawn
    if part.empty or rho is None:
        not_run(ax)
        return
    colour = look(method)[0]
    spread = 0.3 * np.cos(np.arange(len(part)) * 2.4)  # fixed jitter: tau is whole
    ax.plot(part["tau"] + spread, part[measure], ".", ms=1.6, mew=0, color=colour, alpha=0.45)
    slope, offset = np.polyfit(part["tau"], part[measure], 1)
    ends = np.array([part["tau"].min(), part["tau"].max()])
    ax.plot(ends, slope * ends + offset, color="black", lw=1.1)
    ax.set(ylim=(0, 1.05 * part[measure].quantile(0.999)), title=rf"{ENVS[env]}, $\rho$ = {rho[0]:.2f}")


def calibration(inputs: Inputs) -> Figure:
    """Mean d_psi for each step gap against the gap itself in model steps."""
    p = inputs.params
    known = inputs.pairs.dropna(subset=["d_psi"])
    figure, panels = env_panels(envs_with(known, inputs), 1.8)
    for env, ax in panels:
        gaps = np.array([1, p.mine.goal_offset])
        ax.plot(gaps, gaps / p.mine.frameskip, color="black", ls=":", lw=1, label=rf"$\tau$ / {p.mine.frameskip}")
        of_env = known[known["env"] == env]
        if of_env.empty:
            not_run(ax)
        for method, of_method in of_env.groupby("method", sort=True):
            colour, marker, line = look(method)
            table = alignment.calibration(of_method)
            ax.errorbar(
                table["tau"], table["mean"], table["std"], color=colour, marker=marker, ls=line, elinewidth=0.6,
                capsize=1, label=f"{method_label(p, method)}, mean ± std",
            )  # fmt: skip
        ax.set(xlabel=r"step gap $\tau$", ylabel=rf"{MATH['d_psi']} (model steps)", title=ENVS[env], ylim=(0, None))
    _shared_legend(figure, panels)
    return figure


def aliasing(inputs: Inputs) -> Figure:
    """Latent change when the agent is moved by some pixels: a code periodic in the patch falls back at one patch."""
    p = inputs.params
    found = [a["env"] for a in inputs.aliasing]
    figure, panels = env_panels([env for env in ENVS if env in found] or [p.envs[0]], 1.7)
    for env, ax in panels:
        of_env = [a for a in inputs.aliasing if a["env"] == env]
        if not of_env:
            not_run(ax)
        for method in dict.fromkeys(a["method"] for a in of_env):
            colour, marker, line = look(method)
            runs = [a for a in of_env if a["method"] == method]
            for i, a in enumerate(runs):  # one line a training
                label = method_label(p, method) if i == 0 else None
                ax.plot(a["shift_px"], a["change"], color=colour, marker=marker, ms=2.5, ls=line, lw=0.9, label=label)
        for a in of_env[:1]:
            ax.axvline(a["patch"], color="black", ls=":", lw=0.9, label="one patch")
        ax.set(xlabel="shift of the agent (px)", ylabel="relative latent change", title=ENVS[env], ylim=(0, None))
    _shared_legend(figure, panels)
    return figure


def training(inputs: Inputs) -> Figure:
    """Loss and effective rank of the latents by epoch: did every training converge, did any collapse?"""
    p, curves = inputs.params, inputs.curves
    figure, axes = grid(1, 2, COLUMN, 1.5)
    for ax, column, label in zip(axes[0], ("loss", "effective_rank"), ("loss", "effective rank"), strict=True):
        if curves.empty:
            not_run(ax)
        for method, of_method in curves.groupby("method", sort=True):
            colour, _, line = look(method)
            for i, (_, run) in enumerate(of_method.groupby(["env", "train_seed"], sort=True)):
                last = run.groupby("epoch", sort=True)[column].last()
                name = method_label(p, method) if i == 0 else None
                ax.plot(last.index, last, color=colour, ls=line, lw=0.9, label=name)
        ax.set(xlabel="epoch", ylabel=label)
        if not curves.empty:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            ax.set_ylim(0, None)
    if not curves.empty:
        axes[0, 0].legend(loc="upper right")
    return figure


ALL = {
    "epoch_curve": epoch_curve,
    "alignment": alignment_scatter,
    "calibration": calibration,
    "cost_matrix": cost_matrix,
    "aliasing": aliasing,
    "training": training,
}
