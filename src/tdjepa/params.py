"""params.yaml as frozen, typed records.

`load("params.yaml", scale="desk")` merges the overlay of the scale into the base, checks every key at once and gives one
`Params`. A verb never sees the whole of it: `collect_slice`, `train_slice`, ... cut out what one job depends on, and the
canonical JSON of that slice is what Snakemake compares and what the cards record.
"""

import itertools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tdjepa.artefacts import canonical
from tdjepa.data.source import Mirror, Sha256, Source, released
from tdjepa.errors import UserError

Env = Literal["two_room", "reacher", "push_t", "cube"]
ENVS = get_args(Env)
Cost = Literal["d_psi", "l2", "blend", "hard_gate", "soft_gate", "rc_aux"]
Solver = Literal["cem", "icem", "mppi", "gradient"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]  # becomes a folder, so nothing that could leave one
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
ImageSize = Annotated[int, Field(ge=16, le=224)]
LEAKY = "_leaky"  # how the name of a method ends that trained on the evaluated episodes too
MAX_NODES = 100_000  # of a YAML file; params.yaml has about a thousand
MAX_BUDGET = 5  # model steps that a budget-conditioned head knows: the planner's horizon
Storage = Literal["plain", "packed"]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:[0-9]+)?)$")]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


R = TypeVar("R", bound=Record)


# What the demonstrations are ------------------------------------------------------------------------------------------


class TwoRoomData(Record):
    episodes: Count
    max_steps: Count = Field(description="an episode ends here even if the goal was not reached")
    action_noise: Weight = Field(description="std of the Gaussian noise on the expert's unit direction")
    image_size: ImageSize


class ReacherData(Record):
    episodes: Count
    max_steps: Count = Field(description="steps of every episode: the demonstrator acts at random and never ends one")
    image_size: ImageSize


class PushTData(Record):
    episodes: Count
    max_steps: Count
    expert_share: Share = Field(
        description="episodes of the goal-directed pusher; the rest is the library's WeakPolicy"
    )
    target_share: Share = Field(
        description="episodes whose goal is the one drawn in the frames; the others go anywhere"
    )
    action_noise: Weight = Field(description="std of the noise on the expert's actions")
    image_size: ImageSize


class CubeData(Record):
    episodes: Count
    max_steps: Count = Field(description="steps of every episode: the expert gets a new target whenever it is done")
    action_noise: Weight = Field(
        description="most noise of an episode; its level is drawn from 0 to this: std on x, y, z, 3x on yaw, 10x on the gripper"
    )
    carry_share: Share = Field(
        description="episodes in which the expert, whenever it holds the cube, carries it about at random"
    )
    image_size: ImageSize


DATA = {"two_room": TwoRoomData, "reacher": ReacherData, "push_t": PushTData, "cube": CubeData}


class Collect(Record):
    seed: Seed
    min_length: Count = Field(description="shorter episodes cannot hold a start and a goal and are dropped")
    storage: Storage = Field(
        description="plain: frames memory-mapped; packed: LZ4, a thirtieth to a sixth of the bytes"
    )
    source: dict[Env, Literal["generated", "released"]] = Field(
        description="generated: collected here, as the sections below say; released: fetched, the first `episodes` of the file"
    )
    two_room: TwoRoomData
    reacher: ReacherData
    push_t: PushTData
    cube: CubeData


class Fetch(Record):
    """Where released demonstrations come from; what they are is in data/source.py."""

    mirrors: Annotated[tuple[Mirror, ...], Field(min_length=1)] = Field(
        description="tried in order: the base URL of a hub, or a URL with {file} in it"
    )
    sha256: dict[Env, Sha256] = Field(description="where a mirror has another file than the known one")


class Split(Record):
    train: Share
    validation: Share
    test: Share

    @model_validator(mode="after")
    def sums_to_one(self):
        total = self.train + self.validation + self.test
        if abs(total - 1) > 1e-9:
            raise ValueError(f"train + validation + test = {total:g}, but the three shares must sum to 1")
        return self


class Mine(Record):
    seed: Seed
    split: Split
    frameskip: Count = Field(description="environment steps in one model step (the action block)")
    goal_offset: Count = Field(description="environment steps between start and goal")
    validation_goals: Count
    test_goals: Count
    exclude_trivial: bool = Field(description="drop pairs that are already solved at the start from the manifests")
    pairs: Count = Field(description="pairs of the alignment diagnostic, from test episodes")
    near_end: Count = Field(description="near stratum: the goal lies at most this many steps before the episode's end")
    far_end: Count = Field(description="far stratum: the goal lies at least this many steps before the episode's end")


# What is trained ------------------------------------------------------------------------------------------------------


class Encoder(Record):
    patch: Count
    width: Count
    depth: Count
    heads: Count
    position_std: Positive = Field(description="std at which position embeddings start; see docs on aliasing")
    stem: Annotated[tuple[Count, ...], Field(max_length=4)] = Field(
        description="widths of stride-2 3x3 convolutions before the patches; [] = plain ViT"
    )
    readout: Literal["cls", "tokens"] = Field(
        description="what the projector sees: the CLS token, as published, or all patch tokens end to end"
    )


