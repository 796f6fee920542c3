"""Figures of the latents: do costs follow the step gap, is the code periodic in the patch, did trainings converge?"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tdjepa.evidence import alignment
from tdjepa.render.inputs import Inputs
from tdjepa.render.labels import ENVS, method_label
from tdjepa.render.style import COLUMN, MATH, env_panels, envs_with, grid, look, not_run, shared_legend


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
    """Mean d_psi for each step gap against the gap itself in model steps, as the paper's Figure 6."""
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
    shared_legend(figure, panels)
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
    shared_legend(figure, panels)
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
