"""Figures of planning success: by epoch, by cost, by weight of the blend, by training."""

from statistics import NormalDist

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tdjepa.evidence import published
from tdjepa.render.inputs import Inputs, seed_means
from tdjepa.render.labels import COSTS, ENVS, NOT_RUN, method_label, methods, planned_cost
from tdjepa.render.style import (
    COLUMN,
    COST_LOOK,
    GREY,
    MATH,
    ORANGE,
    PAGE,
    env_panels,
    grid,
    look,
    not_run,
    shared_legend,
    wilson,
)


def curve(inputs: Inputs, env: str, method: str, cost: str) -> list[tuple[int, float, int]]:
    """(epoch, percent, episodes) of the first training and plan seed under the published protocol."""
    p, out = inputs.params, []
    for cell in inputs.stats["cells"]:
        if (cell["env"], cell["method"], cell["cost"], cell["setting"]) != (env, method, cost, "main"):
            continue
        if p.train_seeds[0] in cell["train_seeds"] and p.evaluate.plan_seeds[0] in cell["plan_seeds"]:
            t = cell["train_seeds"].index(p.train_seeds[0])
            rate = cell["rates"][t][cell["plan_seeds"].index(p.evaluate.plan_seeds[0])]
            if rate is not None:
                out.append((cell["epoch"], rate, cell["n_episodes"]))
    return sorted(out)


def epoch_curve(inputs: Inputs) -> Figure:
    """Success by training epoch, first training and plan seed, as the paper's Figure 4."""
    p, cost = inputs.params, inputs.params.evaluate.curve_cost
    names = [m for m in dict.fromkeys(["tdjepa", *p.methods_run]) if m not in ("lewm",)]
    curves = {(env, m): curve(inputs, env, m, cost) for env in ENVS for m in names}
    curves = {key: points for key, points in curves.items() if len(points) > 1}
    envs = [env for env in ENVS if any(e == env for e, _ in curves)] or [p.envs[0]]
    figure, panels = env_panels(envs, 1.9)
    for env, ax in panels:
        _published_curve(ax, env, cost)
        drawn = [m for m in names if (env, m) in curves]
        for m in drawn:
            _own_curve(ax, curves[env, m], look(m), f"{method_label(p, m)}, reproduced", p.judge.level)
        for method, of_cost, style in (("lewm", "l2", "--"), ("random", "", ":")):
            cell = inputs.cell(env, method, of_cost)
            if cell:
                label = f"{method_label(p, method)}, reproduced"
                ax.axhline(cell["mean"], color=ORANGE if method == "lewm" else GREY, ls=style, lw=0.9, label=label)
        if not drawn:
            not_run(ax)
        ax.set(ylim=(-3, 103), ylabel="success (%)", xlabel="training epoch", title=f"{ENVS[env]}, {MATH[cost]}")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    shared_legend(figure, panels)
    return figure


def _published_curve(ax: Axes, env: str, cost: str) -> None:
    curve = published.epoch_curve(env, "tdjepa", cost)
    if curve:
        x = np.arange(1, len(curve["rates"]) + 1)
        ax.plot(x, curve["rates"], color="black", marker="D", mfc="white", ls="-.", lw=0.9, label="TD-JEPA, published")


def _own_curve(ax: Axes, points: list, looks: tuple, label: str, level: float) -> None:
    colour, marker, line = looks
    z = NormalDist().inv_cdf((1 + level) / 2)
    epochs, rates, _ = zip(*points, strict=True)
    low, high = zip(*(wilson(rate, n, z) for _, rate, n in points), strict=True)
    ax.fill_between(epochs, low, high, color=colour, alpha=0.15, lw=0)
    ax.plot(epochs, rates, color=colour, marker=marker, ls=line, label=label)


def cost_matrix(inputs: Inputs) -> Figure:
    """Success by plan cost on the same checkpoints, as the paper's Figure 3: bars are ours, diamonds published."""
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


