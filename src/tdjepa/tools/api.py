"""For Python users: `tdjepa.rows`, `tdjepa.load`, `tdjepa.plan` (docs/python.md; docs/tour.ipynb shows them at work).

Nothing here computes in its own way: rows are read, checkpoints loaded and episodes planned by the code of the pipeline, so a
planned pair ends as its row says.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from tdjepa.base.errors import UserError
from tdjepa.config import load as parameters
from tdjepa.config.records.planning import Cell
from tdjepa.config.runs import planned_cost
from tdjepa.config.slices import EvaluateSlice, evaluate_slice
from tdjepa.envs.base import make
from tdjepa.evidence import guard
from tdjepa.evidence import rows as rows_files
from tdjepa.model import checkpoint as checkpoints
from tdjepa.model.world_model import WorldModel, encode_in_parts
from tdjepa.planning.costs import STEP_COSTS, blended, contact_of, refuse
from tdjepa.planning.mpc import LatentPlanner, run_episodes
from tdjepa.steps.evaluate import Episodes
from tdjepa.steps.paths import path


def rows(scale: str = "desk") -> pd.DataFrame:
    """Every evaluation row of a scale that lies here: one per planner setting, plan seed and start-goal pair."""
    files = guard.rows_of(scale)
    guard.require_rows(files, scale)
    return rows_files.read(files)


@dataclass(frozen=True)
class Loaded:
    """A checkpoint: the model in eval mode, and what the file says about itself."""

    path: Path
    model: WorldModel
    scale: str
    env: str
    method: str
    seed: int
    epoch: int
    image_size: int
    frameskip: int

    def encode(self, frames: np.ndarray) -> np.ndarray:
        """Frames (N, H, W, 3) uint8 -> latents (N, D)"""
        return encode_in_parts(self.model, np.ascontiguousarray(frames), 256).cpu().numpy()

    @torch.inference_mode()
    def imagine(self, frame: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The latents that the model predicts after each block of `frameskip` actions; (H, W, 3), (T, A) -> (blocks, D)"""
        blocks = torch.as_tensor(np.asarray(actions, np.float32)).reshape(1, -1, len(self.model.action_mean))
        z = self.model.encode(torch.from_numpy(np.array(frame))[None])[None]  # (1, 1, D)
        return self.model.rollout(z, self.model.action_encoder(self.model.standardise(blocks)))[0].numpy()


def load(checkpoint: str | Path) -> Loaded:
    """A checkpoint (.safetensors, checked against its card), or the last one of a training's folder."""
    file = Path(checkpoint)
    if file.is_dir():
        saved = sorted(file.glob("epoch_*.safetensors"))
        if not saved:
            raise UserError(f"{file}: holds no epoch_*.safetensors; name a training's folder or a checkpoint")
        file = saved[-1]
    model, about = checkpoints.load(file)
    train = about["train"]
    who = {"scale": train["scale"], "env": train["env"], "method": train["method_name"], "seed": train["seed"]}
    sizes = {"epoch": about["epoch"], "image_size": about["image_size"], "frameskip": train["frameskip"]}
    return Loaded(file, model, **who, **sizes)


@dataclass(frozen=True)
class Planned:
    """One planned episode. Row t of `frames`, `states` and `costs` is before action t; they end at success or the budget."""

    success: bool
    steps: int
    cost: str
    frames: np.ndarray  # (T + 1, H, W, 3) uint8
    goal: np.ndarray  # (H, W, 3) uint8
    states: np.ndarray  # (T + 1, S)
    actions: np.ndarray  # (T, A)
    costs: np.ndarray  # (T + 1,) of the real frames
    imagined: list[
        tuple[int, np.ndarray]
    ]  # per plan: the step it was made at, and its costs from there on, a block apart


