"""Figures of planning success: by epoch, by cost, by weight of the blend, by training."""

import textwrap
from statistics import NormalDist

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tdjepa.config.names import MAIN
from tdjepa.evidence import published
from tdjepa.report import style
from tdjepa.report.inputs import Inputs, seed_means
from tdjepa.report.labels import COSTS, ENVS, NOT_RUN, method_label, methods_run
from tdjepa.report.style import BLUE, COLUMN, COST_LOOK, GREY, MATH, ORANGE, PAGE, grid, look, not_run


def curve(inputs: Inputs, env: str, method: str, cost: str) -> list[tuple[int, float, int]]:
    """(epoch, percent, episodes) of the first training and plan seed under the published protocol; earlier epochs of costs
    that the protocol follows at its end only are in a sweep, <environment>_epochs."""
    points = {}
    for setting in (MAIN, f"{env}_epochs"):  # where both have an epoch, the sweep's counts: it may have its own pairs
        for cell in inputs.stats["cells"]:
            wanted = (cell["env"], cell["method"], cell["cost"], cell["setting"]) == (env, method, cost, setting)
            if wanted and cell.get("design", MAIN) == MAIN and (rate := first_run(inputs, cell)) is not None:
                points[cell["epoch"]] = (cell["epoch"], rate, cell["n_episodes"])
    return sorted(points.values())


def first_run(inputs: Inputs, cell: dict) -> float | None:
    """A cell's percent for the first training and plan seed (a sweep may have its own); None where it lacks them."""
    train, plan = inputs.params.train_seeds[0], inputs.params.evaluate.plan_seeds[0]
    own = getattr(inputs.params.evaluate.sweeps.get(cell["setting"]), "plan_seed", None)
    plan = plan if own is None else own
    if train not in cell["train_seeds"] or plan not in cell["plan_seeds"]:
        return None
    return cell["rates"][cell["train_seeds"].index(train)][cell["plan_seeds"].index(plan)]


def epoch_curve(inputs: Inputs) -> Figure:
    """Success by training epoch, first training and plan seed, as the paper's Figure 4."""
    p, cost = inputs.params, inputs.params.evaluate.curve_cost
    curves = {env: points for env in ENVS if len(points := curve(inputs, env, "tdjepa", cost)) > 1}
    envs = list(curves) or [p.envs[0]]
    figure, axes = grid(1, len(envs), PAGE if len(envs) > 2 else COLUMN, 1.5)
    for env, ax in zip(envs, axes[0], strict=True):
        _published_curve(ax, env, cost, color="black", marker="D", ls="-.", label="TD-JEPA, published")
        if env in curves:
            label = f"{method_label(p, 'tdjepa')}, {MATH[cost]}"
            _own_curve(ax, curves[env], look("tdjepa"), label, p.judge.level)
        for method, of_cost, colour, line in (("lewm", "l2", ORANGE, "--"), ("random", "", GREY, ":")):
            if cell := inputs.cell(env, method, of_cost):
                label = f"{method_label(p, method)}, at the end" if of_cost else method_label(p, method)
                ax.axhline(cell["mean"], color=colour, ls=line, lw=0.9, label=label)
        if env not in curves:
            not_run(ax)
        ax.set(ylim=(-3, 103), title=ENVS[env], xlabel="training epoch")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes[0, 0].set_ylabel("success (%)")
    return style.finished(figure, axes.flat)


def _published_curve(ax: Axes, env: str, cost: str, **how) -> None:
    if curve := published.epoch_curve(env, "tdjepa", cost):
        ax.plot(np.arange(1, len(curve["rates"]) + 1), curve["rates"], mfc="white", lw=0.9, **how)


def _own_curve(ax: Axes, points: list, looks: tuple, label: str, level: float) -> None:
    colour, marker, line = looks
    z = NormalDist().inv_cdf((1 + level) / 2)
    epochs, rates, _ = zip(*points, strict=True)
    low, high = zip(*(style.wilson(rate, n, z) for _, rate, n in points), strict=True)
    ax.fill_between(epochs, low, high, color=colour, alpha=0.15, lw=0)
    ax.plot(epochs, rates, color=colour, marker=marker, ls=line, label=label)