def offline(inputs: Inputs) -> Figure:
    """The paper's Figure 5: (a) OGB-Cube by epoch under d_psi and the blend, (b) success by the weight of the blend."""
    figure, axes = grid(1, 2, PAGE, 1.9)
    _offline_epochs(axes[0, 0], inputs)
    _blend_sweep(axes[0, 1], inputs)
    for ax in axes[0]:
        ax.set(ylim=(-3, 103), ylabel="success (%)")
    return figure


def _offline_epochs(ax: Axes, inputs: Inputs) -> None:
    p, env, found = inputs.params, "cube", False
    for cost in ("d_psi", "blend"):
        colour, _, marker = COST_LOOK[cost]
        printed = published.epoch_curve(env, "tdjepa", cost)["rates"]
        x = np.arange(1, len(printed) + 1)
        ax.plot(x, printed, color=colour, marker=marker, mfc="white", ls=":", lw=0.9, label=f"{MATH[cost]}, published")
        points = curve(inputs, env, "tdjepa", cost)
        if points:
            looks = (colour, marker, "-")
            _own_curve(ax, points, looks, f"{MATH[cost]}, reproduced", p.judge.level)
            found = True
    if not found:
        not_run(ax)
    ax.set(xlabel="training epoch", title=f"(a) {ENVS[env]} by epoch")
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.legend(loc="lower right", ncols=2)


def _blend_sweep(ax: Axes, inputs: Inputs) -> None:
    source, found = published.load()["blend_sweep"], False
    colours = {"push_t": ("#0072B2", "o"), "cube": ("#D55E00", "s")}
    for env, (colour, marker) in colours.items():
        label = f"{ENVS[env]}, published"
        ax.plot(
            source["alphas"],
            source[env]["blend"],
            color=colour,
            marker=marker,
            mfc="white",
            ls=":",
            lw=0.9,
            label=label,
        )
        cells = [(a, inputs.swept(env, "tdjepa", cost="blend", alpha=float(a))) for a in source["alphas"]]
        points = [(a, cell["mean"]) for a, cell in cells if cell is not None]
        if points:
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, ls="-", label=f"{ENVS[env]}, reproduced")
            found = True
    if not found:
        not_run(ax)
    ax.set(xlabel=r"weight $\alpha$ of $\ell_2$ in the blend", title="(b) blend weight")
    ax.legend(loc="lower right", ncols=2)


def training_seeds(inputs: Inputs) -> Figure:
    """One dot a training: how much of a difference between methods could be luck. Published: Push-T, three trainings."""
    p = inputs.params
    groups = []
    for env in ENVS:
        for m in [m for m in methods(p) if m in p.methods_run]:
            cell = inputs.cell(env, m, planned_cost(p, env, m))
            if cell:
                groups.append((f"{ENVS[env]}\n{method_label(p, m)}", list(seed_means(cell).values()), cell, look(m)))
    figure, axes = grid(1, 1, COLUMN, 1.9)
    ax = axes[0, 0]
    for x, (_, means, cell, (colour, marker, _)) in enumerate(groups):
        ax.vlines(x, cell["low"], cell["high"], color=colour, lw=3, alpha=0.25)
        offsets = np.linspace(-0.12, 0.12, len(means)) if len(means) > 1 else [0.0]
        ax.plot(x + np.asarray(offsets), means, marker, color=colour, ms=4, mec="white", mew=0.4)
    names = [name for name, *_ in groups]
    for cost, means in published.trainings().items():
        x = len(names)
        values = list(means.values())
        ax.plot(x + np.linspace(-0.12, 0.12, len(values)), values, "D", mfc="white", mec="black", ms=3.5)
        names.append(f"Push-T\n{MATH[cost]}, publ.")
    if not groups:
        not_run(ax)
    ax.set(ylim=(0, 104), ylabel="success (%)", xlim=(-0.6, len(names) - 0.4))
    ax.set_xticks(range(len(names)), names, rotation=90 if len(names) > 6 else 0, fontsize=5.5)
    return figure
