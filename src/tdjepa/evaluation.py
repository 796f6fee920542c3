"""`tdjepa evaluate`: a locked manifest in, one row per (plan seed, episode) out; nothing is aggregated here.

tdjepa evaluate --env two_room --method tdjepa --seed 3072 --scale desk
tdjepa evaluate --env two_room --method floors --scale desk          (random, zero action, replay of the log)
"""

from pathlib import Path

import numpy as np
import pandas as pd

from tdjepa.artefacts import hash_of, publish, sha256_of_input, sweep, write_card
from tdjepa.data.chunked import open_store
from tdjepa.envs.base import Env, make
from tdjepa.errors import UserError
from tdjepa.mining import manifest
from tdjepa.params import EvaluateSlice
from tdjepa.planning import mpc
from tdjepa.progress import progress
from tdjepa.streams import stream

FLOORS = ("random", "zero", "replay")


class Episodes:
    """The start and goal states of the manifest's entries, read from the data."""

    def __init__(self, cfg: EvaluateSlice, episodes: Path, manifest_file: Path):
        self.data = open_store(episodes)
        locked = manifest.read(manifest_file, cfg.env, self.data.length, cfg.goal_offset, sha256_of_input(episodes))
        if len(locked["entries"]) < cfg.evaluate.episodes:
            raise UserError(
                f"{manifest_file}: has {len(locked['entries'])} entries, evaluate.episodes = {cfg.evaluate.episodes}"
            )
        self.entries = locked["entries"][: cfg.evaluate.episodes]
        self.sha256 = locked["sha256_of_lines"]
        self.first = self.data.row(self.entries[:, 0], self.entries[:, 1])
        self.starts = self.data.state[self.first]
        self.goals = self.data.state[self.data.row(self.entries[:, 0], self.entries[:, 1] + cfg.goal_offset)]

    def logged_actions(self, i: int, n: int) -> np.ndarray:
        return np.nan_to_num(self.data.action[self.first[i] : self.first[i] + n])

    def goal_frames(self, env: Env) -> np.ndarray:
        env.restore(self.goals)
        return env.render(self.data.image_size)


def run(
    cfg: EvaluateSlice, episodes: Path, manifest_file: Path, checkpoints: dict[int, Path], out: Path
) -> pd.DataFrame:
    """Evaluate one trained model: every cost at the last epoch with every plan seed, and the epoch curve."""
    from tdjepa.model import checkpoint

    ev, locked, env = cfg.evaluate, Episodes(cfg, episodes, manifest_file), make(cfg.env)
    goal_frames = locked.goal_frames(env)
    todo = [(cfg.last_epoch, cost, seed) for cost in cfg.costs for seed in ev.plan_seeds]
    if cfg.on_curve:
        todo += [(e, ev.curve_cost, ev.plan_seeds[0]) for e in ev.curve_epochs if e != cfg.last_epoch]
    tables = []
    with progress(
        len(todo) * len(locked.entries), f"evaluate {cfg.env}/{cfg.method_name}/{cfg.seed}", "episodes"
    ) as bar:
        for epoch, cost, plan_seed in todo:
            expect = {"env": cfg.env, "method_name": cfg.method_name, "seed": cfg.seed}
            model, _ = checkpoint.load(checkpoints[epoch], expect)
            planner = mpc.LatentPlanner(
                model,
                env,
                goal_frames,
                cost,
                ev.blend,
                ev.protocol[cfg.env],
                ev.planner,
                plan_seed,
                locked.entries.tolist(),
            )
            outcome = mpc.run_episodes(
                env,
                locked.starts,
                locked.goals,
                planner,
                ev.budget,
                cfg.frameskip,
                ev.planner.history,
                locked.data.image_size,
            )
            bar.update(len(locked.entries))
            protocol = ev.protocol[cfg.env]
            key = {"method": cfg.method_name, "train_seed": cfg.seed, "epoch": epoch, "solver": protocol.solver}
            key |= {"cost": cost, "w": protocol.w, "plan_seed": plan_seed}
            tables.append(rows(cfg, locked, key, outcome, sha256_of_input(checkpoints[epoch])))
    inputs = {"episodes": episodes, "manifest": manifest_file, **{f"epoch_{e}": p for e, p in checkpoints.items()}}
    return write(cfg, tables, inputs, out)


def run_floors(cfg: EvaluateSlice, episodes: Path, manifest_file: Path, out: Path) -> pd.DataFrame:
    """What no learning gives: uniformly random actions, no action, and the replayed log (the oracle)."""
    ev, locked, env = cfg.evaluate, Episodes(cfg, episodes, manifest_file), make(cfg.env)
    blocks = -(-ev.budget // cfg.frameskip)
    shape = (blocks, cfg.frameskip, env.action_dim)

    def policy(name, plan_seed):
        def act(i, plan, frames, past):
            if name == "random":
                rng = stream(plan_seed, "random", *map(int, locked.entries[i]))
                return rng.uniform(env.action_low, env.action_high, shape).astype(np.float32)
            actions = np.zeros(shape)
            if name == "replay":
                actions.reshape(-1, env.action_dim)[: cfg.goal_offset] = locked.logged_actions(i, cfg.goal_offset)
            return actions

        return act

    tables = []
    for name in FLOORS:
        for plan_seed in ev.plan_seeds:
            if name == "random" or plan_seed == ev.plan_seeds[0]:  # the others do not depend on the plan seed
                outcome = mpc.run_episodes(
                    env, locked.starts, locked.goals, policy(name, plan_seed), ev.budget, cfg.frameskip
                )
            key = {"method": name, "train_seed": 0, "epoch": 0, "solver": "none", "cost": "none", "w": 1.0}
            tables.append(rows(cfg, locked, key | {"plan_seed": plan_seed}, outcome, ""))
    return write(cfg, tables, {"episodes": episodes, "manifest": manifest_file}, out)


def rows(cfg: EvaluateSlice, locked: Episodes, key: dict, outcome: dict, checkpoint_sha256: str) -> pd.DataFrame:
    """One row an episode, with the column names of the design first."""
    return pd.DataFrame(
        {
            "scale": cfg.scale,
            "env": cfg.env,
            **key,
            "episode": locked.entries[:, 0],
            "start": locked.entries[:, 1],
            "success": outcome["success"],
            "trivial": outcome["trivial"],
            "steps": outcome["steps"],
            "plans": outcome["plans"],
            "final_distance": final_distance(cfg.env, outcome["final"], locked.goals),
            "manifest": locked.sha256[:16],
            "checkpoint": checkpoint_sha256[:16],
            "params": hash_of(cfg.model_dump(mode="json"))[:16],
        }
    )


def final_distance(name: str, final: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Of the last states to their goals, in tolerances of the task: below 1 is at the goal; (N, S), (N, S) -> (N,)"""
    env = make(name)
    env.restore(final)
    return env.distance(goals).astype(np.float64).round(4)


def write(cfg: EvaluateSlice, tables: list[pd.DataFrame], inputs: dict[str, Path], out: Path) -> pd.DataFrame:
    table = pd.concat(tables, ignore_index=True)
    sweep(out)
    with publish(out) as temporary:
        table.to_parquet(temporary, index=False)
    criterion = make(cfg.env).success_text
    write_card(out, "evaluate", cfg.model_dump(mode="json"), inputs, rows=len(table), success_criterion=criterion)
    return table
