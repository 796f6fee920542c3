"""Who is trained, planned and measured: queries on the parameters.

Tables and figures ask them too, so this file is an input of their jobs (base/source_files.py).
"""

import itertools
from collections.abc import Container, Mapping

from tdjepa.config.costs import OWN, SOLVED_BY
from tdjepa.config.names import MAIN
from tdjepa.config.overlay import merge
from tdjepa.config.params import Params
from tdjepa.config.parse import parse
from tdjepa.config.records.methods import Recipe
from tdjepa.config.records.model import Train
from tdjepa.config.records.planning import Design


def widened(p: Params, *groups: str, among: Container[str] | None = None) -> Params:
    """As if the methods of these groups, or of all, were among those of the run; or those of them that are `among` some."""
    methods = [m for group in groups or p.groups for m in p.groups[group] if among is None or m in among]
    return p.model_copy(update={"methods_run": tuple(dict.fromkeys((*p.methods_run, *methods)))})


def methods_in(p: Params, env: str) -> list[str]:
    """The methods that are run in an environment."""
    return [m for m in p.methods_run if env in (p.methods[m].envs or p.envs)]


def train_seeds_of(p: Params, method: str) -> tuple[int, ...]:
    """The training seeds of a method; all of them for one that the parameters do not know."""
    return p.train_seeds[: p.methods[method].train_seeds if method in p.methods else None]


def trainings(p: Params) -> list[tuple[str, str, int]]:
    """(environment, method, training seed) of every training of the run, or of the part of it that was asked for."""
    part, known = p.part, widened(p) if p.part.methods else p
    every = [(env, m, s) for env in p.envs for m in methods_in(known, env) for s in train_seeds_of(p, m)]
    asked = (part.envs or p.envs, part.methods or known.methods_run, part.seeds or p.train_seeds)
    return [training for training in every if all(one in some for one, some in zip(training, asked, strict=True))]


def designs_of(p: Params, method: str, seed: int) -> dict[str, Design]:
    """The designs that a training is evaluated by; a checkpoint from elsewhere, with a seed that is none of ours, by those that
    ask for every training."""
    foreign = seed not in p.train_seeds
    return {
        name: design
        for name, design in p.evaluate.designs.items()
        if method in (design.methods or (method,))
        and (seed in train_seeds_of(p, method)[: design.trainings] or (foreign and design.trainings is None))
    }


def is_diagnosed(p: Params, method: str) -> bool:
    """Whether its latents are measured. Never those of a leaky training: the pairs are to be held out."""
    chosen = p.diagnose.methods
    return p.methods[method].trains_on == "train" and (chosen is None or method in chosen)


def diagnosed(p: Params) -> list[tuple[str, str, int]]:
    return [training for training in trainings(p) if is_diagnosed(p, training[1])]


def jobs(p: Params, which: str) -> list[dict]:
    """The jobs of a kind, each by what fills the names of its files; steps/registry.py says which kind a step has."""
    training, source = ("env", "method", "seed"), p.collect.source
    envs = [{"env": env} for env in p.envs if env in (p.part.envs or p.envs)]
    return {
        "once": lambda: [{}],
        "envs": lambda: envs,
        "generated": lambda: [job for job in envs if source[job["env"]] == "generated"],
        "released": lambda: [job for job in envs if source[job["env"]] == "released"],
        "own_files": lambda: [job for job in envs if source[job["env"]] == "file"],
        "ceilings": lambda: ceilings(p),
        "ladders": lambda: [job for job in envs if job["env"] in p.diagnose.ladder.envs],
        "trainings": lambda: [dict(zip(training, names, strict=True)) for names in trainings(p)],
        "diagnosed": lambda: [dict(zip(training, names, strict=True)) for names in diagnosed(p)],
        "sweeps": lambda: [dict(zip(("sweep", *training), names, strict=True)) for names in sweeps(p)],
    }[which]()


def ceilings(p: Params) -> list[dict]:
    """The ceiling of an environment is split into jobs, because plans with a simulator are slow; parts count from 1."""
    asked = [env for env in p.part.envs or p.envs if env in p.diagnose.ceiling_pairs]
    split = {env: p.diagnose.ceiling_jobs.get(env, 1) for env in asked}
    return [{"env": env, "part": part} for env, jobs in split.items() for part in range(1, jobs + 1)]


def recipes_of(p: Params, env: str, method: str) -> dict[str, Recipe]:
    """The recipes that are meant for one training, by name; later ones win."""
    meant = {name: r for name, r in p.recipes.items() if r.when.env in (None, env)}
    return {name: r for name, r in meant.items() if r.when.method in (None, method)}