class Predictor(Record):
    width: Count
    depth: Count
    heads: Count
    head_width: Count
    mlp: Count
    dropout: Annotated[float, Field(ge=0, lt=1)]
    history: Count = Field(description="frames that the predictor may see")


class Head(Record):
    hidden: Count
    features: Count = Field(description="width of each of the symmetric and asymmetric features")


class Model(Record):
    normalisation: Literal["imagenet", "dataset", "whitened"] = Field(
        description="of the frames: ImageNet's moments, the training frames' own, or those with the channels decorrelated too"
    )
    latent: Count
    projector: Count
    action_smooth: Count
    action_mlp: Count = Field(description="hidden width of the action encoder in multiples of its output")
    encoder: Encoder
    predictor: Predictor
    head: Head


class Health(Record):
    """A training beyond these (smoothed over 50 steps) is stopped: its latents have collapsed, or its gradients exploded."""

    min_std: Weight = Field(description="standard deviation of the latents, mean over dimensions; healthy is about 1")
    min_rank: Weight = Field(description="effective rank of the latents' covariance; healthy is several")
    max_grad_norm: Positive = Field(description="norm of the gradient before it is clipped; at desk it is below 10")


class Train(Record):
    epochs: Annotated[int, Field(ge=1, le=10_000)]
    steps_per_epoch: Annotated[int, Field(ge=0)] = Field(description="optimiser steps; 0 = every window once")
    step_factor: Positive = Field(description="multiplies steps_per_epoch (not 0): equal CPU time for unequal steps")
    batch: Annotated[int, Field(ge=2)]
    accumulate: Count
    lr: Positive
    final_lr: Share = Field(description="the cosine ends at this share of lr")
    weight_decay: Weight
    warmup: Share = Field(description="share of all steps with a linearly growing lr")
    clip: Positive
    health: Health
    precision: Literal["auto", "fp32", "bf16"]
    device: Device

    @property
    def steps(self) -> int:
        """Optimiser steps an epoch; 0 = every window once."""
        return max(1, round(self.steps_per_epoch * self.step_factor)) if self.steps_per_epoch else 0


class Runtime(Record):
    """How the work is done, not what comes out: no number depends on it, so a change here runs nothing again."""

    snapshot_every: Count = Field(100, description="steps between two snapshots from which a killed training goes on")
    reader_workers: Annotated[int, Field(ge=0)] = Field(
        0, description="threads that read windows ahead; 0 = read when asked"
    )
    memory_mb: Positive = Field(1000, description="bound on the decoded frames that the reader holds")
    job_minutes: Weight = Field(
        2880, description="a job of the workflow that takes longer hangs and is stopped; 0 = never"
    )


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
    horizons: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(
        description="open-loop losses over so many steps, averaged"
    )

    @property
    def ahead(self) -> int:
        return max(self.horizons)


class OpenLoop(Term):
    """RC-aux: one horizon a batch, uniform up to one that grows with the epochs; step k weighs k."""

    horizon: Count = Field(description="the longest horizon")
    curriculum: Count = Field(description="the epoch from which on the longest horizon is drawn")
    targets: Literal["detached", "attached"]

    @property
    def ahead(self) -> int:
        return self.horizon


class Temporal(Term):
    margin: Weight = Field(description="eta: the hinge of the negatives sits at eta * (window - 1)")
    negatives: bool
    pairs: Literal["one", "all"] = Field(
        description="one random pair a window, as published, or all pairs weighted by how often they would be drawn"
    )


class PairReachability(Term):
    """RC-aux as the paper's authors re-implemented it: is a frame of the window within the horizon of another?"""

    horizon: Count


class BudgetReachability(Term):
    """RC-aux as its own authors have it: is a later frame within a budget of steps of the last context frame?"""

    horizon: Annotated[int, Field(ge=1, le=MAX_BUDGET)]
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
        if not self.present():
            raise ValueError(f"at least one term is needed: {', '.join(type(self).model_fields)}")
        return self

    def present(self) -> dict[str, Term]:
        return {name: term for name in type(self).model_fields if (term := getattr(self, name)) is not None}

    def ahead(self) -> int:
        """Frames that the terms need after the context."""
        return max(term.ahead for term in self.present().values())


TRAINED_BY = {  # head -> the term that trains it
    "mrn": "temporal",
    "symmetric": "temporal",
    "reachability": "pair_reachability",
    "budget_reachability": "budget_reachability",
}
BY_CONTACT = ("hard_gate", "soft_gate")  # costs that read who touches what
WITH_CONTACT = ("push_t",)  # where that is known
GIVEN_BY = {  # cost -> the heads that can give it; a cost that is not here needs none
    "d_psi": ("mrn", "symmetric"),
    "blend": ("mrn", "symmetric"),
    "hard_gate": ("mrn", "symmetric"),
    "soft_gate": ("mrn", "symmetric"),
    "rc_aux": ("budget_reachability",),
}


