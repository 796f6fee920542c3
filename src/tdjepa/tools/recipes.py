"""`tdjepa recipes`: success over the CPU-minutes of training, for each environment and method of a scale.

    tdjepa recipes --scale desk --docs docs/recipes.md

Success is that of the first training and plan seed at the epochs of evaluate.curve_epochs. Minutes are what the trainings said
at their end (results/<scale>/logs, median over training seeds, shared out by steps). They belong to the machine that trained, so
nothing in the report depends on them. The same as a figure lies in results/<scale>/recipes.
"""

import re
from pathlib import Path
from statistics import median

from tdjepa.base.artefacts import publish
from tdjepa.base.errors import UserError
from tdjepa.base.figure_files import save
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.runs import diagnosed_epochs, planned_cost
from tdjepa.report import figures, gather, inputs
from tdjepa.report.captions import texts
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import ENVS, cost_text, method_label
from tdjepa.report.phrases import number
from tdjepa.report.planning_figures import curve
from tdjepa.report.style import env_panels, finished, look
from tdjepa.report.table import RULE, Table
from tdjepa.steps.paths import path

Points = list[tuple[float, float]]  # (CPU-minutes, success in percent)


def run(p: Params) -> Table:
    """The table, and the figure written beside the results."""
    found = inputs.read(p, **gather.files(p))
    if not found.stats["cells"]:
        stats = path("evidence/stats.json", p.scale)
        raise UserError(f"{stats}: nothing was judged yet; run snakemake judge_all first")
    curves = {(env, m): points(found, env, m) for env in p.envs for m in runs.methods_in(p, env)}
    if not any(curves.values()):
        raise UserError(f"{path('log', p.scale)}: no training of scale {p.scale} left its times here; run it first")
    figure = figures.draw(lambda _: draw(p, curves), found)
    for kind in ("pdf", "png"):
        with publish(path(f"recipes/success_over_cpu.{kind}", p.scale)) as temporary:
            save(figure, temporary)
    return table(found, curves)


def points(found: Inputs, env: str, method: str) -> Points:
    """Success by CPU-minutes of one method; empty where its trainings left no times."""
    minutes = cpu_minutes(found.params, env, method)
    rates = curve(found, env, method, planned_cost(found.params, env, method))
    return [(minutes[epoch], rate) for epoch, rate, _ in rates if epoch in minutes]


def cpu_minutes(p: Params, env: str, method: str) -> dict[int, float]:
    """CPU-minutes of training up to each epoch."""
    said = [s for seed in p.train_seeds if (s := cpu_seconds(p.scale, env, method, seed)) is not None]
    # every epoch has as many steps as the others
    epochs = range(1, p.train.epochs + 1) if said else ()
    return {epoch: median(said) / 60 * epoch / p.train.epochs for epoch in epochs}


def cpu_seconds(scale: str, env: str, method: str, seed: int) -> float | None:
    """What a training of the run said at its end."""
    return said_seconds(Path(path(f"log/train_{env}_{method}_{seed}.log", scale)))


def said_seconds(log: Path) -> float | None:
    """CPU seconds, as the log of a training says at its end; None if there is no such word."""
    said = re.findall(r"^ *cpu_seconds +([\d.e+]+)$", log.read_text(errors="replace"), re.M) if log.exists() else []
    return float(said[-1]) if said else None


def table(found: Inputs, curves: dict[tuple[str, str], Points]) -> Table:
    """One line per environment and method, one column per evaluated epoch: success, and the minutes until then."""
    p, d = found.params, found.digits
    epochs = diagnosed_epochs(p)
    body: list[list[str] | None] = []
    for env in p.envs:
        for m in runs.methods_in(p, env):
            cost, minutes = planned_cost(p, env, m), cpu_minutes(p, env, m)
            rates = {epoch: rate for epoch, rate, _ in curve(found, env, m, cost)}
            shown = [f"{number(rates[e], d)} @ {number(minutes.get(e), 1)}" if e in rates else "–" for e in epochs]
            whole = found.cell(env, m, cost)
            last = "–" if whole is None else f"{number(whole['mean'], d)} ({whole['n_train_seeds']})"
            body.append([ENVS[env], f"{method_label(p, m)}, {cost_text(p, cost)}", *shown, last])
        body.append(RULE)
    head = ["Environment", "Method", *(f"epoch {epoch}" for epoch in epochs), "all trainings"]
    caption = texts()["phrases"]["recipes"].format(p=p) + equal_compute(p)
    return Table("recipes", caption, head, body[:-1], left=2)


def equal_compute(p: Params) -> str:
    """Did lewm_compute get TD-JEPA's time? The declared factor of steps beside the ratio of CPU time that was measured."""
    said = []
    for env in p.envs:
        ours, theirs = (cpu_minutes(p, env, m).get(p.train.epochs) for m in ("lewm_compute", "tdjepa"))
        if ours and theirs:
            factor = runs.recipe_of(p, env, "lewm_compute")[0].step_factor
            said.append(f"{ENVS[env]} {ours / theirs:.2f} ({factor:g})")
    label = f"CPU time of {method_label(p, 'lewm_compute')} over TD-JEPA's (and its steps over TD-JEPA's)"
    return f" {label}: {', '.join(said)}." if said else ""


def draw(p: Params, curves: dict[tuple[str, str], Points]):
    """Success over CPU-minutes, one panel per environment."""
    figure, panels = env_panels(list(p.envs), 1.6)
    for env, ax in panels:
        for m in runs.methods_in(p, env):
            if len(curves[env, m]) > 1:
                colour, marker, line = look(m)
                how = {"color": colour, "marker": marker, "ls": line, "label": method_label(p, m)}
                ax.plot(*zip(*curves[env, m], strict=True), **how)
        ax.set(ylim=(-3, 103), xlim=(0, None), title=ENVS[env])
    return finished(figure, [ax for _, ax in panels], "CPU-minutes of training", "success (%)")