def plan(
    checkpoint: str | Path | Loaded,
    pair: int = 0,
    *,
    start: np.ndarray | None = None,
    goal: np.ndarray | None = None,
    cost: str | None = None,
    plan_seed: int | None = None,
    params: str | Path = "params.yaml",
) -> Planned:
    """Plan one episode by the protocol of the checkpoint's scale: a pair of its manifest, or from one state to another."""
    loaded = checkpoint if isinstance(checkpoint, Loaded) else load(checkpoint)
    p = parameters.load(params, loaded.scale)
    cfg = evaluate_slice(p, loaded.env, loaded.method, loaded.seed)
    cell = _cell(cfg, loaded, cost or planned_cost(p, loaded.env, loaded.method))
    if (start is None) != (goal is None):
        raise UserError("plan: start and goal: give both states, or neither for a pair of the manifest")
    if start is None:
        env, states, frames, key = _of_manifest(cfg, pair)
    else:
        env, states, key = make(loaded.env), np.stack([start, goal]), (0, 0)
        env.restore(states)
        frames = env.render(loaded.image_size)
    refuse(cell, loaded.model, env, str(loaded.path))
    seed = cell.plan_seeds[0] if plan_seed is None else plan_seed
    return _play(loaded, LatentPlanner(loaded.model, env, cell), states, frames, key, seed, cfg)


def _cell(cfg: EvaluateSlice, loaded: Loaded, cost: str) -> Cell:
    cells = {cell.cost: cell for cell in reversed(cfg.cells)}
    if cost not in cells:
        raise UserError(f"plan: cost {cost!r}: {loaded.method} is planned with {', '.join(cells)}")
    return cells[cost].model_copy(update={"epoch": loaded.epoch})


def _of_manifest(cfg: EvaluateSlice, pair: int):
    """Environment, start and goal (2, S), their frames (2, H, W, 3) and what names the random stream."""
    of = {"scale": cfg.scale, "env": cfg.env, "manifest": cfg.evaluate.manifest}
    locked = Episodes(cfg, Path(path("episodes", **of)), Path(path("manifest", **of)))
    if not 0 <= pair < len(locked.entries):
        raise UserError(f"plan: pair {pair}: must be 0 to {len(locked.entries) - 1}")
    states = np.stack([locked.starts[pair], locked.goals[pair]])
    frames = np.stack([locked.first_frames[pair], locked.goal_frames[pair]])
    return locked.env, states, frames, locked.entries[pair]


def _play(loaded: Loaded, planner: LatentPlanner, states, frames, key, plan_seed: int, cfg: EvaluateSlice) -> Planned:
    env, cell, (first, goal) = planner.env, planner.cell, frames
    # a policy has no cost of its own, so l2 is shown; a contact gate's share of l2 changes on the way, the start's is shown
    shown = cell.model_copy(update={"cost": "l2"}) if cell.cost == "policy" else cell
    made = STEP_COSTS.get(shown.cost, blended)
    cost_of = made(planner.model, shown, planner.encode(goal), contact_of(env, states[0]))
    act, imagined, seen, passed, taken = planner.policy(goal[None], plan_seed, [key]), [], [first], [states[0]], []

    def remembered(i, number, frames, past):
        blocks = act(i, number, frames, past)
        z, before = planner.context(frames, past)
        flat = torch.from_numpy(np.asarray(blocks, np.float32)).reshape(1, len(blocks), -1)
        z_hat = planner.rollout(z, before, planner.model.standardise(flat))[:, 0]  # (k, D)
        imagined.append((len(taken), cost_of(torch.cat([z[-1:], z_hat])).numpy()))
        return blocks

    def filmed(actions, step=env.step):
        step(actions)
        taken.append(actions[0])
        passed.append(env.state[0])
        seen.append(env.render(loaded.image_size)[0])

    env.step = filmed
    limits = (cfg.evaluate.budget, cfg.frameskip, cell.planner.history, loaded.image_size)
    outcome = run_episodes(env, states[:1], states[1:], remembered, *limits, first[None], to_the_end=False)
    steps = int(outcome["steps"][0])
    seen, passed, taken = seen[: steps + 1], passed[: steps + 1], taken[:steps]
    costs = np.array([float(cost_of(planner.encode(frame))) for frame in seen])
    done = {"frames": np.stack(seen), "goal": goal, "states": np.stack(passed), "actions": np.array(taken)}
    return Planned(bool(outcome["success"][0]), steps, cell.cost, **done, costs=costs, imagined=imagined)
