"""Where each parameter comes from: the base, a scale, a method that it is like, a recipe, the protocol of an environment.

Pure functions of the raw content of params.yaml. They decide no number; `tdjepa params --resolved` prints what they find.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.load import resolve
from tdjepa.config.overlay import lineage, merge, own, scales_of
from tdjepa.config.params import Params
from tdjepa.config.records.base import ENVS
from tdjepa.config.records.keys import meant

BASE, DEFAULT = "base", "default"
NOT_WATCHED = ("scale", "scales", "overlays", "runtime")  # no number depends on runtime

Place = tuple[str, ...]


class Leaf(NamedTuple):
    key: str
    value: Any
    origin: str


class Difference(NamedTuple):
    key: str
    values: tuple[Any, Any]
    origins: tuple[str, str]


class Set(NamedTuple):
    """A value as it is written in the file: what, by whom, under which key."""

    value: Any
    origin: str
    key: str


def of_scale(raw: Mapping, scale: str | None = None, source: str = "params.yaml") -> list[Leaf]:
    """Every value of a scale with its origin."""
    p = resolve(raw, scale, source)
    found = _origins(raw, p.scale)
    whole = p.model_dump(mode="json", exclude={"scale"}) | {"runtime": p.runtime.model_dump(mode="json")}
    whole["recipes"] = {name: recipe.model_dump(mode="json") for name, recipe in p.recipes.items()}  # with their names
    for name, sweep in p.evaluate.sweeps.items():
        whole["evaluate"]["sweeps"][name]["cells"] = sweep.cells
    return _leaves(whole, lambda place: _origin(found, place))


def of_training(raw: Mapping, env: str, method: str, scale: str | None, source: str = "params.yaml") -> list[Leaf]:
    """Every value that one training depends on, with its recipes applied, and those of its plans under the protocol."""
    p = resolve(raw, scale, source)
    for option, name, known in (("--env", env, ENVS), ("--method", method, p.methods)):
        if name not in known:
            raise UserError(f"{option} {name}: must be one of {', '.join(known)}{meant(name, known)}")
    found = _origins(raw, p.scale)
    return [*_training(p, found, env, method), *_cell(p, found, env, method)]


def difference(raw: Mapping, scale: str, other: str, source: str = "params.yaml") -> list[Difference]:
    """The values that two scales do not share; None where a scale has no such value."""
    nothing = Leaf("", None, "")
    one, two = ({leaf.key: leaf for leaf in of_scale(raw, name, source)} for name in (scale, other))
    pairs = [(key, one.get(key, nothing), two.get(key, nothing)) for key in one | two]
    return [Difference(key, (a.value, b.value), (a.origin, b.origin)) for key, a, b in pairs if a.value != b.value]


def shadowed(before: Mapping, now: Mapping, scale: str) -> list[str]:
    """One sentence per value that changed in the base although the scale has its own: it makes no difference there."""
    found, old, new = _origins(now, scale), dict(_values(_base(before))), dict(_values(_base(now)))
    lines = []
    for place in new | old:
        own_value = _set_by(found, place)
        if old.get(place) != new.get(place) and own_value and own_value.origin != BASE:
            change = f"{'.'.join(place)} changed in the base from {shown(old.get(place))} to {shown(new.get(place))}"
            has = f"scale {scale} has its own value {shown(own_value.value)} ({own_value.key})"
            lines.append(f"{change}, but {has}: nothing depends on the base value here")
    return lines


def sections(raw: Mapping, scale: str) -> list[str]:
    """The keys of params.yaml that decide the numbers of a scale: those of the base, the scales it is like, and its own."""
    chain = lineage(scales_of(raw), scale, "scales")
    return [key for key in raw if key not in NOT_WATCHED] + [_section(raw, name) for name in reversed(chain)]


def shown(value) -> str:
    """A value as params.yaml has it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(part)}" for key, part in value.items()) + "}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _training(p: Params, found: Mapping[Place, Set], env: str, method: str) -> list[Leaf]:
    train, model, terms = runs.recipe_of(p, env, method)
    parts = {("train",): train.model_dump(mode="json"), ("model",): model, ("methods", method, "terms"): terms}
    by_recipe = {}
    for name, recipe in runs.recipes_of(p, env, method).items():
        for part in parts:
            for place, value in _values(getattr(recipe, part[-1])):
                origin = f"recipe {name} ({_origin(found, ('recipes', name, part[-1], *place))})"
                by_recipe[*part, *place] = Set(value, origin, "")
    known = p.methods[method].model_dump(mode="json") | {"terms": terms}
    whole = {"mine": {"frameskip": p.mine.frameskip}, "model": model, "train": parts["train",]}
    whole["methods"] = {method: known}
    leaves = _leaves(whole, lambda place: _origin({**found, **by_recipe}, place))
    if train.step_factor != 1:
        steps = Leaf("train.steps_per_epoch * step_factor", runs.steps_per_epoch(train), "computed")
        leaves.insert(1 + [leaf.key for leaf in leaves].index("train.step_factor"), steps)
    return leaves


