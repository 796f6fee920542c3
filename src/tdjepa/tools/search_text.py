"""What a recipe search found, as the tables and the figure of docs/recipes.md. Nothing there is typed by hand."""

from collections import defaultdict
from itertools import groupby
from math import sqrt
from pathlib import Path
from statistics import mean

from tdjepa.base.artefacts import publish, read_json
from tdjepa.base.figure_files import save
from tdjepa.config.params import Params
from tdjepa.config.runs import planned_cost
from tdjepa.config.trials import Job
from tdjepa.config.yaml_file import read_yaml
from tdjepa.report.gather import insert
from tdjepa.report.labels import ENVS, cost_text, method_label
from tdjepa.report.style import env_panels, finished, look
from tdjepa.report.table import Strong, Table
from tdjepa.steps.paths import path

BUDGETS = (1, 2, 3, 5, 10)  # CPU-minutes of a training
Found = dict[tuple[str, str, str], list[dict]]  # (environment, method, trial) -> its results, by training seed


def gather(scale: str, wanted: list[Job]) -> Found:
    """The finished trials of the grid; one whose parameters have changed since is shown with a dagger until it is run again."""
    found: Found = defaultdict(list)
    for job in wanted:
        file = Path(path("trials", scale, name=f"{job.name}.json"))
        if file.exists():
            done = read_json(file)
            found[job.train.env, job.train.method_name, job.trial].append(done | {"old": done["key"] != job.key})
    return dict(found)


def markdown(p: Params, found: Found, wanted: list[Job]) -> str:
    parts = [effort(p, wanted, found).to_markdown()]
    for env, _ in groupby(found, key=lambda place: place[0]):
        parts.append(f"### {ENVS[env]}\n\n{trials(p, found, env).to_markdown()}")
    if found:
        parts += [f"### Success over CPU-minutes\n\n{by_budget(p, found).to_markdown()}"]
        parts += [f"![Success over CPU-minutes](../{path('recipes/search.png', p.scale)})\n"]
    return "\n".join(parts)


def effort(p: Params, wanted: list[Job], found: Found) -> Table:
    """Trials by method and environment, finished and declared: were the baselines tuned as long as TD-JEPA?"""
    declared = {(job.train.env, job.train.method_name, job.trial) for job in wanted}
    envs = [env for env in ENVS if any(place[0] == env for place in declared)]
    methods = dict.fromkeys(job.train.method_name for job in wanted)

    def cell(env: str, method: str) -> str:
        here = [place for place in declared if place[:2] == (env, method)]
        minutes = sum(r["cpu_seconds"] or 0 for place in here for r in found.get(place, ())) / 60
        return f"{sum(place in found for place in here)} of {len(here)}, {minutes:.0f} min" if here else "–"

    body = [[method_label(p, m), *(cell(env, m) for env in envs)] for m in methods]
    caption = "Trials that were run, of those in the grid, and the CPU-minutes of their trainings."
    return Table("effort", caption, ["Method", *(ENVS[env] for env in envs)], body)


def trials(p: Params, found: Found, env: str) -> Table:
    """One line per trial and method of an environment; the best of each method by the cost that it is shown with in bold."""
    here = {place[1:]: results for place, results in found.items() if place[0] == env}
    costs = list(dict.fromkeys(cost for results in here.values() for r in results for cost in r["success"]))
    kinds = list(dict.fromkeys(k for rs in here.values() for r in rs for s in r["success"].values() for k in s))
    best = {}
    for (method, trial), results in here.items():
        score = rate(results, planned_cost(p, env, method), shown_pairs(env))[0]
        best[method] = max(best.get(method, (-1.0, "")), (score, trial))
    body = []
    for (method, trial), results in here.items():
        minutes, steps = cpu_minutes(results), results[0]["steps"]
        name = trial + (" †" if any(r["old"] for r in results) else "")
        name = Strong(name) if best[method][1] == trial else name
        numbers = [" / ".join(percent(results, cost, kind) for kind in kinds) for cost in costs]
        spent = f"{'–' if minutes is None else f'{minutes:.1f}'} / {steps}"
        what = results[0]["changes"] or "as at this scale"
        body.append([method_label(p, method), name, what, results[0]["planner"], str(len(results)), spent, *numbers])
    head = ["Method", "Trial", "Changed", "Planner", "Trainings", "CPU-min / steps", *(cost_text(p, c) for c in costs)]
    names = {"all": "all validation pairs", "not_trivial": "without those solved at the start"}
    said = [names.get(kind, f"of {kind.removeprefix('kind_')} episodes") for kind in kinds]
    caption = (
        f"Success in percent ± its standard error over pairs: {' / '.join(said)}. Mean over trainings where there are"
    )
    caption += " several. Bold: the method's best; †: with parameters that have changed since."
    return Table("trials", caption, head, body, left=3)


