"""How plans are made and evaluated."""

from typing import Any, Literal

from pydantic import Field, model_validator

from tdjepa.config.records.base import (
    BelowOne,
    Cost,
    Count,
    Device,
    Env,
    Name,
    Positive,
    Record,
    Seed,
    Several,
    Share,
    Some,
    Weight,
    Whole,
    entries,
)
from tdjepa.config.records.keys import keys_at, meant, short, unknown_keys
from tdjepa.config.records.released import Sha256

Solver = Literal["cem", "icem", "mppi", "gradient", "policy"]
Manifest = Literal["validation", "test", "curves", "far"]
DesignName = Literal["main", "protocol"]


class Planner(Record):
    horizon: Count = Field(description="H, model steps")
    receding: Count = Field(description="model steps executed before the next plan")
    candidates: Several
    elites: Several
    std: Positive = Field(description="initial std in z-scored action space")
    colour: Weight = Field(description="iCEM: exponent of the coloured noise")
    smoothing: BelowOne = Field(description="iCEM: share of the old mean and std")
    keep: Whole = Field(description="iCEM: elites carried to the next refinement")
    clip: Literal["reference", "raw"] = Field(
        description="iCEM: clip z-scored candidates to the raw bounds (as the reference does) or actions to their bounds"
    )
    history: Count = Field(description="real frames the planner starts from")
    elite_std: Literal["unbiased", "biased"] = Field(description="std of the elites: over n - 1 or over n")
    temperature: Positive = Field(description="MPPI: of the weights exp(-cost / temperature)")
    step_size: Positive = Field(description="gradient: of plain gradient descent on the actions")

    @model_validator(mode="after")
    def possible(self):
        if self.elites > self.candidates:
            raise ValueError(f"elites: {self.elites} exceeds candidates: {self.candidates}")
        if self.keep >= self.candidates:
            raise ValueError(f"keep: {self.keep} leaves none of candidates: {self.candidates}")
        if self.receding > self.horizon:
            raise ValueError(f"receding: {self.receding} exceeds horizon: {self.horizon}")
        return self


class Costs(Record):
    """How the planning costs are computed."""

    l2: Literal["squared", "root"] = Field(description="squared distance of latents, as in the reference, or its root")
    trajectory_mean: Literal["with_context", "without_context"] = Field(
        description="whether the mean over a rollout counts the frame it starts from, as the reference does"
    )
    rc_aux_lambda: Share = Field(description="rc_aux: how much reachability may lower l2; 0 = l2")
    contact_distance: Positive = Field(
        description="agent-block distance, world px, below which it is contact; touch is too"
    )
    first_gate: Literal["reset", "state"] = Field(
        description="contact gates, first plan: geometry of a random reset, as the reference has it by mistake, or the true one"
    )
    gate_softness: Positive = Field(description="soft gate: width of the sigmoid around the threshold, world pixels")
    gate_near: Share = Field(description="contact gates: share of l2 in contact")
    hard_gate_far: Share = Field(description="hard gate: share of l2 far from the block")
    soft_gate_far: Share = Field(description="soft gate: share of l2 far from the block")


class Protocol(Record):
    """What the paper fixes per environment."""

    solver: Solver
    refinements: Count
    w: Share = Field(description="weight of the terminal cost; the rest goes to the trajectory mean")
    deployed: Cost
    planner: dict[str, Any] = Field(default={}, description="overlay of evaluate.planner for this environment")

    @model_validator(mode="after")
    def known(self):
        if problems := list(unknown_keys(Planner, self.planner)):
            raise ValueError("\n".join(f"planner.{line}" for line in problems))
        return self


class Design(Record):
    """How much is evaluated of the protocol. The column `design` of the rows says which one a row belongs to."""

    pairs: Count = Field(description="start-goal pairs, from the first of the manifest (it is in drawing order)")
    plan_seeds: Count = Field(description="number of plan seeds, from the first")
    trainings: Count | None = Field(None, description="number of a method's trainings, from the first; absent: all")
    methods: Some[Name] | None = Field(None, description="methods that have it; absent: all")


class Cell(Record):
    """One planner setting: everything that decides a plan besides the model, the pair and the plan seed."""

    design: DesignName
    setting: Name = Field(description="main = the published protocol; else the name of the sweep")
    epoch: Count
    solver: Solver
    refinements: Count
    cost: Cost
    alpha: Share = Field(description="share of l2 in the cost blend")
    w: Share
    planner: Planner
    costs: Costs
    plan_seeds: Some[Seed]
    pairs: Count


CellOverlay = dict[str, Any]
CELL_KEYS = [*keys_at(Planner), *keys_at(Costs), "epoch", "solver", "refinements", "cost", "alpha", "w"]


class Sweep(Record):
    """Planner settings beside the protocol, as data: each cell overlays it; a list of values means each of them."""

    envs: tuple[Env, ...] = Field(description="environments where the pipeline runs it")
    methods: Some[Name]
    train_seeds: Count | None = Field(None, description="number of training seeds, from the first; absent: all")
    plan_seeds: Count = Field(description="number of plan seeds, from the first")
    plan_seed: Seed | None = Field(None, description="one of its own instead")
    pairs: Count = Field(description="start-goal pairs, from the first of the manifest")
    manifest: Manifest
    goal_offset: Count | None = Field(
        None,
        description="goals this many environment steps away (one of mine.far_offsets), with a budget of twice that",
    )
    cells: entries(CellOverlay, Field(min_length=1)) = Field(
        description="keys: epoch, solver, refinements, cost, alpha, w, and those of evaluate.planner and evaluate.costs; "
        "`epoch: curve` is every epoch of evaluate.curve_epochs and the last"
    )

    @model_validator(mode="after")
    def known(self):
        if (self.manifest == "far") != (self.goal_offset is not None):
            raise ValueError("goal_offset: is given exactly where manifest is far")
        problems = [
            f"cells.{name}.{key} = {short(value)}: no such key{meant(key, CELL_KEYS)}"
            for name, cell in self.cells.items()
            for key, value in cell.items()
            if key not in CELL_KEYS
        ]
        if problems:
            raise ValueError("\n".join(problems))
        return self


class Evaluate(Record):
    manifest: Manifest
    designs: dict[DesignName, Design] = Field(
        description="main: what our intervals are made of; protocol: the paper's, by default main's first training"
    )
    budget: Count = Field(description="environment steps that an episode may take")
    renderer: Literal["as_data", "library", "fast"] = Field(
        description="of frames after the first: the library's own | ours | as_data: the library's where data is released"
    )
    restore: Literal["settled", "exact"] = Field(
        description="Push-T: a start is as logged, or 10 ms of physics later, as the library restores it"
    )
    plan_seeds: Some[Seed]
    device: Device
    locked: dict[Env, Sha256] = Field(description="sha256_of_lines by environment; every other manifest is refused")
    blend: Share = Field(description="alpha in (1-alpha)*d_psi + alpha*l2")
    curve_epochs: tuple[Count, ...] = Field(description="epochs of the epoch curves, with the first plan seed")
    curve_trainings: Whole | None = Field(None, description="of how many trainings, from the first; absent: all")
    curve_pairs: Count = Field(description="on how many pairs, from the first of the manifest")
    curve_cost: Cost
    planner: Planner
    costs: Costs
    protocol: dict[Env, Protocol]
    sweeps: dict[Name, Sweep]

    @model_validator(mode="after")
    def has_a_design(self):
        if "main" not in self.designs:
            raise ValueError("designs: main is needed; it is what intervals and verdicts are made of")
        return self
