"""The grid of a recipe search: named trials, each an overlay of the scale for some environments and methods.

A trial says what differs from the scale: `train`, `model` and `terms` as a recipe does, `collect` for the environment's own data,
`planner` for the keys of a cell. What is tried is therefore exactly what the scale gets once a recipe says the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from tdjepa.base.artefacts import hash_of
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.overlay import inherited, merge
from tdjepa.config.params import Params
from tdjepa.config.parse import parse
from tdjepa.config.records.base import Count, Env, Name, Record, Some
from tdjepa.config.records.data import DATA
from tdjepa.config.records.keys import meant
from tdjepa.config.records.methods import Recipe, When
from tdjepa.config.records.planning import CELL_KEYS
from tdjepa.config.slices import (
    CollectSlice,
    EvaluateSlice,
    MineSlice,
    TrainSlice,
    collect_slice,
    evaluate_slice,
    mine_slice,
    train_slice,
)
from tdjepa.config.yaml_file import read_yaml

SETTING = "search"


class Trial(Record):
    envs: Some[Env]
    methods: Some[Name] | None = Field(None, description="absent: all methods of the search")
    seeds: Count = Field(1, description="trainings, with the first so many training seeds")
    train: dict[str, Any] = {}
    model: dict[str, Any] = {}
    terms: dict[str, Any] = {}
    collect: dict[str, Any] = Field({}, description="overlay of the data of each of its environments")
    planner: dict[str, Any] = Field(
        {}, description="overlay of the cell: keys of evaluate.planner, solver, refinements, w"
    )

    @model_validator(mode="after")
    def known(self):
        odd = [key for key in self.planner if key not in CELL_KEYS]
        if odd:
            raise ValueError("\n".join(f"planner.{key}: no such key{meant(key, CELL_KEYS)}" for key in odd))
        return self


class Grid(Record):
    methods: Some[Name] = Field(description="in the order in which they are tuned: baselines first")
    trials: dict[Name, Trial]


@dataclass(frozen=True)
class Job:
    """One training of one trial, with everything that decides its numbers."""

    trial: str
    changes: str
    collect: CollectSlice
    mine: MineSlice
    train: TrainSlice
    evaluate: EvaluateSlice

    @property
    def name(self) -> str:
        t = self.train
        return f"{t.env}/{t.method_name}/{self.trial}_{t.seed}"

    @property
    def key(self) -> str:
        """Of the parameters: a result with another key is one of another trial."""
        slices = (self.collect, self.mine, self.train, self.evaluate)
        return hash_of([cfg.model_dump(mode="json") for cfg in slices])[:16]

    @property
    def data_key(self) -> str:
        return hash_of(self.collect.model_dump(mode="json"))[:16]


def read(file: str | Path) -> Grid:
    """The grid of a file, with every trial that is `like` another written out."""
    raw = read_yaml(file)
    trials = raw.get("trials") if isinstance(raw, Mapping) else None
    if not isinstance(trials, Mapping):
        raise UserError(f"{file}: trials: a mapping of named trials is expected")
    return parse(
        Grid, raw | {"trials": {name: inherited(trials, name, f"{file}: trials") for name in trials}}, str(file)
    )


def jobs(p: Params, grid: Grid, source: str) -> list[Job]:
    """All of the search: by environment, then by method in the grid's order, so that baselines are tuned first."""
    of_all = [*grid.methods, *(m for trial in grid.trials.values() for m in trial.methods or ())]
    for method in dict.fromkeys(of_all):
        if method not in p.methods:
            raise UserError(f"{source}: methods: {method!r} is not defined under methods{meant(method, p.methods)}")
    methods = [(env, method) for env in DATA for method in dict.fromkeys(of_all)]
    return [
        job(p, name, trial, env, method, seed, f"{source}: trials.{name} ({env}/{method})")
        for env, method in methods
        for name, trial in grid.trials.items()
        if env in trial.envs and method in (trial.methods or grid.methods)
        for seed in p.train_seeds[: trial.seeds]
    ]


def job(p: Params, name: str, trial: Trial, env: str, method: str, seed: int, source: str) -> Job:
    """One training of a trial, planned on the validation pairs of its data with the first plan seed."""
    data = parse(DATA[env], merge(getattr(p.collect, env).model_dump(mode="json"), trial.collect), source, "collect.")
    overlays = {"train": trial.train, "model": trial.model, "terms": trial.terms}
    recipe = parse(Recipe, {"when": When(env=env, method=method).model_dump(), **overlays}, source)
    recipes = {**p.recipes, SETTING: recipe}  # the last one wins
    p = p.model_copy(update={"recipes": recipes, "collect": p.collect.model_copy(update={env: data})})
    cells = [
        runs.cell(p, env, {"setting": SETTING, "cost": cost, **trial.planner}, 1, p.mine.validation_goals)
        for cost in costs(p, env, method)
    ]
    planned = evaluate_slice(p, env, method, seed).model_dump(mode="json")
    planned["cells"] = cells
    planned["evaluate"] |= {"manifest": "validation", "locked": {}, "curve_epochs": []}
    trained = train_slice(p, env, method, seed)
    return Job(
        name, changes(trial), collect_slice(p, env), mine_slice(p, env), trained, parse(EvaluateSlice, planned, source)
    )


def costs(p: Params, env: str, method: str) -> list[str]:
    """What a trial is planned with: the cost that the method is shown with, and plain d_psi and l2 where it has them."""
    given = p.methods[method].costs
    return list(dict.fromkeys([runs.planned_cost(p, env, method), *(c for c in ("d_psi", "l2") if c in given)]))


def changes(trial: Trial) -> str:
    """What a trial changes, in a line: train.lr 0.003, collect.noise 0.4."""
    return ", ".join(_flat({name: getattr(trial, name) for name in ("collect", "model", "terms", "train", "planner")}))


def _flat(overlay: Mapping, under: str = "") -> list[str]:
    lines = []
    for key, value in overlay.items():
        if isinstance(value, Mapping):
            lines += _flat(value, f"{under}{key}.")
        else:
            lines.append(f"{under}{key} {value}")
    return lines