class Continues(Record):
    """The checkpoint that a training starts from, with a new optimiser and the whole schedule before it."""

    method: Name
    epoch: Count


class Method(Record):
    label: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f$\\]+$")] = Field(
        description="how tables and figures call it: one line without $ and \\, which figures read as mathematics"
    )
    window: Annotated[int, Field(ge=2)]
    head: Literal["none", "mrn", "symmetric", "reachability", "budget_reachability"]
    passes: Count = Field(
        default=1, description="windows of an optimiser step, in multiples of train.batch * accumulate"
    )
    continues: Continues | None = None
    trains_on: Literal["train", "all"] = Field(
        default="train",
        description="episodes of the training part, or all: the evaluated ones too, to measure what that leak is worth",
    )
    envs: Annotated[tuple[Env, ...], Field(min_length=1)] | None = Field(
        default=None, description="environments where it is run; all of the run if absent"
    )
    terms: Terms
    costs: Annotated[tuple[Cost, ...], Field(min_length=1)]
    plan_seeds: Count | None = Field(
        default=None, description="it is planned with the first so many of evaluate.plan_seeds; all if absent"
    )

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
    """An overlay of `train`, `model` and a method's `terms` for some environments or methods; later recipes win."""

    when: When
    train: dict[str, Any] = {}
    model: dict[str, Any] = {}
    terms: dict[str, Any] = Field({}, description="loss terms; of these only the ones that a method has")


# How it is planned and judged -----------------------------------------------------------------------------------------


class Planner(Record):
    horizon: Count = Field(description="H, model steps")
    receding: Count = Field(description="model steps executed before the next plan")
    candidates: Annotated[int, Field(ge=2)]
    elites: Annotated[int, Field(ge=2)]
    std: Positive = Field(description="initial std in z-scored action space")
    colour: Weight = Field(description="iCEM: exponent of the coloured noise")
    smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(description="iCEM: share of the old mean and std")
    keep: Annotated[int, Field(ge=0)] = Field(description="iCEM: elites carried to the next refinement")
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

    l2: Literal["squared", "root"] = Field(
        description="latent l2 is the squared distance in the reference; root = the distance"
    )
    trajectory_mean: Literal["with_context", "without_context"] = Field(
        description="whether the mean over a rollout counts the frame it starts from, as the reference does"
    )
    rc_aux_lambda: Share = Field(description="rc_aux: how much reachability may lower l2; 0 = l2")
    gate_threshold: Positive = Field(
        description="contact gates: agent-block distance that counts as near, world pixels"
    )
    gate_softness: Positive = Field(description="soft gate: width of the sigmoid around the threshold, world pixels")
    gate_near: Share = Field(description="contact gates: share of l2 near the block")
    hard_gate_far: Share = Field(description="hard gate: share of l2 far from the block")
    soft_gate_far: Share = Field(description="soft gate: share of l2 far from the block")


class Protocol(Record):
    """What the paper fixes per environment."""

    solver: Solver
    refinements: Count
    w: Share = Field(description="weight of the terminal cost; the rest goes to the trajectory mean")
    deployed: Cost
    planner: dict[str, Any] = Field(default={}, description="overlay of evaluate.planner for this environment")


class Cell(Record):
    """One planner setting: everything that decides a plan besides the model, the pair and the plan seed."""

    setting: Name = Field(description="main = the published protocol; else the name of the sweep")
    epoch: Count
    solver: Solver
    refinements: Count
    cost: Cost
    alpha: Share = Field(description="share of l2 in the cost blend")
    w: Share
    planner: Planner
    costs: Costs
    plan_seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]


class Sweep(Record):
    """Planner settings beside the protocol, as data: each cell overlays it; a list of values means each of them."""

    envs: tuple[Env, ...] = Field(description="environments where the pipeline runs it")
    methods: Annotated[tuple[Name, ...], Field(min_length=1)]
    train_seeds: Count = Field(description="the first so many training seeds")
    plan_seeds: Count = Field(description="the first so many plan seeds")
    manifest: Literal["validation", "test"]
    cells: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)] = Field(
        description="keys: epoch, solver, refinements, cost, alpha, w, and those of evaluate.planner and evaluate.costs"
    )


class Evaluate(Record):
    manifest: Literal["validation", "test"]
    episodes: Count = Field(description="the first so many entries of the manifest (it is in drawing order)")
    budget: Count = Field(description="environment steps an episode may take")
    plan_seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]
    device: Device
    locked: dict[Env, Sha256] = Field(description="refuse every other manifest: sha256_of_lines by environment")
    blend: Share = Field(description="alpha in (1-alpha)*d_psi + alpha*l2")
    curve_epochs: tuple[Count, ...] = Field(description="epochs of the epoch curve (first training and plan seed only)")
    curve_cost: Cost
    planner: Planner
    costs: Costs
    protocol: dict[Env, Protocol]
    sweeps: dict[Name, Sweep]


