"""A method is data: its window, its head, its loss terms and the costs that it can plan with."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tdjepa.config.costs import GIVEN_BY
from tdjepa.config.records.base import Cost, Count, Env, Name, Positive, Record, Several, Some, Weight
from tdjepa.config.records.keys import unknown_keys
from tdjepa.config.records.model import Model, Train


class Term(Record):
    """One part of an objective."""

    weight: Positive

    @property
    def ahead(self) -> int:
        """Frames that it needs after the context."""
        return 1


class OneStep(Term):
    targets: Literal["detached", "attached"]


class Rollout(Term):
    horizons: Some[Count] = Field(description="open-loop losses over this many steps, averaged")

    @property
    def ahead(self) -> int:
        return max(self.horizons)


class OpenLoop(Term):
    """RC-aux: one horizon per batch, drawn uniformly up to one that grows with the epochs; step k weighs k."""

    horizon: Count = Field(description="the longest horizon")
    curriculum: Count = Field(description="the first epoch that may draw the longest horizon")
    targets: Literal["detached", "attached"]

    @property
    def ahead(self) -> int:
        return self.horizon


class Temporal(Term):
    margin: Weight = Field(description="eta: the hinge of the negatives sits at eta * (window - 1)")
    negatives: bool
    pairs: Literal["one", "all"] = Field(
        description="one random pair per window, as published, or all pairs with the same mean"
    )


class PairReachability(Term):
    """RC-aux as the paper's authors re-implemented it: is a frame of the window within the horizon of another?"""

    horizon: Count


class BudgetReachability(Term):
    """RC-aux as its own authors have it: is a later frame within a budget of steps of the last context frame?"""

    horizon: Count = Field(description="longest budget in model steps; at most model.head.budgets")
    predicted: Weight = Field(description="weight of the same with predicted goals")
    predicted_hard: Weight = Field(description="weight of the temporal hard negatives there")
    terminal: Weight = Field(description="weight of terminal progress along real frames")
    terminal_predicted: Weight = Field(description="weight of terminal progress along predicted frames")

    @property
    def ahead(self) -> int:
        return self.horizon


class SigReg(Term):
    directions: Count
    knots: Annotated[int, Field(ge=3)]


class Terms(Record):
    """The objective of a method: each term with its weight; a term that is absent is not computed."""

    one_step: OneStep | None = None
    rollout: Rollout | None = None
    open_loop: OpenLoop | None = None
    temporal: Temporal | None = None
    pair_reachability: PairReachability | None = None
    budget_reachability: BudgetReachability | None = None
    sigreg: SigReg | None = None

    @model_validator(mode="after")
    def some(self):
        if not any(term is not None for _, term in self):
            raise ValueError(f"at least one term is needed: {', '.join(type(self).model_fields)}")
        return self

    def ahead(self) -> int:
        """Frames that the terms need after the context."""
        return max(term.ahead for _, term in self if term is not None)


TRAINED_BY = {  # head -> the term that trains it
    "mrn": "temporal",
    "symmetric": "temporal",
    "reachability": "pair_reachability",
    "budget_reachability": "budget_reachability",
}


# one line without $ and \, which figures read as mathematics
Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f$\\]+$")]


class Method(Record):
    label: Label = Field(description="its name in tables and figures")
    window: Several
    head: Literal["none", "mrn", "symmetric", "reachability", "budget_reachability"]
    passes: Count = Field(1, description="windows per optimiser step, in multiples of train.batch * accumulate")
    restart: Count | None = Field(None, description="after this epoch optimiser and schedule start anew; absent: never")
    # "all" has the evaluated episodes too, to measure what that leak is worth
    trains_on: Literal["train", "all"] = Field("train", description="episodes of the training part, or all")
    envs: Some[Env] | None = Field(None, description="where it is run; absent: everywhere")
    terms: Terms
    costs: Some[Cost]
    train_seeds: Count | None = Field(None, description="at most so many trainings, from the first; absent: all")

    @model_validator(mode="after")
    def consistent(self):
        trained = {term for term in TRAINED_BY.values() if getattr(self.terms, term) is not None}
        needed = {TRAINED_BY[self.head]} if self.head in TRAINED_BY else set()
        problems = [
            f"head: {self.head} does not fit: it is trained by terms.{term}, which is missing"
            for term in needed - trained
        ]
        problems += [
            f"head: {self.head} does not fit: terms.{term} trains "
            f"{' or '.join(head for head, by in TRAINED_BY.items() if by == term)}"
            for term in sorted(trained - needed)
        ]
        problems += [
            f"costs: {cost} needs head {' or '.join(GIVEN_BY[cost])}, but head is {self.head}"
            for cost in self.costs
            if self.head not in GIVEN_BY.get(cost, (self.head,))
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self


class When(Record):
    env: Env | None = None
    method: Name | None = None


class Recipe(Record):
    """An overlay of `train`, `model` and a method's `terms` for some environments or methods."""

    when: When
    train: dict[str, Any] = {}
    model: dict[str, Any] = {}
    terms: dict[str, Any] = Field({}, description="changes loss terms that a method has; adds none")

    @model_validator(mode="after")
    def known(self):
        overlays = {"train": (Train, self.train), "model": (Model, self.model), "terms": (Terms, self.terms)}
        problems = [f"{section}.{line}" for section, overlay in overlays.items() for line in unknown_keys(*overlay)]
        if problems:
            raise ValueError("\n".join(problems))
        return self
