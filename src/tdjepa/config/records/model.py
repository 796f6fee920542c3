"""The world model and how it is trained."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tdjepa.config.records.base import BelowOne, Count, Device, Positive, Record, Several, Share, Weight, Whole


class Keypoints(Record):
    """Of the readout `keypoints`: small convolutions whose softmax maps say where things are."""

    cell: Count = Field(description="pixels; places lie so far apart, and one sees 2 x 2 cells")
    widths: tuple[Count, Count] = Field(description="channels of the two layers")
    maps: tuple[Count, Count] = Field(description="attention maps that are read from each layer")
    sharpness: Positive = Field(
        description="initial std of the scores over which the softmax is taken, in features' units"
    )

    def misfit(self, image_size: int) -> str:
        """Why frames of this size have no such grid of places; empty if they have. Fewer than 4 x 4 leave little to attend to."""
        if image_size % self.cell == 0 and image_size >= 4 * self.cell and self.cell % 2 == 0:
            return ""
        grid = f"{self.cell}-px cells, 4 x 4 at least and an even number of pixels wide"
        return f"model.encoder.keypoints.cell = {self.cell}: {image_size}-px frames are not cut into {grid}"


class Encoder(Record):
    patch: Count
    width: Count
    depth: Count
    heads: Count
    position_std: Positive = Field(description="initial std of the position embeddings")
    stem: Annotated[tuple[Count, ...], Field(max_length=4)] = Field(
        description="widths of stride-2 3x3 convolutions before the patches; [] = plain ViT"
    )
    readout: Literal["cls", "tokens", "keypoints"] = Field(
        description="what the projector sees: the CLS token, all patch tokens, or keypoints (no ViT then)"
    )
    keypoints: Keypoints


class Predictor(Record):
    width: Count
    depth: Count
    heads: Count
    head_width: Count
    mlp: Count
    dropout: BelowOne
    history: Count = Field(description="frames that the predictor may see")
    residual: bool = Field(description="predict the change of the latent, z + f(z, a), instead of the next latent")


class Head(Record):
    hidden: Count
    features: Count = Field(description="width of each of the symmetric and asymmetric features")
    budgets: Count = Field(description="the most model steps that a budget-conditioned head knows and plans with")


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
    steps_per_epoch: Whole = Field(description="optimiser steps; 0 = every window once")
    step_factor: Positive = Field(description="multiplies the steps of an epoch: equal compute for unequal steps")
    batch: Several
    siblings: Count = Field(description="windows of one episode that stand side by side in a batch; 1 = all shuffled")
    accumulate: Count = Field(description="batches per optimiser step")
    accumulation: Literal["mean", "sum_slow_schedule", "none"] = Field(
        description="what `accumulate` does: three readings of the published code, see docs/protocol.md"
    )
    windows_from: Literal["split", "all_episodes"] = Field(
        description="all windows of the training part, or nine of ten of all windows, drawn at random, as published"
    )
    window_ends: Literal["after_last_block", "at_last_frame"] = Field(
        description="rows that a window takes: window * frameskip, as published, or none after its last frame"
    )
    lr: Positive
    final_lr: Share = Field(description="the cosine ends at this share of lr")
    betas: tuple[BelowOne, BelowOne] = Field(description="of AdamW's two moments")
    weight_decay: Weight
    average: BelowOne = Field(description="decay of a running average of the weights, which is what is saved; 0 = none")
    warmup: Share = Field(description="share of all steps with a linearly growing lr")
    clip: Positive
    health: Health
    precision: Literal["auto", "fp32", "bf16", "bf16_fp32_projectors"]
    device: Device

    @model_validator(mode="after")
    def families(self):
        if self.batch % self.siblings or self.batch < 2 * self.siblings:
            raise ValueError(f"siblings: {self.siblings} must divide batch: {self.batch}, at least twice over")
        return self


class Runtime(Record):
    """How the work is done, not what comes out: no number depends on it, so a change here runs nothing again."""

    snapshot_every: Count = Field(100, description="steps between two snapshots from which a killed training goes on")
    gather_every: Count = Field(
        10, description="steps after which their losses and signs of health are read from the GPU"
    )
    reader_workers: Whole = Field(0, description="threads that read ahead; 0 = read when asked")
    memory_mb: Positive = Field(1000, description="bound on the decoded frames that the reader holds")
    gpu: Whole = Field(0, description="GPUs that a training or an evaluation is given; 0 = the scale runs on CPUs")
    job_minutes: Weight = Field(2880, description="a job that takes longer is taken to hang and is stopped; 0 = never")