class Diagnose(Record):
    """What is measured beside the evaluation: what a model sees and predicts, and what its planner could reach."""

    probe_frames: Annotated[int, Field(ge=2)] = Field(
        description="held-out frames whose state a probe reads; it is fitted on twice as many of the training part"
    )
    ceiling_pairs: dict[Env, Count] = Field(
        description="pairs planned with the true simulator as model; an environment left out has none"
    )
    methods: tuple[Name, ...] | None = Field(default=None, description="whose latents are measured; null: all methods")


class Judge(Record):
    seed: Seed
    bootstrap: Annotated[int, Field(ge=100)]
    level: Annotated[float, Field(gt=0.5, lt=1)]


class Render(Record):
    digits: Annotated[int, Field(ge=0, le=3)]


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
    recipes: tuple[Recipe, ...]
    methods: dict[Name, Method]
    evaluate: Evaluate
    diagnose: Diagnose
    judge: Judge
    render: Render

    @model_validator(mode="after")
    def fits_together(self):
        problems = [
            f"methods_run: {m!r} is not defined under methods ({', '.join(self.methods)})"
            for m in self.methods_run
            if m not in self.methods
        ]
        problems += [f"evaluate.protocol: has no entry for {e!r}" for e in self.envs if e not in self.evaluate.protocol]
        problems += [f"collect.source: has no entry for {e!r}" for e in self.envs if e not in self.collect.source]
        if max(self.evaluate.curve_epochs, default=0) > self.train.epochs:
            problems.append(
                f"evaluate.curve_epochs: {max(self.evaluate.curve_epochs)} is beyond train.epochs: {self.train.epochs}"
            )
        goals = self.mine.validation_goals if self.evaluate.manifest == "validation" else self.mine.test_goals
        if self.evaluate.episodes > goals:
            problems.append(f"evaluate.episodes: {self.evaluate.episodes} exceeds the manifest's {goals} goals")
        for name, method in self.methods.items():
            needed = self.model.predictor.history + method.terms.ahead()
            if method.window < needed:
                problems.append(
                    f"methods.{name}.window: {method.window} is too short: history and horizon need {needed}"
                )
            if (method.trains_on == "all") != name.endswith(LEAKY):
                problems.append(
                    f"methods.{name}.trains_on: {method.trains_on}: rows tell a method by its name only, so a name ends with "
                    f"{LEAKY} exactly when all episodes are trained on; rename the method"
                )
            there = len(self.evaluate.plan_seeds)
            if (method.plan_seeds or 0) > there:
                problems.append(
                    f"methods.{name}.plan_seeds: {method.plan_seeds} exceeds the {there} of evaluate.plan_seeds"
                )
            if name in self.methods_run and method.continues:
                problems += [f"methods.{name}.continues: {why}" for why in self._why_not(name, method.continues)]
        problems += [
            f"evaluate.sweeps.{name}.methods: {m!r} is not defined under methods ({', '.join(self.methods)})"
            for name, sweep in self.evaluate.sweeps.items()
            for m in sweep.methods
            if m not in self.methods
        ]
        problems += [
            f"diagnose.methods: {m!r} is not defined under methods ({', '.join(self.methods)})"
            for m in self.diagnose.methods or ()
            if m not in self.methods
        ]
        if self.collect.min_length <= self.mine.goal_offset:
            problems.append(
                f"collect.min_length: {self.collect.min_length} must exceed mine.goal_offset: {self.mine.goal_offset}"
            )
        for env in ENVS:
            if getattr(self.collect, env).max_steps < self.collect.min_length:
                problems.append(
                    f"collect.{env}.max_steps: {getattr(self.collect, env).max_steps} leaves no episode of "
                    f"collect.min_length: {self.collect.min_length}"
                )
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _why_not(self, name: str, continues: Continues) -> list[str]:
        """What keeps a method from continuing another's training."""
        source = self.methods.get(continues.method)
        if source is None:
            return [f"{continues.method!r} is not defined under methods ({', '.join(self.methods)})"]
        if source.continues:
            return [f"{continues.method} continues a training itself; name the one that starts it"]
        problems = []
        if source.trains_on != self.methods[name].trains_on:
            problems.append(f"{continues.method} trains on other episodes (trains_on: {source.trains_on})")
        if continues.epoch > self.train.epochs:
            problems.append(f"epoch {continues.epoch} is beyond train.epochs: {self.train.epochs}")
        run = {env: self.methods_in(env) for env in self.envs}
        if missing := [env for env in self.envs if name in run[env] and continues.method not in run[env]]:
            problems.append(
                f"{continues.method} is not run in {', '.join(missing)}; add it to methods_run and to its envs"
            )
        return problems

    def methods_in(self, env: str) -> list[str]:
        """The methods that are run in an environment."""
        return [m for m in self.methods_run if env in (self.methods[m].envs or self.envs)]

    def plan_seeds_of(self, method: str) -> tuple[int, ...]:
        """The plan seeds of a method, or of the floors, under the protocol; sweeps have their own number."""
        known = self.methods.get(method)
        return self.evaluate.plan_seeds[: known.plan_seeds if known else None]

    def trainings(self) -> list[tuple[str, str, int]]:
        """(environment, method, training seed) of every training of the run."""
        return [(env, m, s) for env in self.envs for m in self.methods_in(env) for s in self.train_seeds]

    def is_diagnosed(self, method: str) -> bool:
        """Whether its latents are measured. Never those of a leaky training: the pairs are to be held out."""
        chosen = self.diagnose.methods
        return self.methods[method].trains_on == "train" and (chosen is None or method in chosen)

    def diagnosed(self) -> list[tuple[str, str, int]]:
        return [training for training in self.trainings() if self.is_diagnosed(training[1])]


