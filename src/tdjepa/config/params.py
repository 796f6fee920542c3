"""`Params`: everything of params.yaml at one scale, checked. A job never sees the whole of it (slices.py)."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from tdjepa.config import checks
from tdjepa.config.records.base import Env, InOrder, Name, Record, Seed, named
from tdjepa.config.records.data import Collect, Fetch, Mine
from tdjepa.config.records.evidence import Diagnose, Judge, Render
from tdjepa.config.records.methods import Method, Recipe
from tdjepa.config.records.model import Model, Runtime, Train
from tdjepa.config.records.planning import Evaluate

NamedRecipes = BeforeValidator(named, json_schema_input_type=dict[Name, Recipe | None] | list[Recipe])


class Params(Record):
    scale: Name
    envs: Annotated[tuple[Env, ...], Field(min_length=1)]
    methods_run: Annotated[tuple[Name, ...], Field(min_length=1)]
    train_seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]
    collect: Collect
    fetch: Fetch
    mine: Mine
    model: Model
    train: Train
    runtime: Runtime = Field(Runtime(), exclude=True)  # not in any slice, so not in what jobs are compared by
    recipes: Annotated[dict[Name, Recipe], NamedRecipes, InOrder] = Field(description="in this order; later ones win")
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
