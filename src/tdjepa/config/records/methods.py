"""A method is data: its window, its head, its loss terms and the costs that it can plan with."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tdjepa.config.costs import GIVEN_BY
from tdjepa.config.records.base import (
    BelowOne,
    Cost,
    Count,
    Env,
    Name,
    Positive,
    Record,
    Several,
    Some,
    Weight,
    Whole,
    Written,
)
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
    targets: Literal["detached", "attached"] = "detached"

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
    skip: Whole = Field(0, description="leading latent dimensions that are left free (SD-JEPA's progression subspace)")
    subspaces: Whole = Field(0, description="Sub-JEPA: directions from this many frozen random subspaces; 0 = from all")


class Inverse(Term):
    """Inverse dynamics: the action block between two neighbouring frames."""


class Variance(Term):
    """PLDM: hinge on the standard deviation of each latent dimension, over the batch or over the frames of a window."""

    margin: Positive


class Covariance(Term):
    """PLDM: covariances between latent dimensions."""


class Similarity(Term):
    """PLDM: squared latent steps."""


class Curvature(Term):
    """Temporal straightening: angles between successive latent steps."""


class Progression(Term):
    """SD-JEPA: a cosine triplet on the leading latent dimensions."""

    dimensions: Several
    margin: Weight
    radius: Count = Field(description="the positive lies this many frames from the anchor at most")


class Value(Term):
    """A goal-conditioned value by expectile regression, in the temporal head instead of step counts."""

    expectile: Annotated[float, Field(gt=0.5, lt=1), Written]
    discount: BelowOne


class Behaviour(Term):
    """Goal-conditioned behaviour cloning: the first block on the way to a later frame of the window."""


class Implicit(Value):
    """Goal-conditioned IVL or IQL: a value (and a critic), and a policy weighted by the advantage."""

    temperature: Positive = Field(description="of exp(temperature * advantage), the weight of an action")


class Terms(Record):
    """The objective of a method: each term with its weight; a term that is absent is not computed."""

    one_step: OneStep | None = None
    rollout: Rollout | None = None
    open_loop: OpenLoop | None = None
    temporal: Temporal | None = None
    pair_reachability: PairReachability | None = None
    budget_reachability: BudgetReachability | None = None
    sigreg: SigReg | None = None
    inverse: Inverse | None = None
    variance: Variance | None = None
    variance_over_time: Variance | None = None
    covariance: Covariance | None = None
    similarity: Similarity | None = None
    curvature: Curvature | None = None
    progression: Progression | None = None
    value: Value | None = None
    behaviour: Behaviour | None = None
    implicit_value: Implicit | None = None
    implicit_q: Implicit | None = None

    @model_validator(mode="after")
    def some(self):
        if not any(term is not None for _, term in self):
            raise ValueError(f"at least one term is needed: {', '.join(type(self).model_fields)}")
        return self

    def ahead(self) -> int:
        """Frames that the terms need after the context."""
        return max(term.ahead for _, term in self if term is not None)


TRAINS = {  # term -> the heads that it can train; each head needs one of its terms
    "temporal": ("mrn", "symmetric"),
    "value": ("mrn", "symmetric"),
    "pair_reachability": ("reachability",),
    "budget_reachability": ("budget_reachability",),
    "inverse": ("action",),
    "behaviour": ("action", "timed_action"),
    "implicit_value": ("value_action",),
    "implicit_q": ("critic_action",),
}
HEADS = tuple(dict.fromkeys(head for heads in TRAINS.values() for head in heads))


# one line without $ and \, which figures read as mathematics
Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f$\\]+$")]


class Method(Record):
    label: Label = Field(description="its name in tables and figures")
    window: Several
    head: Literal[("none", *HEADS)]
    backbone: Name | None = Field(
        None,
        description="only the head is trained, on the frozen latents of this method's last epoch with the same seed",
    )
    restart: Count | None = Field(None, description="after this epoch optimiser and schedule start anew; absent: never")
    # "all" has the evaluated episodes too, to measure what that leak is worth
    trains_on: Literal["train", "all"] = Field("train", description="episodes of the training part, or all")
    envs: Some[Env] | None = Field(None, description="where it is run; absent: everywhere")
    terms: Terms
    costs: Some[Cost]
    train_seeds: Count | None = Field(None, description="at most so many trainings, from the first; absent: all")

    @model_validator(mode="after")
    def consistent(self):
        trained = [term for term in TRAINS if getattr(self.terms, term) is not None]
        wanted = [term for term, heads in TRAINS.items() if self.head in heads]
        problems = []
        if wanted and not set(wanted) & set(trained):
            by = " or ".join(f"terms.{term}" for term in wanted)
            problems.append(f"head: {self.head} does not fit: it is trained by {by}, which is missing")
        problems += [
            f"head: {self.head} does not fit: terms.{term} trains {' or '.join(TRAINS[term])}"
            for term in trained
            if self.head not in TRAINS[term]
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
