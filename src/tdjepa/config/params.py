"""`Params`: everything of params.yaml at one scale, checked. A job never sees the whole of it (slices.py)."""

from pydantic import Field, model_validator

from tdjepa.config import checks
from tdjepa.config.records.base import Env, Filled, Name, Record, Seed, Some, entries
from tdjepa.config.records.data import Collect, Fetch, Mine
from tdjepa.config.records.evidence import Diagnose, Judge, Render
from tdjepa.config.records.methods import Method, Recipe
from tdjepa.config.records.model import Model, Runtime, Train
from tdjepa.config.records.part import Part
from tdjepa.config.records.planning import Evaluate


class Params(Record):
    scale: Name
    envs: Some[Env]
    methods_run: Some[Name]
    groups: Filled[tuple[Name, ...]] = Field(
        {}, description="methods that are run on request only, by the name of the target"
    )
    train_seeds: Some[Seed]
    part: Part = Field(Part(), description="of the command line: no key of params.yaml")
    collect: Collect
    fetch: Fetch
    mine: Mine
    model: Model
    train: Train
    runtime: Runtime = Field(Runtime(), exclude=True)  # not in any slice, so not in what jobs are compared by
    recipes: entries(Recipe) = Field(description="in this order; later ones win")
    methods: dict[Name, Method]
    evaluate: Evaluate
    diagnose: Diagnose
    judge: Judge
    render: Render

    @model_validator(mode="after")
    def fits_together(self):
        if problems := checks.problems(self):
            raise ValueError("\n".join(problems))
        return self
