"""Figures of the latents: do costs follow the step gap, is the code periodic in the patch, did trainings converge?"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tdjepa.evidence import alignment, published
from tdjepa.report import style
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import ENVS, main_methods, method_label
from tdjepa.report.style import COLUMN, ENV_LOOK, GREY, MATH, PAGE, finished, look, not_run


def alignment_scatter(inputs: Inputs) -> Figure:
    """Cost against step gap on held-out pairs, as the paper's Figure 1: LeWM's l2 beside TD-JEPA's d_psi. In the corner: what
    is published."""
    envs = style.envs_with(inputs.pairs, inputs)
    in_a_row = min(2, len(envs))  # environments, of two panels each
    shown = [(env, *drawn) for env in envs for drawn in (("lewm", "l2"), ("tdjepa", "d_psi"))]
    figure, panels = style.panels(shown, 2 * in_a_row, in_a_row * PAGE / 2, 1.2)
    for (env, method, measure), ax in panels:
        _scatter(ax, inputs, env, method, measure)
        ax.set_ylabel(f"{MATH[measure]} of {method_label(inputs.params, method)}")
    figure.supxlabel(r"step gap $\tau$", fontsize=7.5)
    return figure


def _scatter(ax: Axes, inputs: Inputs, env: str, method: str, measure: str) -> None:
    seed = inputs.params.train_seeds[0]
    p, printed = inputs.pairs, published.load()["gap"]
    if env == printed["env"]:
        where = {"transform": ax.transAxes, "va": "top", "fontsize": 6, "zorder": 3}
        ax.text(0.03, 0.99, rf"published: $\rho$ = {printed[method][measure]:.2f}", **where)
    part = p[(p["env"] == env) & (p["method"] == method) & (p["train_seed"] == seed)].dropna(subset=[measure])
    if measure == "l2":
        part = part.assign(
            l2=part["l2"] ** 0.5
        )  # pairs hold the planner's, squared; the published axis is not, and rho is the same
    rho = inputs.rank(env, method, measure, train_seed=seed)  # of the seed that is drawn
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
    """Mean d_psi of TD-JEPA for each step gap against the gap itself in model steps, as the paper's Figure 6; bars: std."""
    p = inputs.params
    known = inputs.pairs[inputs.pairs["method"] == "tdjepa"].dropna(subset=["d_psi"])
    figure, axes = style.grid(1, 1, COLUMN, 1.7)
    ax, gaps = axes[0, 0], np.array([1, p.mine.goal_offset])
    ax.plot(gaps, gaps / p.mine.frameskip, color=GREY, lw=1.6, label=rf"$\tau$ / {p.mine.frameskip}")
    if known.empty:
        not_run(ax)
    for i, (env, (colour, marker, line)) in enumerate(ENV_LOOK.items()):
        of_env = known[known["env"] == env]
        if len(of_env):
            table = alignment.calibration(of_env)
            aside = 0.12 * (i - 1.5)  # so that bars do not hide each other
            look_ = {"color": colour, "marker": marker, "ms": 2.5, "ls": line, "lw": 0.9, "elinewidth": 0.5}
            ax.errorbar(table["tau"] + aside, table["mean"], table["std"], label=ENVS[env], **look_)
    ax.set(xlabel=r"step gap $\tau$", ylabel=rf"{MATH['d_psi']} (model steps)", ylim=(0, None))
    return finished(figure, [ax])


def aliasing(inputs: Inputs) -> Figure:
    """Latent change when the agent is moved by some pixels, one line a training: a code periodic in the patch falls back at
    one patch."""
    p = inputs.params
    found = [a for a in inputs.aliasing if a["method"] in main_methods(p)]
    envs = [env for env in ENVS if any(a["env"] == env for a in found)]
    figure, panels = style.env_panels(envs or [p.envs[0]], 1.45)
    for env, ax in panels:
        of_env = [a for a in found if a["env"] == env]
        if not of_env:
            not_run(ax)
        for method in main_methods(p):
            colour, marker, line = look(method)
            for i, a in enumerate(a for a in of_env if a["method"] == method):
                label = method_label(p, method) if i == 0 else None
                ax.plot(a["shift_px"], a["change"], color=colour, marker=marker, ms=2.5, ls=line, lw=0.8, label=label)
        for a in of_env[:1]:
            ax.axvline(a["patch"], color="black", ls=":", lw=0.9, label="one patch")
        ax.set(title=ENVS[env], ylim=(0, None))
    return finished(figure, [ax for _, ax in panels], "shift of the agent (px)", "relative change")


def training(inputs: Inputs) -> Figure:
    """Loss and effective rank of the latents by epoch, one line a training: did all converge, did any collapse?"""
    p, curves = inputs.params, inputs.curves
    curves = curves[curves["method"].isin(main_methods(p))]
    envs = style.envs_with(curves, inputs)
    figure, axes = style.grid(2, len(envs), PAGE if len(envs) > 2 else COLUMN, 1.05)
    for env, column in zip(envs, axes.T, strict=True):
        column[0].set_title(ENVS[env])
        column[0].tick_params(labelbottom=False)  # the panel below has the same epochs
        for ax, value in zip(column, ("loss", "effective_rank"), strict=True):
            _curves(ax, inputs, curves[curves["env"] == env], value)
    for ax, label in zip(axes[:, 0], ("loss", "effective rank"), strict=True):
        ax.set_ylabel(label)
    return finished(figure, axes.flat, "training epoch")


def _curves(ax: Axes, inputs: Inputs, of_env, value: str) -> None:
    if of_env.empty:
        not_run(ax)
        return
    for method in main_methods(inputs.params):
        colour, _, line = look(method)
        for i, (_, run) in enumerate(of_env[of_env["method"] == method].groupby("train_seed", sort=True)):
            last = run.groupby("epoch", sort=True)[value].last()
            name = method_label(inputs.params, method) if i == 0 else None
            ax.plot(last.index, last, color=colour, ls=line, lw=0.8, label=name)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.set_ylim(0, None)
