"""Captions of the tables: captions.yaml with its numbers filled in from the parameters.

Only tables import this file, so that a changed caption rebuilds tables and the PDF and draws no figure.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

import yaml

from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.evidence import published
from tdjepa.report.labels import COSTS, ENVS, SOLVERS, method_label
from tdjepa.report.phrases import count, count_range, plan_seeds_text


def seeds_text(params: Params, cells: Sequence[Mapping] = ()) -> str:
    """Scale and numbers of seeds of each kind: goes with every success rate. Of the run, or of these cells where a table
    holds sweeps, which take fewer."""
    e = params.evaluate
    train, plan = (
        sorted({cell[f"n_{kind}_seeds"] for cell in cells} or {planned})
        for kind, planned in (("train", len(params.train_seeds)), ("plan", len(e.plan_seeds)))
    )
    return (
        f"Scale {params.scale}: {count_range(train, 'training seed')}, {count_range(plan, 'plan seed')}, "
        f"{e.episodes} {e.manifest} pairs, epoch {params.train.epochs}; ±, [ ] and † as in the main table."
    )


def key_text(params: Params) -> str:
    """What the signs beside a success rate mean; once, in the main table."""
    own = f" ({method_label(params, 'rc_aux')}: {published.load()['rc_aux_own']['runs']} runs of theirs)"
    own = own if "rc_aux" in params.methods_run else ""
    return (
        f"{seeds_text(params).split(';')[0]}. Mean ± sample std over plan seeds [{100 * params.judge.level:g} % interval "
        f"over training seeds, plan seeds and episodes]; † fewer rows than planned. Published: one training seed, "
        f"{len(published.load()['plan_seeds'])} plan seeds, ± over them{own}."
    )


def swept_text(params: Params, sweep: str, what: str) -> str:
    """On how many seeds the cells of a sweep rest, where that is fewer than the protocol's."""
    planned = params.evaluate.sweeps.get(sweep)
    if planned is None:
        return ""
    seeds = [(planned.train_seeds, params.train_seeds), (planned.plan_seeds, params.evaluate.plan_seeds)]
    if all(first >= len(known) for first, known in seeds):
        return ""
    train, plan = (min(first, len(known)) for first, known in seeds)
    return f"{what}: {count(train, 'training seed')}, {count(plan, 'plan seed')}."


def protocol_text(params: Params, env: str) -> str:
    """Solver and success criterion of an environment of the run."""
    from tdjepa.envs import base

    p, planner = params.evaluate.protocol[env], params.evaluate.planner
    try:
        success = f"; success: {base.make(env).success_text} ({params.evaluate.budget} steps)"
    except UserError:  # planned, but this version cannot run it
        success = ""
    return (
        f"{ENVS[env]}: {SOLVERS.get(p.solver, p.solver)}, {count(p.refinements, 'refinement')} of "
        f"{p.planner.get('candidates', planner.candidates)} candidates, w = {p.w:g}{success}."
    )


def deployed_text(params: Params) -> str:
    """d_ψ on Two-Room and Reacher, ℓ₂ on Push-T and OGB-Cube."""
    by_cost = {}
    for env in ENVS:  # not in the order of the parameters: a slice has its own
        if env in params.evaluate.protocol:
            by_cost.setdefault(params.evaluate.protocol[env].deployed, []).append(ENVS[env])
    return ", ".join(f"{COSTS[cost]} on {' and '.join(names)}" for cost, names in by_cost.items())


def protocols_text(params: Params) -> str:
    return " ".join(protocol_text(params, env) for env in params.envs)


class _Values(dict):
    """Caption values; the ones that cost something are made when a caption asks for them."""

    def __init__(self, params: Params, **more):
        p = params
        known = dict(
            scale=p.scale,
            level=f"{100 * p.judge.level:g} %",
            deployed=deployed_text(p),
            seeds=seeds_text(p),
            key=key_text(p),
            train_seeds=count(len(p.train_seeds), "training seed"),
            plan_seeds=count(len(p.evaluate.plan_seeds), "plan seed"),
            plan_seeds_of_all=plan_seeds_text(p),
            episodes=p.evaluate.episodes,
            manifest=p.evaluate.manifest,
            goal_offset=p.mine.goal_offset,
            pairs=p.mine.pairs,
            probe_frames=f"{p.diagnose.probe_frames:,}",
            near_end=p.mine.near_end,
            far_end=p.mine.far_end,
            tdjepa=method_label(p, "tdjepa"),
        )
        super().__init__(known | more)
        self.params = p

    def __missing__(self, key: str) -> str:
        if key == "protocols":
            return protocols_text(self.params)
        raise KeyError(key)


@cache
def _captions() -> dict[str, str]:
    return yaml.safe_load(files("tdjepa.report").joinpath("captions.yaml").read_text())


def caption(params: Params, name: str, **more) -> str:
    """The caption of a table, its numbers filled in from the parameters."""
    try:
        return _captions()[name].format_map(_Values(params, **more)).strip()
    except KeyError as error:
        raise UserError(f"captions.yaml: {name}: there is nothing called {error} to fill in") from None