def by_budget(p: Params, found: Found) -> Table:
    """The best trial that stays within so many CPU-minutes of training, by environment and method."""
    body = []
    for env, method in dict.fromkeys(place[:2] for place in found):
        points = curve(p, found, env, method)
        reached = [max((score for minutes, score in points if minutes <= limit), default=None) for limit in BUDGETS]
        label = f"{method_label(p, method)}, {cost_text(p, planned_cost(p, env, method))}"
        body.append([ENVS[env], label, *("–" if score is None else f"{score:.1f}" for score in reached)])
    head = ["Environment", "Method", *(f"≤ {limit} min" for limit in BUDGETS)]
    caption = "Success in percent of the best trial within so many CPU-minutes of training (validation pairs"
    return Table("by_budget", f"{caption}; Cube without those solved at the start).", head, body, left=2)


def draw(p: Params, found: Found) -> None:
    """Every trial as a point, and the best up to so many CPU-minutes as a line; one panel per environment."""
    envs = [env for env in ENVS if any(place[0] == env for place in found)]
    figure, panels = env_panels(envs, 1.6)
    for env, ax in panels:
        for method in dict.fromkeys(place[1] for place in found if place[0] == env):
            points = sorted(curve(p, found, env, method))
            if not points:
                continue
            colour, marker, line = look(method)
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, ls="", alpha=0.5)
            best = [(minutes, max(s for m, s in points if m <= minutes)) for minutes, _ in points]
            ax.step(*zip(*best, strict=True), where="post", color=colour, ls=line, label=method_label(p, method))
        ax.set(ylim=(-3, 103), xlim=(0, None), title=ENVS[env])
    figure = finished(figure, [ax for _, ax in panels], "CPU-minutes of training", "success (%)")
    with publish(path("recipes/search.png", p.scale)) as temporary:
        save(figure, temporary)


def curve(p: Params, found: Found, env: str, method: str) -> list[tuple[float, float]]:
    """(CPU-minutes, success) of every trial of a method that left its time."""
    cost, pairs = planned_cost(p, env, method), shown_pairs(env)
    here = [results for place, results in found.items() if place[:2] == (env, method)]
    return [(cpu_minutes(rs), rate(rs, cost, pairs)[0]) for rs in here if cpu_minutes(rs) is not None]


def shown_pairs(env: str) -> str:
    return "not_trivial" if env == "cube" else "all"


def rate(results: list[dict], cost: str, kind: str) -> tuple[float, float]:
    """Success in percent, mean over trainings, and its standard error over the pairs that they share."""
    counted = [r["success"][cost][kind] for r in results if kind in r["success"].get(cost, {})]
    if not counted or not counted[0][1]:
        return -1.0, 0.0
    share, pairs = mean(solved / pairs for solved, pairs in counted), counted[0][1]
    return 100 * share, 100 * sqrt(share * (1 - share) / pairs)


def percent(results: list[dict], cost: str, kind: str) -> str:
    share, error = rate(results, cost, kind)
    return f"{share:.1f} ± {error:.1f}" if share >= 0 else "–"


def cpu_minutes(results: list[dict]) -> float | None:
    said = [r["cpu_seconds"] for r in results if r["cpu_seconds"] is not None]
    return mean(said) / 60 if said else None


def earlier(file: Path) -> str:
    """Trials of earlier versions of this project, which are not run again, as one table after the other."""
    parts = []
    for env, sections in read_yaml(file)["trials"].items():
        parts.append(f"### {ENVS[env]}, earlier versions\n")
        for section in sections:
            columns = list(dict.fromkeys(key for line in section["lines"] for key in line))
            body = [[str(line.get(key, "–")) for key in columns] for line in section["lines"]]
            parts.append(Table("earlier", section["about"], columns, body).to_markdown())
    return "\n".join(parts)


def insert_earlier(docs: Path, file: Path) -> None:
    """Put them into a file of prose that has a place for them."""
    if file.exists() and "<!-- earlier -->" in docs.read_text():
        insert(docs, "earlier", earlier(file))