# Slices: what one job depends on, and nothing else -------------------------------------------------------------------


class CollectSlice(Record):
    env: Env
    seed: Seed
    min_length: Count
    goal_offset: Count = Field(description="for the share of trivial goals in the card")
    storage: Storage = "plain"
    data: TwoRoomData | ReacherData | PushTData | CubeData

    @model_validator(mode="before")
    @classmethod
    def data_of_the_env(cls, value):
        """Two environments may have the same keys: the name decides, not the shape."""
        if isinstance(value.get("data"), dict) and value.get("env") in DATA:
            return {**value, "data": DATA[value["env"]].model_validate(value["data"])}
        return value


class FetchSlice(Record):
    """What is fetched, not from where: a checksum says that another mirror gives the same file."""

    env: Env
    source: Source
    episodes: Count
    image_size: ImageSize
    storage: Storage
    goal_offset: Count


class MineSlice(Record):
    env: Env
    mine: Mine


class TrainSlice(Record):
    scale: Name
    env: Env
    method_name: Name
    method: Method
    seed: Seed
    frameskip: Count
    model: Model
    train: Train

    @property
    def begun(self) -> int:
        """Epochs that were trained before, by the training that this one continues."""
        return self.method.continues.epoch if self.method.continues else 0


class EvaluateSlice(Record):
    env: Env
    method_name: str
    label: str
    seed: Seed
    scale: Name
    frameskip: Count
    goal_offset: Count
    evaluate: Evaluate
    cells: tuple[Cell, ...]

    @property
    def epochs(self) -> list[int]:
        """Whose checkpoints are needed."""
        return sorted({cell.epoch for cell in self.cells})

    @model_validator(mode="after")
    def fits(self):
        for cell in self.cells:
            if cell.planner.horizon * self.frameskip > self.evaluate.budget:
                raise ValueError(
                    f"evaluate.planner.horizon: {cell.planner.horizon} model steps of {self.frameskip} are longer than "
                    f"evaluate.budget: {self.evaluate.budget} environment steps"
                )
            if cell.cost == "rc_aux" and cell.planner.horizon > MAX_BUDGET:
                raise ValueError(
                    f"evaluate.planner.horizon: {cell.planner.horizon} exceeds the {MAX_BUDGET} steps that the head of "
                    f"{self.method_name} knows; shorten it or drop rc_aux from methods.{self.method_name}.costs"
                )
        return self


class DiagnoseSlice(Record):
    scale: Name
    env: Env
    method_name: Name
    seed: Seed
    epochs: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(description="checkpoints, the last one last")


class ProbeSlice(Record):
    scale: Name
    env: Env
    method_name: Name
    seed: Seed
    last_epoch: Count
    frameskip: Count
    horizon: Count = Field(description="model steps that are imagined")
    frames: Count


def collect_slice(p: Params, env: str) -> CollectSlice:
    c = p.collect
    return CollectSlice(
        env=env,
        seed=c.seed,
        min_length=c.min_length,
        goal_offset=p.mine.goal_offset,
        storage=c.storage,
        data=getattr(c, env),
    )


def fetch_slice(p: Params, env: str) -> FetchSlice:
    return FetchSlice(
        env=env,
        source=released(env, sha256=p.fetch.sha256.get(env)),
        episodes=getattr(p.collect, env).episodes,
        image_size=getattr(p.collect, env).image_size,
        storage=p.collect.storage,
        goal_offset=p.mine.goal_offset,
    )


def mine_slice(p: Params, env: str) -> MineSlice:
    return MineSlice(env=env, mine=p.mine)


