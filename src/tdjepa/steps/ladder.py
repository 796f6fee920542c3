"""`tdjepa ladder`: the scale's predictor learns true states, without an encoder, and the protocol's planner plans with it.

Between the ceiling (the simulator as model) and a method stand two things: what a predictor of this size learns from these
demonstrations, and what the latents hold. This step takes the second away, so what it misses to the ceiling is prediction,
and what a method misses beyond that is perception. The rows are those of a ceiling, with method `true_state`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from tdjepa.base.progress import progress
from tdjepa.base.source_files import code_version
from tdjepa.base.streams import stream
from tdjepa.config.slices import LadderSlice
from tdjepa.data.store import Store
from tdjepa.mining import windows
from tdjepa.mining.split import read as read_split
from tdjepa.model.world_model import WorldModel, build
from tdjepa.objective import prediction
from tdjepa.planning.mpc import LatentPlanner
from tdjepa.steps import evaluate as evaluation
from tdjepa.steps.probe import QUANTITIES
from tdjepa.steps.schedule import learning_rate
from tdjepa.steps.train import adamw

UNIT = 5.0  # tolerances of the task in one unit of the latent, so that both are of order one
TOLERANCE = {  # of the success criterion, in the units of the probe's quantities; the effector has none and gets the cube's
    "two_room": {"agent": 16.0},
    "reacher": {"shoulder": 0.05, "wrist": 0.05},
    "push_t": {"agent": 20.0, "block": 20.0, "angle": np.pi / 9},
    "cube": {"cube": 4.0, "effector": 4.0},
}
Latents = Callable[[np.ndarray], np.ndarray]  # states (N, S) -> (N, D) float32


def latents_of(env: str, states: np.ndarray) -> Latents:
    """The physical quantities of a state in units of the task, centred on these states."""

    def scaled(some: np.ndarray) -> np.ndarray:
        parts = [of(some) / (UNIT * TOLERANCE[env][name]) for (name, _), of in QUANTITIES[env].items()]
        return np.concatenate(parts, 1)

    middle = scaled(states).mean(0)
    return lambda some: (scaled(some) - middle).astype(np.float32)


def fit(cfg: LadderSlice, data: Store, episodes: np.ndarray, latents: Latents) -> tuple[WorldModel, float]:
    """A predictor of true states, by the one-step loss of LeWM; -> model, its last loss"""
    z_all, train, history = latents(data.state), cfg.train, cfg.model.predictor.history
    block = cfg.frameskip * data.action.shape[1]
    model = build(cfg.model.model_copy(update={"latent": z_all.shape[1]}), "none", data.image_size, block, cfg.seed)
    for moment, of_actions in zip((model.action_mean, model.action_std), data.action_statistics(episodes), strict=True):
        moment.copy_(torch.from_numpy(np.tile(of_actions, cfg.frameskip)))
    first = windows.starts(data.length, data.offset, episodes, history + 1, cfg.frameskip, train.window_ends)
    optimiser, rng = adamw(model.train().parameters(), train), stream(cfg.seed, "ladder")
    with progress(train.steps_per_epoch, f"ladder {cfg.env}", "steps") as bar:
        for step in range(train.steps_per_epoch):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(train, step, train.steps_per_epoch)
            chosen = first[rng.integers(0, len(first), train.batch)]
            z, blocks = windows.gather(z_all, data.action, chosen, history + 1, cfg.frameskip)
            z, c = torch.from_numpy(z), model.action_encoder(model.standardise(torch.from_numpy(blocks)))
            loss = prediction.one_step(model.predict(z[:, :history], c), z[:, 1:], True)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip)
            optimiser.step()
            bar.update()
    return model.eval(), float(loss.detach())


class StatePlanner(LatentPlanner):
    """The protocol's planner; it looks at the simulator's state instead of at frames."""

    def __init__(self, model: WorldModel, env, cell, latents: Latents):
        super().__init__(model, env, cell)
        self.latents = latents

    def encode(self, state: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(self.latents(state[None])[0])

    def context(self, frames, past):
        """From the one state that is planned from, as the protocol plans from one frame."""
        return self.encode(self.env.state[0])[None], torch.zeros(0, len(self.model.action_mean))


def run(cfg: LadderSlice, episodes: Path, split: Path, manifest: Path, out: Path) -> pd.DataFrame:
    """Train the predictor on true states, plan every pair of the manifest, write the rows into `out`."""
    (cell,), locked = cfg.cells, evaluation.Episodes(cfg, episodes, manifest)
    train = np.asarray(read_split(split, locked.data.episodes)["train"])
    latents = latents_of(cfg.env, locked.data.state)
    model, loss = fit(cfg, locked.data, train, latents)
    planner, (plan_seed,), outcomes = StatePlanner(model, locked.env, cell, latents), cell.plan_seeds, []
    with progress(len(locked.entries), f"ladder {cfg.env}", "episodes") as bar:
        for k in range(len(locked.entries)):
            which = slice(k, k + 1)
            policy = planner.policy(locked.goals[which], plan_seed, locked.entries[which])
            outcomes.append(locked.play(policy, which))
            bar.update()
    outcome = {name: np.concatenate([o[name] for o in outcomes]) for name in outcomes[0] if name != "plan_seconds"}
    key = {"method": cfg.method_name, "train_seed": 0, "epoch": 0, "solver": cell.solver, "cost": "none", "w": cell.w}
    table = evaluation.rows(cfg, locked, key | {"plan_seed": plan_seed}, outcome, "", cell)
    table["code"] = code_version(__name__, cfg.env)[:16]
    inputs = {"episodes": episodes, "split": split, "manifest": manifest}
    return evaluation.write(cfg, [table], inputs, out, loss=float(f"{loss:.4g}"))