def recipe_of(p: Params, env: str, method: str) -> tuple[Train, dict, dict]:
    """train, model and terms of one training: those of all, overlaid by its recipes. A recipe adds no term to a method; a
    policy has the model of its backbone."""
    train, model = p.train.model_dump(mode="json"), p.model.model_dump(mode="json")
    terms = p.methods[method].terms.model_dump(mode="json")
    for recipe in recipes_of(p, env, method).values():
        train = merge(train, recipe.train)
        absent = {name for name, term in terms.items() if term is None}
        terms = merge(terms, {name: term for name, term in recipe.terms.items() if name not in absent})
    for recipe in recipes_of(p, env, p.methods[method].backbone or method).values():
        model = merge(model, recipe.model)
    return parse(Train, train, f"params for {env}/{method}", "train."), model, terms


def steps_per_epoch(train: Train) -> int:
    """Optimiser steps; 0 = every window once."""
    return max(1, round(train.steps_per_epoch * train.step_factor)) if train.steps_per_epoch else 0


def sweeps(p: Params) -> list[tuple[str, str, str, int]]:
    """(sweep, environment, method, training seed) of the planner settings beside the protocol."""
    return [
        (name, env, method, seed)
        for name, sweep in p.evaluate.sweeps.items()
        for env, method, seed in trainings(p)
        if env in sweep.envs and method in sweep.methods and seed in train_seeds_of(p, method)[: sweep.train_seeds]
    ]


def protocol_cells(p: Params, env: str, method: str, seed: int) -> list[dict]:
    """Every cost of the method at the last epoch by every design of the training, and the epoch curves.

    A leaky training has no curve: it answers one question, what the last epoch gains.
    """
    ev, known = p.evaluate, p.methods[method]
    cells = [
        cell(p, env, {"cost": cost, "design": name}, design.plan_seeds, design.pairs)
        for name, design in designs_of(p, method, seed).items()
        for cost in known.costs
    ]
    if seed in train_seeds_of(p, method)[: ev.curve_trainings] and known.trains_on == "train":
        curves = itertools.product(curve_costs(p, env, method), ev.curve_epochs)
        earlier = [{"cost": cost, "epoch": epoch} for cost, epoch in curves if epoch != p.train.epochs]
        cells += [cell(p, env, overlay, 1, ev.curve_pairs) for overlay in earlier]
    return cells


def planned_cost(p: Params, env: str, method: str) -> str:
    """What a method plans with where one cost is shown: the deployed one if it has it, else its first; l2 for a method or an
    environment that the parameters do not know."""
    if env not in p.evaluate.protocol or method not in p.methods:
        return "l2"
    deployed, costs = p.evaluate.protocol[env].deployed, p.methods[method].costs
    return deployed if deployed in costs else costs[0]


def curve_costs(p: Params, env: str, method: str) -> list[str]:
    """The costs of a method's epoch curves: that of the published curve, and what it plans with (an ablation, which restarts its
    schedule, has a curve for the former only)."""
    known, published = p.methods[method], p.evaluate.curve_cost
    costs = [published] if published in known.costs else []
    return list(dict.fromkeys(costs if known.restart else [*costs, planned_cost(p, env, method)]))


def swept_cells(p: Params, env: str, method: str, name: str) -> list[dict]:
    """The cells of a sweep; a cell that names no cost plans with the deployed one, or the method's first."""
    sweep = p.evaluate.sweeps[name]
    usual = {"setting": name, "cost": planned_cost(p, env, method)}
    own = {} if sweep.plan_seed is None else {"plan_seeds": (sweep.plan_seed,)}
    cells = []
    for overlay in sweep.cells.values():
        if overlay.get("epoch") == "curve":
            overlay = overlay | {"epoch": diagnosed_epochs(p)}
        if overlay.get("cost") == OWN:
            overlay = overlay | {"cost": list(p.methods[method].costs)}
        choices = [value if isinstance(value, list | tuple) else [value] for value in overlay.values()]
        for values in itertools.product(*choices):
            overlaid = usual | dict(zip(overlay, values, strict=True))
            cells.append(cell(p, env, overlaid | own, sweep.plan_seeds, sweep.pairs))
    return cells


def cell(p: Params, env: str, overlay: Mapping, plan_seeds: int, pairs: int) -> dict:
    """The protocol of an environment with some keys changed, for the first so many plan seeds and pairs; keys of the planner
    and the costs may stand beside the others."""
    ev, protocol = p.evaluate, p.evaluate.protocol[env]
    parts = {
        "planner": {**ev.planner.model_dump(mode="json"), **protocol.planner},
        "costs": ev.costs.model_dump(mode="json"),
    }
    cell = {"design": MAIN, "setting": MAIN, "epoch": p.train.epochs, "alpha": ev.blend}
    cell |= {"plan_seeds": ev.plan_seeds[:plan_seeds], "pairs": pairs}
    cell |= {"solver": protocol.solver, "refinements": protocol.refinements, "w": protocol.w}
    if overlay.get("cost") in SOLVED_BY:
        cell["solver"] = SOLVED_BY[overlay["cost"]]
    for key, value in overlay.items():
        next((part for part in parts.values() if key in part), cell)[key] = value
    return {**cell, **parts}


def diagnosed_epochs(p: Params) -> list[int]:
    """The epochs of the curve, for every training: latents cost less than plans."""
    return sorted({*p.evaluate.curve_epochs, p.train.epochs})
