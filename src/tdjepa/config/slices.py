"""Slices: what one job depends on, and nothing else. Their canonical JSON is what Snakemake compares and what cards record."""

from typing import Union

from pydantic import Field, model_validator

from tdjepa.base.artefacts import canonical
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.names import SIMULATOR, TRUE_STATE
from tdjepa.config.params import Params
from tdjepa.config.parse import parse
from tdjepa.config.records.base import Count, Env, ImageSize, Name, Record, Seed, Several, Some, Storage, Weight, Whole
from tdjepa.config.records.data import DATA, Mine
from tdjepa.config.records.evidence import Judge
from tdjepa.config.records.methods import Method
from tdjepa.config.records.model import Model, Train
from tdjepa.config.records.planning import Cell, Evaluate
from tdjepa.config.records.released import Sha256, Source, released


class CollectSlice(Record):
    env: Env
    seed: Seed
    min_length: Count
    goal_offset: Count = Field(description="for the share of trivial goals in the card")
    storage: Storage = "plain"
    data: Union[tuple(DATA.values())]  # noqa: UP007 (not known before this line runs)

    @model_validator(mode="before")
    @classmethod
    def data_of_the_env(cls, value):
        """Two environments may have the same keys: the name decides, not the shape."""
        if isinstance(value.get("data"), dict) and value.get("env") in DATA:
            return {**value, "data": DATA[value["env"]].model_validate_json(canonical(value["data"]))}
        return value


class FetchSlice(Record):
    """What is fetched, not from where: a checksum says that another mirror gives the same file."""

    env: Env
    source: Source
    episodes: Count
    image_size: ImageSize
    storage: Storage
    goal_offset: Count


class TakeSlice(Record):
    """What is taken, not where it lies: the checksum says that a file elsewhere is the same."""

    env: Env
    sha256: Sha256
    episodes: Count
    min_length: Count
    image_size: ImageSize
    storage: Storage
    goal_offset: Count


class MineSlice(Record):
    env: Env
    mine: Mine


class OfTraining(Record):
    """Which training a job is about."""

    scale: Name
    env: Env
    method_name: Name
    seed: Seed


class TrainSlice(OfTraining):
    method: Method
    frameskip: Count
    model: Model
    train: Train


class EvaluateSlice(OfTraining):
    label: str
    frameskip: Count
    goal_offset: Count
    evaluate: Evaluate
    cells: tuple[Cell, ...]

    @model_validator(mode="after")
    def fits(self):
        longest = max((cell.planner.horizon for cell in self.cells), default=0)
        if longest * self.frameskip > self.evaluate.budget:
            plan = f"evaluate.planner.horizon: {longest} model steps of {self.frameskip}"
            raise ValueError(f"{plan} are longer than evaluate.budget: {self.evaluate.budget} environment steps")
        return self


class CeilingSlice(EvaluateSlice):
    first: Whole = Field(description="pairs of the manifest that other jobs plan; from there up to those of the cells")


class LadderSlice(EvaluateSlice):
    model: Model
    train: Train = Field(description="steps_per_epoch are all of its steps")


class DiagnoseSlice(OfTraining):
    epochs: Some[Count] = Field(description="checkpoints, the last one last")
    aliasing_frames: Several


class ProbeSlice(OfTraining):
    last_epoch: Count
    frameskip: Count
    horizon: Count = Field(description="model steps that are imagined")
    frames: Count
    candidates: Count = Field(description="held-out frames from which drawn actions are imagined and simulated")
    colour: Weight = Field(description="exponent of the coloured noise of iCEM's candidates")


def collect_slice(p: Params, env: str) -> CollectSlice:
    of_all = {name: getattr(p.collect, name) for name in ("seed", "min_length", "storage")}
    return CollectSlice(env=env, goal_offset=p.mine.goal_offset, data=getattr(p.collect, env), **of_all)


def fetch_slice(p: Params, env: str) -> FetchSlice:
    data, source = getattr(p.collect, env), released(env, sha256=p.fetch.sha256.get(env))
    wanted = {"episodes": data.episodes, "image_size": data.image_size, "storage": p.collect.storage}
    return FetchSlice(env=env, source=source, goal_offset=p.mine.goal_offset, **wanted)


def take_slice(p: Params, env: str) -> TakeSlice:
    if env not in p.collect.file:
        raise UserError(f"collect.file: no entry for {env}; write the path and the sha256 of your file there")
    data, of_all = getattr(p.collect, env), {"min_length": p.collect.min_length, "storage": p.collect.storage}
    wanted = {"episodes": data.episodes, "image_size": data.image_size, "goal_offset": p.mine.goal_offset}
    return TakeSlice(env=env, sha256=p.collect.file[env].sha256, **wanted, **of_all)


def mine_slice(p: Params, env: str) -> MineSlice:
    return MineSlice(env=env, mine=p.mine)


def _of(p: Params, env: str, method: str, seed: int) -> dict:
    return {"scale": p.scale, "env": env, "method_name": method, "seed": seed}


def train_slice(p: Params, env: str, method: str, seed: int) -> TrainSlice:
    train, model, terms = runs.recipe_of(p, env, method)
    # counted here, because what is in a slice makes its job run again
    steps = {"steps_per_epoch": runs.steps_per_epoch(train)} | ({"step_factor": 1.0} if train.steps_per_epoch else {})
    data = _of(p, env, method, seed) | {
        # neither `envs` nor `train_seeds` is a reason to train again
        "method": {**p.methods[method].model_dump(mode="json"), "envs": None, "train_seeds": None, "terms": terms},
        "frameskip": p.mine.frameskip,
        "model": model,
        "train": train.model_dump(mode="json") | steps,
    }
    return parse(TrainSlice, data, f"params for {env}/{method}")


