"""The whole objective on one screen. A method is data (params.yaml, `methods`): which terms, with which weights.

L = L_pred + lambda_roll L_roll + lambda_td L_td + lambda_sig SIGReg          (eq. 9 of the paper)

Only encoder, predictor and projectors may run in bf16. Losses and heads are fp32: they subtract latents that are nearly equal,
and SIGReg's recurrence would be off by a percent.

A term takes a batch and its record of params.yaml and hands plain tensors and numbers to a pure function; `TERMS` names
them all. A method that combines them in another way needs no code; a new term needs a record in config/records/methods.py
and a line here.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from tdjepa.base.streams import stream, torch_stream
from tdjepa.base.transfer import moved
from tdjepa.config.records import methods as records
from tdjepa.config.records.methods import Method
from tdjepa.model.world_model import WorldModel
from tdjepa.objective import actions, prediction, reachability, temporal, value, variance
from tdjepa.objective.sigreg import directions, sigreg, subspace_directions

NO_AUTOCAST = nullcontext()


@dataclass
class Batch:
    """What the terms share: latents, action embeddings, one-step predictions and one open-loop rollout for all."""

    model: WorldModel
    method: Method
    z: torch.Tensor  # (B, T, D)
    c: torch.Tensor  # (B, T-1, E) action embeddings
    seed: int
    step: int
    epoch: int
    autocast: AbstractContextManager = NO_AUTOCAST  # around everything that the predictor does
    actions: torch.Tensor | None = None  # (B, T-1, A) z-scored blocks
    siblings: int = 1  # windows of one episode, side by side
    _rolled: torch.Tensor | None = field(default=None, init=False)

    @property
    def history(self) -> int:
        return self.model.predictor.history  # frames of context

    def rng(self, purpose: str) -> np.random.Generator:
        return stream(self.seed, purpose, self.step)

    @cached_property
    def next(self):
        """The latents predicted one step after each context frame. -> (B, history, D)"""
        with self.autocast:
            return self.model.predict(self.z[:, : self.history], self.c[:, : self.history])

    def rollout(self, steps: int):
        """Open loop along the logged actions, from the context frames on. -> predicted, real (B, steps, D)"""
        if self._rolled is None or self._rolled.shape[1] < steps:
            z, c, first = self.z[:, : self.history], self.c[:, : self.history - 1 + steps], self.next[:, -1]
            with self.autocast:
                self._rolled = self.model.rollout(z, c, first)
        return self._rolled[:, :steps], self.z[:, self.history : self.history + steps]


def one_step(b: Batch, t: records.OneStep):
    return prediction.one_step(b.next, b.z[:, 1 : b.history + 1], t.targets == "detached")


def rollout(b: Batch, t: records.Rollout):
    return prediction.rollout(*b.rollout(max(t.horizons)), t.horizons, t.targets == "detached")


def open_loop(b: Batch, t: records.OpenLoop):
    steps = prediction.draw_horizon(t.horizon, t.curriculum, b.epoch, b.rng("horizon"))
    return prediction.open_loop(*b.rollout(steps), t.targets == "detached")


def temporal_distance(b: Batch, t: records.Temporal):
    rng, margin = b.rng("pairs"), t.margin * (b.method.window - 1)
    other = temporal.strangers(len(b.z), rng, b.siblings)
    if t.pairs == "all":
        positive, negative = temporal.all_pairs(b.model.head, b.z, other, margin)
    else:
        i, j = temporal.draw_pairs(len(b.z), b.method.window, rng)
        positive, negative = temporal.one_pair(b.model.head, b.z, i, j, other, margin)
    return positive + negative if t.negatives else positive


def pair_reachability(b: Batch, t: records.PairReachability):
    drawn = reachability.drawn_pairs(len(b.z), b.method.window, t.horizon, b.rng("reachability"), b.siblings)
    return reachability.pairs(b.model.head, b.z, *drawn, t.horizon)


def budget_reachability(b: Batch, t: records.BudgetReachability):
    rng, steps, ahead = b.rng("reachability"), t.horizon, b.method.terms.open_loop
    if ahead:  # its authors use the predictions of the open-loop term, and no further ones
        steps = min(steps, prediction.draw_horizon(ahead.horizon, ahead.curriculum, b.epoch, b.rng("horizon")))
    z = b.z[:, b.history - 1 : b.history + t.horizon]
    others = [temporal.strangers(len(b.z), rng, b.siblings) for _ in range(4)]
    weights = (t.predicted, t.predicted_hard, t.terminal, t.terminal_predicted)
    return reachability.budgets(b.model.head, z, b.rollout(steps)[0], others, *weights)


def gaussian_latents(b: Batch, t: records.SigReg):
    z, drawn = b.z[..., t.skip :], torch_stream(b.seed, "sigreg", b.step)
    if t.subspaces:
        a = subspace_directions(z.shape[-1], t.directions, t.subspaces, torch_stream(b.seed, "subspaces"), drawn)
    else:
        a = directions(z.shape[-1], t.directions, drawn)
    return sigreg(z.transpose(0, 1), moved(a, z.device), t.knots)


def progression(b: Batch, t: records.Progression):
    rng, anchor = b.rng("progression"), b.method.window // 2
    near = range(max(0, anchor - t.radius), min(b.method.window, anchor + t.radius + 1))
    positive = int(rng.choice([frame for frame in near if frame != anchor]))
    other = temporal.strangers(len(b.z), rng)
    return variance.progression(b.z[..., : t.dimensions], anchor, positive, other, t.margin)


def value_distance(b: Batch, t: records.Value):
    other = temporal.strangers(len(b.z), b.rng("pairs"))
    return value.distance(b.model.head, b.z, other, t.expectile, t.discount)


def implicit(loss):
    """IVL and IQL take the same numbers."""

    def term(b: Batch, t: records.Implicit):
        other = temporal.strangers(len(b.z), b.rng("pairs"))
        return loss(b.model.head, b.z, b.actions, other, t.expectile, t.discount, t.temperature)

    return term


TERMS = {
    "one_step": one_step,
    "rollout": rollout,
    "open_loop": open_loop,
    "temporal": temporal_distance,
    "pair_reachability": pair_reachability,
    "budget_reachability": budget_reachability,
    "sigreg": gaussian_latents,
    "inverse": lambda b, t: actions.inverse_dynamics(b.model.head, b.z, b.actions),
    "variance": lambda b, t: variance.variance(b.z, t.margin),
    "variance_over_time": lambda b, t: variance.variance_over_time(b.z, t.margin),
    "covariance": lambda b, t: variance.covariance(b.z),
    "similarity": lambda b, t: variance.similarity(b.z),
    "curvature": lambda b, t: variance.curvature(b.z),
    "progression": progression,
    "value": value_distance,
    "behaviour": lambda b, t: actions.behaviour(b.model.head, b.z, b.actions),
    "implicit_value": implicit(value.implicit_value),
    "implicit_q": implicit(value.implicit_q),
}


def objective(
    model: WorldModel,
    method: Method,
    frames,
    blocks,
    seed: int,
    step: int,
    epoch: int,
    autocast=NO_AUTOCAST,
    siblings: int = 1,
):
    """One batch of windows. frames (B, T, H, W, 3) uint8, blocks (B, T-1, block) raw actions; epochs count from 1.
    -> loss, {term: its unweighted value}, z (B, T, D)"""
    done = model.standardise(blocks)
    with autocast:
        z, c = model.encode(frames), model.action_encoder(done)
    batch = Batch(model, method, z, c, seed, step, epoch, autocast, done, siblings)
    terms = {name: term for name, term in method.terms if term is not None}
    parts = {name: TERMS[name](batch, term) for name, term in terms.items()}
    loss = sum(terms[name].weight * value for name, value in parts.items())
    return loss, {name: value.detach() for name, value in parts.items()}, z
