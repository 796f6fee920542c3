"""What is measured beside the evaluation, and how it is judged and shown."""

from typing import Annotated

from pydantic import Field

from tdjepa.config.records.base import Count, Env, Name, Record, Seed, Several, Written


class Ladder(Record):
    """The predictor of the scale on true states, without an encoder."""

    envs: tuple[Env, ...]
    steps: Count = Field(description="optimiser steps; all else is LeWM's recipe")
    batch: Several


class Diagnose(Record):
    """What is measured beside the evaluation: what a model sees and predicts, and what its planner could reach."""

    probe_frames: Several = Field(description="held-out frames that a probe reads; it is fitted on twice as many")
    aliasing_frames: Several = Field(description="frames whose agent is moved to see whether the encoder notices")
    probe_candidates: Several = Field(description="held-out frames from which drawn actions are imagined and simulated")
    ceiling_pairs: dict[Env, Count] = Field(description="pairs planned with the true simulator; absent: none")
    ceiling_jobs: dict[Env, Count] = Field({}, description="jobs among which they are shared out; absent: one")
    ladder: Ladder
    methods: tuple[Name, ...] | None = Field(None, description="methods whose latents are measured; absent: all")


class Judge(Record):
    seed: Seed
    bootstrap: Annotated[int, Field(ge=100)]
    level: Annotated[float, Field(gt=0.5, lt=1), Written]


class Render(Record):
    digits: Annotated[int, Field(ge=0, le=3)]