def cost_matrix(inputs: Inputs) -> Figure:
    """Success by plan cost on the same checkpoints, as the paper's Figure 3: bars are ours, diamonds published."""
    figure, axes = grid(1, 1, COLUMN, 1.7)
    ax, diamond = axes[0, 0], {"fmt": "D", "ms": 3, "mfc": "white", "mec": "black", "color": "black", "elinewidth": 0.6}
    for i, env in enumerate(ENVS):
        cells = {cost: inputs.cell(env, "tdjepa", cost) for cost in COSTS}
        for j, (cost, cell) in enumerate(cells.items()):
            x = i + 0.26 * (j - 1)
            _bar(ax, x, cell, cost, label=MATH[cost] if i == 0 else None)
            if printed := published.cell(env, "tdjepa", cost):
                label = "published" if i == j == 0 else None
                ax.errorbar(x + 0.06, printed["mean"], printed["std"], label=label, **diamond)
        if floor := inputs.cell(env, "random"):
            ax.hlines(floor["mean"], i - 0.42, i + 0.42, color="black", ls=":", lw=0.9, label="random")
        if not any(cells.values()):
            ax.text(i, 3, NOT_RUN, ha="center", color=GREY, fontsize=6.5)
    ax.set(xlim=(-0.55, len(ENVS) - 0.45), ylim=(0, 104), ylabel="success (%)")
    ax.set_xticks(range(len(ENVS)), list(ENVS.values()))
    by_label = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))  # one entry per label
    order = [name for name in (*MATH.values(), "published", "random") if name in by_label]
    figure.legend([by_label[name] for name in order], order, loc="outside upper center", ncols=5, columnspacing=1)
    return figure


def _bar(ax: Axes, x: float, cell: dict | None, cost: str, label: str | None) -> None:
    (colour, hatch, _), mean = COST_LOOK[cost], cell["mean"] if cell else 0
    ax.bar(x, mean, 0.24, color=colour, alpha=0.75, hatch=hatch, edgecolor="white", lw=0.5, label=label)
    if cell:
        error = [[mean - cell["low"]], [cell["high"] - mean]]
        ax.errorbar(x - 0.06, mean, error, color="black", elinewidth=0.8, capsize=1.5)


def offline(inputs: Inputs) -> Figure:
    """The paper's Figure 5: (a) OGB-Cube by epoch under d_psi and the blend, (b) success by the weight of the blend; faint:
    a second run of the same checkpoint in the authors' files, which their figure leaves out."""
    figure, axes = grid(1, 2, PAGE, 1.65)
    for ax, panel, title in zip(axes[0], (_offline_epochs, _blend_sweep), ("(a)", "(b)"), strict=True):
        if not panel(ax, inputs):
            not_run(ax)
        ax.set_title(title, loc="left")  # the legend on the right of the same line, where it covers nothing
        ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)
        ax.set(ylim=(-3, 103), ylabel="success (%)")
    return figure


def _offline_epochs(ax: Axes, inputs: Inputs) -> bool:
    """(a), and whether anything of it was run."""
    p, env, found = inputs.params, "cube", False
    for cost in ("d_psi", "blend"):
        colour, _, marker = COST_LOOK[cost]
        _published_curve(ax, env, cost, color=colour, marker=marker, ls=":", label=f"{MATH[cost]}, published")
        if points := curve(inputs, env, "tdjepa", cost):
            _own_curve(ax, points, (colour, marker, "-"), f"{MATH[cost]}, reproduced", p.judge.level)
            found = True
    ax.set(xlabel=f"training epoch, {ENVS[env]}", xlim=(0.8, None))
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return found