def evaluate_slice(p: Params, env: str, method: str, seed: int, sweep: str = "") -> EvaluateSlice:
    """The published protocol, or the planner settings of a sweep, for one training (or the floors, which have no cells)."""
    known = p.methods.get(method)  # the floors (random, zero, replay) are not trained and have no entry
    if known is None:
        cells, manifest = (), p.evaluate.manifest
    elif sweep:
        cells, manifest = runs.swept_cells(p, env, method, sweep), p.evaluate.sweeps[sweep].manifest
    else:
        cells, manifest = runs.protocol_cells(p, env, method, seed), p.evaluate.manifest
    # a lock is meant for the manifest of the report
    locked = p.evaluate.locked.get(env) if manifest == p.evaluate.manifest else None
    cut = {"protocol": {env: p.evaluate.protocol[env]}, "sweeps": {}, "manifest": manifest}
    cut["locked"] = {env: locked} if locked else {}
    if known and (sweep or "protocol" not in runs.designs_of(p, method, seed)):
        cut["designs"] = {"main": p.evaluate.designs["main"]}
    goal_offset = p.mine.goal_offset
    if sweep and p.evaluate.sweeps[sweep].goal_offset:
        goal_offset = p.evaluate.sweeps[sweep].goal_offset
        cut["budget"] = 2 * goal_offset
    if p.evaluate.renderer == "as_data":
        cut["renderer"] = "library" if p.collect.source[env] == "released" else "fast"
    data = _of(p, env, method, seed) | {
        "label": known.label if known else method,
        "frameskip": p.mine.frameskip,
        "goal_offset": goal_offset,
        "evaluate": p.evaluate.model_copy(update=cut).model_dump(mode="json"),
        "cells": cells,
    }
    return parse(EvaluateSlice, data, f"params for {env}/{method}" + (f", evaluate.sweeps.{sweep}" if sweep else ""))


def diagnose_slice(p: Params, env: str, method: str, seed: int) -> DiagnoseSlice:
    amounts = {"epochs": tuple(runs.diagnosed_epochs(p)), "aliasing_frames": p.diagnose.aliasing_frames}
    return DiagnoseSlice(**_of(p, env, method, seed), **amounts)


def probe_slice(p: Params, env: str, method: str, seed: int) -> ProbeSlice:
    steps = {"frameskip": p.mine.frameskip, "horizon": p.evaluate.planner.horizon}
    of = _of(p, env, method, seed)
    drawn = {"candidates": p.diagnose.probe_candidates, "colour": p.evaluate.planner.colour}
    return ProbeSlice(**of, **steps, **drawn, last_epoch=p.train.epochs, frames=p.diagnose.probe_frames)


def ceiling_slice(p: Params, env: str, part: int = 1, sweep: str = "") -> CeilingSlice:
    """The protocol (or the settings of a sweep) on one part of the first pairs, with one plan seed. Its cost is a distance of
    states, whatever the cells say."""
    if env not in p.diagnose.ceiling_pairs:
        raise UserError(f"diagnose.ceiling_pairs: no entry for {env}; add one to plan there with the true simulator")
    of_env = [job["part"] for job in runs.jobs(p, "ceilings") if job["env"] == env] or [1]
    if part not in of_env:
        raise UserError(f"--part {part}: {env} has {len(of_env)} (diagnose.ceiling_jobs)")
    pairs = min(p.diagnose.ceiling_pairs[env], p.evaluate.designs["main"].pairs)
    first, end = (pairs * k // len(of_env) for k in (part - 1, part))
    data = evaluate_slice(p, env, SIMULATOR, 0).model_dump(mode="json")
    if sweep:  # on validation pairs, all of them in one job
        cells, first, end = runs.swept_cells(p, env, "lewm", sweep), 0, min(pairs, p.mine.validation_goals)
        data["evaluate"] |= {"manifest": "validation", "locked": {}}
    else:
        cells = [runs.cell(p, env, {"cost": "l2", "epoch": 1}, 1, end)]
    data["evaluate"]["curve_epochs"] = []
    some = {"plan_seeds": p.evaluate.plan_seeds[:1], "pairs": end}
    return parse(CeilingSlice, data | {"cells": [cell | some for cell in cells], "first": first}, f"params for {env}")


def ladder_slice(p: Params, env: str) -> LadderSlice:
    """The protocol with the predictor of LeWM's recipe, which learns true states in diagnose.ladder.steps steps."""
    train, model, _ = runs.recipe_of(p, env, "lewm")
    ladder, pairs = p.diagnose.ladder, p.evaluate.designs["main"].pairs
    steps = {"steps_per_epoch": ladder.steps, "epochs": 1, "batch": ladder.batch, "siblings": 1, "step_factor": 1.0}
    data = evaluate_slice(p, env, TRUE_STATE, 0).model_dump(mode="json")
    data["evaluate"]["curve_epochs"] = []
    data |= {"cells": [runs.cell(p, env, {"cost": "l2", "epoch": 1, "history": 1}, 1, pairs)]}
    data |= {"model": model, "train": train.model_dump(mode="json") | steps}
    return parse(LadderSlice, data, f"params for {env}")


def judge_slice(p: Params) -> Judge:
    return p.judge


def report_slice(p: Params) -> Params:
    """Captions and tables may name any parameter."""
    return p


def slice_json(record: Record) -> str:
    """The canonical JSON of a slice: ONE string, because Snakemake compares the set of a rule's values without names."""
    return canonical(record.model_dump(mode="json"))