def train_slice(p: Params, env: str, method: str, seed: int) -> TrainSlice:
    train, model = p.train.model_dump(mode="json"), p.model.model_dump(mode="json")
    terms = p.methods[method].terms.model_dump(mode="json")
    for recipe in p.recipes:
        if recipe.when.env in (None, env) and recipe.when.method in (None, method):
            train, model = merge(train, recipe.train), merge(model, recipe.model)
            absent = {name for name, term in terms.items() if term is None}
            terms = merge(terms, {name: term for name, term in recipe.terms.items() if name not in absent})
    data = {
        "scale": p.scale,
        "env": env,
        "method_name": method,
        # neither `envs` nor `plan_seeds` is a reason to train again
        "method": {**p.methods[method].model_dump(mode="json"), "envs": None, "plan_seeds": None, "terms": terms},
        "seed": seed,
        "frameskip": p.mine.frameskip,
        "model": model,
        "train": train,
    }
    return parse(TrainSlice, data, f"params for {env}/{method}")


def evaluate_slice(p: Params, env: str, method: str, seed: int, sweep: str = "") -> EvaluateSlice:
    """The published protocol, or the planner settings of a sweep, for one training (or the floors, which have no cells)."""
    known = p.methods.get(method)  # the floors (random, zero, replay) are not trained and have no entry
    if known is None:
        cells, manifest = (), p.evaluate.manifest
    elif sweep:
        cells, manifest = swept_cells(p, env, method, sweep), p.evaluate.sweeps[sweep].manifest
    else:
        cells, manifest = protocol_cells(p, env, method, seed), p.evaluate.manifest
    cut = {"protocol": {env: p.evaluate.protocol[env]}, "sweeps": {}, "manifest": manifest}
    locked = (
        p.evaluate.locked.get(env) if manifest == p.evaluate.manifest else None
    )  # the lock is the report's manifest's
    cut["locked"] = {env: locked} if locked else {}
    data = {
        "env": env,
        "method_name": method,
        "label": known.label if known else method,
        "seed": seed,
        "scale": p.scale,
        "frameskip": p.mine.frameskip,
        "goal_offset": p.mine.goal_offset,
        "evaluate": p.evaluate.model_copy(update=cut).model_dump(mode="json"),
        "cells": cells,
    }
    return parse(EvaluateSlice, data, f"params for {env}/{method}" + (f", evaluate.sweeps.{sweep}" if sweep else ""))


def protocol_cells(p: Params, env: str, method: str, seed: int) -> list[dict]:
    """Every cost of the method at the last epoch with every plan seed; the epoch curves on the first training seed.

    A leaky training has no curve: it answers one question, what the last epoch gains.
    """
    ev, known = p.evaluate, p.methods[method]
    cells = [_cell(p, env, {"cost": cost}, p.plan_seeds_of(method)) for cost in known.costs]
    if seed == p.train_seeds[0] and known.trains_on == "train":
        curves = itertools.product(curve_costs(p, env, method), ev.curve_epochs)
        earlier = [{"cost": cost, "epoch": epoch} for cost, epoch in curves if epoch != p.train.epochs]
        cells += [_cell(p, env, overlay, ev.plan_seeds[:1]) for overlay in earlier]
    return cells


def planned_cost(p: Params, env: str, method: str) -> str:
    """What a method plans with where one cost is shown: the deployed one if it has it, else its first."""
    deployed, costs = p.evaluate.protocol[env].deployed, p.methods[method].costs
    return deployed if deployed in costs else costs[0]


def curve_costs(p: Params, env: str, method: str) -> list[str]:
    """The costs of a method's epoch curves: that of the published curve, and what it plans with (an ablation, which continues
    another training, has a curve for the former only)."""
    known, published = p.methods[method], p.evaluate.curve_cost
    costs = [published] if published in known.costs else []
    return list(dict.fromkeys(costs if known.continues else [*costs, planned_cost(p, env, method)]))


def swept_cells(p: Params, env: str, method: str, name: str) -> list[dict]:
    """The cells of a sweep; a cell that names no cost plans with the deployed one, or the method's first."""
    sweep = p.evaluate.sweeps[name]
    usual = {"setting": name, "cost": planned_cost(p, env, method)}
    cells = []
    for overlay in sweep.cells:
        choices = [value if isinstance(value, list | tuple) else [value] for value in overlay.values()]
        for values in itertools.product(*choices):
            overlaid = usual | dict(zip(overlay, values, strict=True))
            cells.append(_cell(p, env, overlaid, p.evaluate.plan_seeds[: sweep.plan_seeds]))
    return cells


def _cell(p: Params, env: str, overlay: Mapping, plan_seeds: tuple[int, ...]) -> dict:
    """The protocol of an environment with some keys changed; keys of the planner and the costs may stand beside the others."""
    ev, protocol = p.evaluate, p.evaluate.protocol[env]
    parts = {
        "planner": {**ev.planner.model_dump(mode="json"), **protocol.planner},
        "costs": ev.costs.model_dump(mode="json"),
    }
    cell = {"setting": "main", "epoch": p.train.epochs, "alpha": ev.blend, "plan_seeds": plan_seeds}
    cell |= {"solver": protocol.solver, "refinements": protocol.refinements, "w": protocol.w}
    for key, value in overlay.items():
        next((part for part in parts.values() if key in part), cell)[key] = value
    return {**cell, **parts}