def _cell(p: Params, found: Mapping[Place, Set], env: str, method: str) -> list[Leaf]:
    """The cell of the protocol with the cost that is shown for the method."""
    protocol, main = ("evaluate", "protocol", env), p.evaluate.designs["main"]
    cost = runs.planned_cost(p, env, method)
    is_deployed = cost == p.evaluate.protocol[env].deployed
    set_at = {
        "epoch": ("train", "epochs"),
        "alpha": ("evaluate", "blend"),
        "cost": (*protocol, "deployed") if is_deployed else ("methods", method, "costs"),
        "plan_seeds": ("evaluate", "designs", "main", "plan_seeds"),
        "pairs": ("evaluate", "designs", "main", "pairs"),
    } | {key: (*protocol, key) for key in ("solver", "refinements", "w")}

    def origin(place: Place) -> str:
        _, key, *rest = place
        if key == "planner" and rest[0] in p.evaluate.protocol[env].planner:
            at = (*protocol, "planner", *rest)
        else:
            at = set_at.get(key, ("evaluate", key, *rest))
        said = _origin(found, at)
        return f"protocol {env} ({said})" if at[:3] == protocol else said

    cell = runs.cell(p, env, {"cost": cost}, main.plan_seeds, main.pairs)
    del cell["setting"], cell["design"]
    return _leaves({"cell": cell}, origin)


def _origins(raw: Mapping, scale: str) -> dict[Place, Set]:
    """Who set each value of a scale, by its place in the resolved parameters."""
    base = _base(raw)
    found = {place: Set(value, BASE, ".".join(place)) for place, value in _values(base)}
    scales = scales_of(raw)
    for name in reversed(lineage(scales, scale, "scales")):
        overlay = own(scales, name, "scales")
        base = merge(base, overlay)
        at = _section(raw, name)
        who = at.replace("scales.", "scale ").replace("overlays.", "overlay ")
        new = {place: Set(value, who, f"{at}." + ".".join(place)) for place, value in _values(overlay)}
        found = _laid_over(found, new)
    for heir in base["methods"]:
        inherited: dict[Place, Set] = {}
        for name in reversed(lineage(base["methods"], heir, "methods")[1:]):
            inherited = _laid_over(inherited, _of_ancestor(found, name, heir))
        mine = {place: value for place, value in found.items() if place[:2] == ("methods", heir)}
        found |= _laid_over(inherited, mine)
    return found


def _section(raw: Mapping, scale: str) -> str:
    """Where a scale stands in params.yaml: desk_as_published is what overlays.as_published says."""
    if raw["scales"].get(scale):
        return f"scales.{scale}"
    return next(
        (f"overlays.{name}" for name in raw.get("overlays") or {} if scale.endswith(f"_{name}")), f"scales.{scale}"
    )


def _of_ancestor(found: Mapping[Place, Set], name: str, heir: str) -> dict[Place, Set]:
    """What a method says itself, as values of the one that is like it."""
    return {
        ("methods", heir, *place[2:]): value._replace(origin=f"like {name} ({value.origin})")
        for place, value in found.items()
        if place[:2] == ("methods", name) and not value.origin.startswith("like ")
    }


def _laid_over(found: Mapping[Place, Set], new: Mapping[Place, Set]) -> dict[Place, Set]:
    """As `merge` does: a value takes the place of all that was inside it, an empty mapping changes nothing."""
    new = {place: value for place, value in new.items() if value.value != {}}
    around = [{place[:n] for n in range(1, len(place))} for place in found]
    return {place: found[place] for place, parts in zip(found, around, strict=True) if not parts & new.keys()} | new


def _base(raw: Mapping) -> dict:
    return {key: value for key, value in raw.items() if key not in ("scale", "scales", "overlays")}


def _values(tree: Mapping, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """(place, value) of everything in a tree that is no mapping; an empty mapping is a value."""
    for key, value in tree.items():
        here = (*place, str(key))
        if isinstance(value, Mapping) and value:
            yield from _values(value, here)
        else:
            yield here, value


def _leaves(tree: Mapping, origin: Callable[[Place], str]) -> list[Leaf]:
    """The values of a tree, without those that are absent because nobody set them."""
    leaves = [Leaf(".".join(place), value, origin(place)) for place, value in _values(tree)]
    return [leaf for leaf in leaves if leaf.origin != DEFAULT or leaf.value not in (None, {})]


def _set_by(found: Mapping[Place, Set], place: Place) -> Set | None:
    """The value at a place, or around it: a list of recipes or an empty entry stands for all that is inside."""
    return next((found[place[:n]] for n in range(len(place), 0, -1) if place[:n] in found), None)


def _origin(found: Mapping[Place, Set], place: Place) -> str:
    setter = _set_by(found, place)
    return setter.origin if setter else DEFAULT
