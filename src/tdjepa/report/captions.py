"""Captions of the tables: captions.yaml with its numbers filled in from the parameters.

Only tables import this file, so that a changed caption rebuilds tables and the PDF and draws no figure.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence import published
from tdjepa.report.inputs import Inputs
from tdjepa.report.labels import COSTS, ENVS, SOLVERS, method_label
from tdjepa.report.phrases import count, count_range, design_text, trainings_text
from tdjepa.report.table import RULE, Table


def seeds_text(params: Params, cells: Sequence[Mapping] = ()) -> str:
    """Scale and design, for every success rate: of the run, or of these cells where sweeps take fewer."""
    design = design_text(params)
    if cells:
        nouns = {"n_train_seeds": "training seed", "n_plan_seeds": "plan seed"}
        found = [count_range(sorted({cell[key] for cell in cells}), noun) for key, noun in nouns.items()]
        pairs = " or ".join(map(str, sorted({cell["n_episodes"] for cell in cells})))
        design = ", ".join([*found, f"{pairs} {params.evaluate.manifest} pairs"])
    return texts()["phrases"]["seeds"].format(p=params, design=design)


def key_text(params: Params) -> str:
    """What the signs beside a success rate mean; once, in the main table."""
    source = published.load()
    own = f" ({method_label(params, 'rc_aux')}: {source['rc_aux_own']['runs']} runs of theirs)"
    values = {"level": 100 * params.judge.level, "published": len(source["plan_seeds"])}
    values |= {"seeds": seeds_text(params).split(";")[0], "own": own if "rc_aux" in params.methods_run else ""}
    return texts()["phrases"]["key"].format(**values)


def swept_text(params: Params, sweep: str, what: str) -> str:
    """On how many seeds the cells of a sweep rest, where that is fewer than the protocol's."""
    planned = params.evaluate.sweeps.get(sweep)
    if planned is None:
        return ""
    main, every = params.evaluate.designs["main"], len(params.train_seeds)
    train = min(planned.train_seeds or every, every)
    plans = planned.plan_seeds if planned.plan_seed is None else 1
    if (train, plans, planned.pairs) == (every, main.plan_seeds, main.pairs):
        return ""
    seeds = f"{count(train, 'training seed')}, {count(plans, 'plan seed')}"
    return f"{what}: {'at most ' * (planned.train_seeds is None)}{seeds}, {planned.pairs} pairs."


def protocol_text(found: Inputs, env: str) -> str:
    """Solver and success criterion of an environment of the run; the criterion is what the card of its episodes says."""
    e, criterion = found.params.evaluate, found.cards.get(env, {}).get("success_criterion")
    p, success = e.protocol[env], f"; success: {criterion} ({e.budget} steps)" if criterion else ""
    values = {"solver": SOLVERS.get(p.solver, p.solver), "refinements": count(p.refinements, "refinement")}
    values |= {"candidates": p.planner.get("candidates", e.planner.candidates), "w": p.w, "success": success}
    return texts()["phrases"]["protocol"].format(env=ENVS[env], **values)


def deployed_text(params: Params) -> str:
    """d_ψ on Two-Room and Reacher, ℓ₂ on Push-T and OGB-Cube."""
    by_cost = {}
    for env in ENVS:  # not in the order of the parameters: a slice has its own
        if env in params.evaluate.protocol:
            by_cost.setdefault(params.evaluate.protocol[env].deployed, []).append(ENVS[env])
    return ", ".join(f"{COSTS[cost]} on {' and '.join(names)}" for cost, names in by_cost.items())


@cache
def texts() -> dict:
    """The whole of captions.yaml."""
    return read_yaml(Path(__file__).with_name("captions.yaml"))


def caption(found: Inputs, name: str, **more) -> str:
    """The caption of a table, its numbers filled in from the parameters."""
    p = found.params
    values = dict(
        p=p,
        level=f"{100 * p.judge.level:g} %",
        deployed=deployed_text(p),
        protocols=" ".join(protocol_text(found, env) for env in p.envs),
        seeds=seeds_text(p),
        key=key_text(p),
        train_seeds=trainings_text(p),
        plan_seeds=count(p.evaluate.designs["main"].plan_seeds, "plan seed"),
        design=design_text(p),
        tdjepa=method_label(p, "tdjepa"),
    )
    try:
        return texts()[name].format_map(values | more).strip()
    except KeyError as error:
        raise UserError(f"captions.yaml: {name}: there is nothing called {error} to fill in") from None


def captioned(found: Inputs, name: str, head: list[str], body: list, left: int = 1, **values) -> Table:
    """A table over both columns of the page with its caption; a rule at the end of its body is left out."""
    body = body[:-1] if body and body[-1] is RULE else body
    return Table(name, caption(found, name, **values), head, body, wide=True, left=left)