def diagnosed_epochs(p: Params) -> list[int]:
    """The epochs of the curve, for every training: latents cost less than plans."""
    return sorted({*p.evaluate.curve_epochs, p.train.epochs})


def diagnose_slice(p: Params, env: str, method: str, seed: int) -> DiagnoseSlice:
    epochs = tuple(diagnosed_epochs(p))
    return DiagnoseSlice(scale=p.scale, env=env, method_name=method, seed=seed, epochs=epochs)


def probe_slice(p: Params, env: str, method: str, seed: int) -> ProbeSlice:
    return ProbeSlice(
        scale=p.scale,
        env=env,
        method_name=method,
        seed=seed,
        last_epoch=p.train.epochs,
        frameskip=p.mine.frameskip,
        horizon=p.evaluate.planner.horizon,
        frames=p.diagnose.probe_frames,
    )


def ceiling_slice(p: Params, env: str) -> EvaluateSlice:
    """The protocol on the first pairs with one plan seed; its cost is a distance of states, whatever the cell says."""
    pairs = p.diagnose.ceiling_pairs.get(env)
    if pairs is None:
        raise UserError(
            f"diagnose.ceiling_pairs: has no entry for {env}; add one to plan there with the true simulator"
        )
    cell = parse(Cell, _cell(p, env, {"cost": "l2", "epoch": 1}, p.evaluate.plan_seeds[:1]), f"params for {env}")
    cfg = evaluate_slice(p, env, "simulator", 0)
    evaluate = cfg.evaluate.model_copy(update={"episodes": min(pairs, cfg.evaluate.episodes), "curve_epochs": ()})
    return cfg.model_copy(update={"evaluate": evaluate, "cells": (cell,)})


# Reading --------------------------------------------------------------------------------------------------------------


def merge(base: Mapping, overlay: Mapping) -> dict:
    """`overlay` over `base`: mappings merge key by key, everything else is replaced."""
    out = dict(base)
    for key, value in overlay.items():
        out[key] = merge(out[key], value) if isinstance(out.get(key), Mapping) and isinstance(value, Mapping) else value
    return out


def read_yaml(path: str | Path):
    """YAML without code execution, errors in one line."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; run this in the project's folder or name the file with --params"
        ) from None
    except ValueError:
        raise UserError(f"{path}: not text in UTF-8") from None
    try:
        found = yaml.safe_load(text)
    except Exception as error:  # its readers of numbers and dates let errors of their own through
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split()) or type(error).__name__}") from None
    if _size(found, {}) > MAX_NODES:
        raise UserError(f"{path}: more than {MAX_NODES} values, or one that holds itself; anchors (&) repeat too much")
    return found


def _size(value, known: dict[int, float]) -> float:
    """Values in a tree whose parts may be shared: written out, a few lines of anchors can be larger than any memory."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # until it is done: who meets it inside itself meets it for ever
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]


def resolve(raw: Mapping, scale: str | None = None, source: str = "params.yaml") -> Params:
    """The parameters of one scale from the raw content of params.yaml; every problem is named at once."""
    if not isinstance(raw, Mapping):
        raise UserError(f"{source}: a mapping of parameters is expected, found {type(raw).__name__}")
    scales = raw.get("scales") or {}
    scale = scale or raw.get("scale")
    if not isinstance(scales, Mapping):
        raise UserError(f"{source}: scales = {_short(scales)}: a mapping of scales is expected")
    if not isinstance(scale, str) or scale not in scales:
        raise UserError(
            f"{source}: scale = {_short(scale)}: must be one of {', '.join(map(str, scales))[:200] or '(none defined)'}"
        )
    if not isinstance(scales[scale] or {}, Mapping):
        raise UserError(f"{source}: scales.{scale} = {_short(scales[scale])}: a mapping of parameters is expected")
    base = {key: value for key, value in raw.items() if key != "scales"}
    merged = merge(base, {**(scales[scale] or {}), "scale": scale})
    if isinstance(merged.get("methods"), Mapping):
        merged["methods"] = {name: _inherited(merged["methods"], name, source) for name in merged["methods"]}
    params = parse(Params, merged, source)
    problems = []
    for env, method, seed in params.trainings():  # recipes are overlays too: check what each training would get
        try:
            cfg = train_slice(params, env, method, seed)
            before = cfg.method.continues
            if before and train_slice(params, env, before.method, seed).model != cfg.model:
                problems.append(
                    f"{source}: recipes: give {env}/{method} another model than {before.method}, which it continues"
                )
            cells = evaluate_slice(params, env, method, seed).cells
            for name, sweep in params.evaluate.sweeps.items():
                if method in sweep.methods:
                    cells += evaluate_slice(params, env, method, seed, name).cells
            problems += [
                f"{source}: {line}" for line in _too_far(params, cells) + _not_given(params, env, method, cells)
            ]
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(dict.fromkeys(problems)))
    return params


