"""params.yaml as one `Params`: the overlay of the scale is laid over the base, and everything is checked at once."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tdjepa.base.errors import UserError
from tdjepa.config import runs, slices
from tdjepa.config.costs import BY_CONTACT, GIVEN_BY, WITH_CONTACT
from tdjepa.config.names import MAIN
from tdjepa.config.overlay import inherited, merge, scales_of
from tdjepa.config.params import Params
from tdjepa.config.parse import parse
from tdjepa.config.records.keys import meant, short
from tdjepa.config.records.planning import Cell
from tdjepa.config.yaml_file import read_yaml


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    return resolve(read_yaml(path), scale, str(path))


def resolve_every_scale(raw: Mapping, scale: str | None = None, source: str = "params.yaml") -> Params:
    """As `resolve`; then the other scales are checked too: better now than on the cluster."""
    chosen = resolve(raw, scale, source)
    for other in scales_of(raw, source):
        if other != chosen.scale:
            resolve(raw, other, f"{source}, scale {other}")
    return chosen


def resolve(raw: Mapping, scale: str | None = None, source: str = "params.yaml") -> Params:
    """The parameters of one scale from the raw content of params.yaml; every problem is named at once."""
    problems = []
    # the base too: a bad value there waits for a scale that does not overlay it
    for layer in layers(raw, scale, source):
        try:
            params = parse(Params, layer, source)
        except UserError as error:
            problems += str(error).splitlines()
    if not problems:
        problems = [f"{source}: {line}" for line in _of_trainings(runs.widened(params))]
    if problems:
        raise UserError("\n".join(dict.fromkeys(problems)))
    return params


def layers(raw: Mapping, scale: str | None, source: str) -> tuple[dict, dict]:
    """The base, and the base with the overlay of the scale, both with their methods written out."""
    if not isinstance(raw, Mapping):
        raise UserError(f"{source}: a mapping of parameters is expected, found {type(raw).__name__}")
    scales, scale = scales_of(raw, source), scale or raw.get("scale")
    for chosen in (scale, raw.get("scale")):  # that of the file too, even if it is not the one that is asked for
        if not isinstance(chosen, str) or chosen not in scales:
            known = ", ".join(map(str, raw.get("scales") or {}))[:200] or "(none defined)"
            known += "".join(f", or one of them with _{name}" for name in raw.get("overlays") or {})
            raise UserError(f"{source}: scale = {short(chosen)}: must be one of {known}{meant(chosen, scales)}")
    base = {key: value for key, value in raw.items() if key not in ("scales", "overlays")} | {"scale": scale}
    overlay = inherited({**(raw["scales"] or {}), scale: scales[scale]}, scale, f"{source}: scales")
    if "scale" in overlay:
        raise UserError(f"{source}: scales.{scale}.scale: no such key; a scale is `like` another, it chooses none")
    merged = merge(base, overlay)
    if "part" in merged:
        words = "snakemake --config envs=push_t methods=lewm,tdjepa seeds=3072"
        raise UserError(f"{source}: part: no such key; a part of a scale is named on the command line: {words}")
    return _written_out(base, source), _written_out(merged, source)


def _written_out(merged: dict, source: str) -> dict:
    """Methods that are `like` another hold all of it."""
    methods = merged.get("methods")
    if isinstance(methods, Mapping):
        merged = merged | {"methods": {name: inherited(methods, name, f"{source}: methods") for name in methods}}
    return merged


def _of_trainings(p: Params) -> list[str]:
    """Recipes and sweeps are overlays too: what is wrong with what the trainings and their cells would get."""
    found: dict[str, dict[str, None]] = {}  # problem -> the trainings that have it
    shared: dict[tuple, tuple[Cell, ...]] = {}
    for env, method in dict.fromkeys((env, method) for env, method, _ in runs.trainings(p)):
        try:
            problems = list(_of_training(p, env, method, shared))
        except UserError as error:
            prefix = f"params for {env}/{method}"
            problems = [line.removeprefix(prefix).lstrip(":, ") for line in str(error).splitlines()]
        for line in problems:
            found.setdefault(line, {})[f"{env}/{method}"] = None
    some = {line: (next(iter(places)), len(places) - 1) for line, places in found.items()}
    return [
        f"{line} ({first} and {more} more)" if more else f"{line} ({first})" for line, (first, more) in some.items()
    ]


def _of_training(p: Params, env: str, method: str, shared: dict) -> Iterable[str]:
    seed, known = (
        p.train_seeds[0],
        p.methods[method],
    )  # the one with the epoch curves: no other has a cell that it lacks
    cfg = slices.train_slice(p, env, method, seed)
    encoder, latent, sigreg = cfg.model.encoder, cfg.model.latent, cfg.method.terms.sigreg
    if sigreg and sigreg.subspaces and latent % sigreg.subspaces:
        yield f"terms.sigreg.subspaces: {sigreg.subspaces} does not divide model.latent: {latent}"
    if encoder.readout == "keypoints" and (misfit := encoder.keypoints.misfit(getattr(p.collect, env).image_size)):
        yield misfit
    # what the cells of the protocol ("") and of the sweeps depend on: most methods share them, and parsing takes long
    designs = tuple(runs.designs_of(p, method, seed))
    planned = {"": (known.costs, designs, known.trains_on, known.restart is None)}
    cost = runs.planned_cost(p, env, method)
    by_sweep = (cost, known.costs)
    planned |= {name: by_sweep for name, sweep in p.evaluate.sweeps.items() if method in sweep.methods}
    cells: tuple[Cell, ...] = ()
    for sweep, by in planned.items():
        if (env, sweep, by) not in shared:
            shared[env, sweep, by] = slices.evaluate_slice(p, env, method, seed, sweep).cells
        cells += shared[env, sweep, by]
    yield from dict.fromkeys((*_too_far(p, cells), *_not_given(p, env, method, cells)))


def _too_far(p: Params, cells: tuple[Cell, ...]) -> Iterable[str]:
    """Cells that ask for more than the models have."""
    seen, budgets, trained = p.model.predictor.history, p.model.head.budgets, p.train.epochs
    for c in cells:
        if c.planner.history > seen:
            yield f"planner.history: {c.planner.history} exceeds model.predictor.history: {seen} ({c.setting})"
        if c.cost == "rc_aux" and c.planner.horizon > budgets:
            too_long = f"evaluate.planner.horizon: {c.planner.horizon} exceeds model.head.budgets: {budgets}"
            yield f"{too_long}, the most steps that the head of {c.cost} knows"
        if c.epoch > trained:
            yield f"evaluate.sweeps.{c.setting}: epoch {c.epoch} is beyond train.epochs: {trained}"


def _not_given(p: Params, env: str, method: str, cells: tuple[Cell, ...]) -> Iterable[str]:
    """Cells of the run whose cost the method's head or the environment cannot give."""
    head = p.methods[method].head
    for c in cells:
        main = c.setting == MAIN
        where = f"methods.{method}.costs" if main else f"evaluate.sweeps.{c.setting}"
        if head not in GIVEN_BY.get(c.cost, (head,)):
            yield f"{where}: {c.cost} needs head {' or '.join(GIVEN_BY[c.cost])}, but that of {method} is {head}"
        if c.cost in BY_CONTACT and env not in WITH_CONTACT and (main or env in p.evaluate.sweeps[c.setting].envs):
            yield f"{where}: {c.cost} needs contact geometry, which {env} lacks; only {', '.join(WITH_CONTACT)} has it"