def _blend_sweep(ax: Axes, inputs: Inputs) -> bool:
    """(b), and whether anything of it was run."""
    source, found = published.load()["blend_sweep"], False
    for env, colour, marker in (("push_t", BLUE, "o"), ("cube", ORANGE, "s")):
        printed = {"color": colour, "marker": marker, "mfc": "white", "ls": ":", "lw": 0.9}
        ax.plot(source["alphas"], source[env]["blend"], label=f"{ENVS[env]}, published", **printed)
        if again := source[env].get("rerun"):
            ax.plot(source["alphas"], again["blend"], label="_rerun", alpha=0.4, **printed)  # named in the caption
        cells = [(a, inputs.swept(env, "tdjepa", setting="blend", alpha=float(a))) for a in source["alphas"]]
        points = [(a, rate) for a, cell in cells if cell and (rate := first_run(inputs, cell)) is not None]
        if points:
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, ls="-", label=f"{ENVS[env]}, reproduced")
            found = True
    ax.set(xlabel=r"weight $\alpha$ of $\ell_2$ in the blend")
    return found


def training_seeds(inputs: Inputs) -> Figure:
    """One mark a training, with the deployed cost: how much of a difference between methods could be luck? Bars: intervals
    of the mean; open diamonds: the authors' three trainings on Push-T."""
    p = inputs.params
    names = methods_run(p) or ["tdjepa"]
    cells = {(env, m): inputs.deployed(env, m) for env in ENVS for m in names}
    envs = [env for env in ENVS if env == "push_t" or any(cells[env, m] for m in names)]
    figure, axes = grid(1, len(envs), PAGE, 0.45 + 0.18 * len(names))
    for env, ax in zip(envs, axes[0], strict=True):
        for y, m in enumerate(names):
            if cell := cells[env, m]:
                _trainings(ax, y, cell, look(m))
        if env == "push_t" and "tdjepa" in names:  # the only environment whose trainings were published
            values = list(published.trainings()[published.load()["deployed"][env]].values())
            y = names.index("tdjepa") + 0.22
            ax.plot(values, [y] * len(values), "D", mfc="white", mec="black", ms=3.2, label="published")
        if not any(cells.values()):
            not_run(ax)
        ax.set(xlim=(0, 104), ylim=(len(names) - 0.5, -0.5), xlabel="success (%)", title=ENVS[env])
        ax.set_yticks(range(len(names)), [method_label(p, m) for m in names] if ax is axes[0, 0] else [""] * len(names))
        style.light_grid(ax)
    return figure


def _trainings(ax: Axes, y: float, cell: dict, looks: tuple) -> None:
    """A bar from the low to the high end of the interval, and a mark for each training."""
    (colour, marker, _), means = looks, list(seed_means(cell).values())
    ax.hlines(y, cell["low"], cell["high"], color=colour, lw=3.5, alpha=0.3)
    ax.plot(means, [y] * len(means), marker, color=colour, ms=4, mec="black", mew=0.4)


def variants(inputs: Inputs) -> Figure:
    """The full model and what is left when a part is taken away, by plan cost, with intervals; open marks: the paper's
    Table 4, where the full model seems not to be continued."""
    source = published.load()["ablations"]
    env, printed = source["env"], source["rows"]
    names = ["tdjepa", "tdjepa_continued", *(m for m in printed if m != "tdjepa")]
    figure, axes = grid(1, 1, COLUMN, 2.0)
    ax, found = axes[0, 0], False
    for y, m in enumerate(names):
        for i, cost in enumerate(COSTS):
            colour, _, marker = COST_LOOK[cost]
            where, label = y + 0.24 * (i - 1), MATH[cost] if m == "tdjepa" else None
            if cell := inputs.cell(env, m, cost):
                ax.hlines(where, cell["low"], cell["high"], color=colour, lw=1)
                ax.plot(cell["mean"], where, marker, color=colour, ms=4, label=label)
                found = True
            if m in printed:
                label = "published" if label and cost == list(COSTS)[-1] else None
                ax.plot(printed[m][cost][0], where, marker, mfc="white", mec="black", ms=3, mew=0.7, label=label)
    if not found:
        not_run(ax)
    ax.set(xlim=(0, 104), ylim=(len(names) - 0.5, -0.5), xlabel=f"success on {ENVS[env]} (%)")
    labels = [source["labels"].get(m, "full, continued") for m in names]
    ax.set_yticks(range(len(names)), [textwrap.fill(label, 18) for label in labels])
    style.light_grid(ax)
    return style.finished(figure, [ax])