def _inherited(methods: Mapping, name: str, source: str, *heirs: str):
    """A method's entry over that of the method it is `like`. (No YAML anchors: DVC's -S loses what is set behind one.)"""
    own = methods[name]
    if not isinstance(own, Mapping) or "like" not in own:
        return own
    like = own["like"]
    known = isinstance(like, str) and like in methods
    if not known or like in (name, *heirs):
        found = "leads back to itself" if known else "is not defined under methods"
        raise UserError(f"{source}: methods.{name}.like = {_short(like)}: {found} ({', '.join(map(str, methods))})")
    above = _inherited(methods, like, source, name, *heirs)
    return merge(above, {k: v for k, v in own.items() if k != "like"}) if isinstance(above, Mapping) else above


def _too_far(p: Params, cells: tuple[Cell, ...]) -> list[str]:
    """Cells that ask for more than the models have."""
    seen, trained = p.model.predictor.history, p.train.epochs
    found = [
        f"planner.history: {c.planner.history} exceeds model.predictor.history: {seen} ({c.setting})"
        for c in cells
        if c.planner.history > seen
    ]
    return found + [
        f"evaluate.sweeps.{c.setting}: epoch {c.epoch} is beyond train.epochs: {trained}"
        for c in cells
        if c.epoch > trained
    ]


def _not_given(p: Params, env: str, method: str, cells: tuple[Cell, ...]) -> list[str]:
    """Cells of the run whose cost the method's head or the environment cannot give."""
    found, head = [], p.methods[method].head
    for c in cells:
        main = c.setting == "main"
        where = f"methods.{method}.costs" if main else f"evaluate.sweeps.{c.setting}"
        if head not in GIVEN_BY.get(c.cost, (head,)):
            found.append(
                f"{where}: {c.cost} needs head {' or '.join(GIVEN_BY[c.cost])}, but that of {method} is {head}"
            )
        if c.cost in BY_CONTACT and env not in WITH_CONTACT and (main or env in p.evaluate.sweeps[c.setting].envs):
            found.append(
                f"{where}: {c.cost} needs contact geometry, which {env} lacks; only {', '.join(WITH_CONTACT)} has it"
            )
    return found


def load(path: str | Path = "params.yaml", scale: str | None = None) -> Params:
    return resolve(read_yaml(path), scale, str(path))


def parse(record: type[R], data, source: str) -> R:
    """`data` as a `record`; a UserError with one line a problem otherwise. (JSON mode: lists become tuples.)"""
    try:
        text = json.dumps(data, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # keys that are no names, mappings that hold themselves
        raise UserError(f"{source}: {error}") from None
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        raise UserError("\n".join(dict.fromkeys(line for e in error.errors() for line in _lines(e, source)))) from None


def _lines(error: Mapping, source: str) -> list[str]:
    """One problem of pydantic's as `file: key = value: what is allowed`."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "value_error":  # our own checks carry their own text, possibly several lines
        prefix = f"{source}: {key}." if key else f"{source}: "
        return [prefix + line for line in str(error["ctx"]["error"]).splitlines()]
    if error["type"] == "extra_forbidden":
        return [
            f"{source}: {key} = {_short(error['input'])}: no such key; check the spelling against the comments in params.yaml"
        ]
    if error["type"] == "missing":
        return [f"{source}: {key}: missing; a value is needed"]
    hint = ""
    if isinstance(error["input"], str) and error["type"] in ("float_type", "int_type"):
        hint = " (YAML reads 5e-5 as text: write 5.0e-5)"
    return [f"{source}: {key} = {_short(error['input'])}: {error['msg'][0].lower()}{error['msg'][1:]}{hint}"]


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def slice_json(record: Record) -> str:
    """The canonical JSON of a slice: ONE string, because Snakemake compares the set of a rule's values without names."""
    return canonical(record.model_dump(mode="json"))


def schema() -> dict:
    """The JSON schema of params.yaml (base and overlays), for editors and for Snakemake's own validation.

    Overlays may hold any part of the base, so there the schema only asks for known top-level keys, and a method that is
    like another may hold any part of it; the full check of the merged result is `resolve`.
    """
    full = Params.model_json_schema()
    sections = [key for key in full["properties"] if key != "scale"]
    overlay = {"type": "object", "properties": dict.fromkeys(sections, {}), "additionalProperties": False}
    full["properties"]["scales"] = {"type": "object", "additionalProperties": overlay, "minProperties": 1}
    full["required"] = [*full["required"], "scales"]
    heir = {"type": "object", "properties": {"like": {"type": "string"}}, "required": ["like"]}
    named = full["properties"]["methods"]["patternProperties"]
    full["properties"]["methods"]["patternProperties"] = {k: {"anyOf": [whole, heir]} for k, whole in named.items()}
    full["title"] = "params.yaml"
    full["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return full
