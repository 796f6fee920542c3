"""`tdjepa evaluate`: a locked manifest in, one row per (plan seed, episode) out; nothing is aggregated here.

tdjepa evaluate --env two_room --method tdjepa --seed 3072 --scale desk
tdjepa evaluate --env two_room --method floors --scale desk          (random, zero action, replay of the log)
tdjepa evaluate --env two_room --sweep budget --scale desk           (other planner settings, evaluate.sweeps)

Which settings are run is data: the cells of the slice. A killed evaluation goes on at the episode where it stopped.
"""

import functools
from pathlib import Path

import numpy as np
import pandas as pd

from tdjepa.base.artefacts import fingerprint, hash_of, sha256_of_input, write_card, write_parquet, write_text
from tdjepa.base.errors import UserError
from tdjepa.base.journal import Journal
from tdjepa.base.progress import progress
from tdjepa.base.source_files import code_version
from tdjepa.base.streams import stream
from tdjepa.config.names import FLOORS, MAIN
from tdjepa.config.records.planning import Cell
from tdjepa.config.slices import EvaluateSlice
from tdjepa.data.store import Store
from tdjepa.envs import library
from tdjepa.envs.base import make
from tdjepa.mining import manifest
from tdjepa.planning import mpc
from tdjepa.planning.costs import in_contact

OBJECTS = ("block (px)", "cube (cm)")  # what an environment may demand to be moved


class Episodes:
    """The starts and goals of the manifest's entries, states and frames, read from the data, and the environment where they are
    played."""

    def __init__(self, cfg: EvaluateSlice, episodes: Path, manifest_file: Path, begin: int = 0):
        self.cfg, self.data, ev = cfg, Store(episodes), cfg.evaluate
        locked = manifest.read(manifest_file, cfg.env, self.data.length, cfg.goal_offset, sha256_of_input(episodes))
        self.sha256, count = locked["sha256_of_lines"], len(locked["entries"])
        pairs = max(part.pairs for part in cfg.cells or ev.designs.values())  # floors have no cells
        if count < pairs:
            raise UserError(f"{manifest_file}: has {count} entries, but {pairs} pairs are to be evaluated")
        if locked.get("part", ev.manifest) != ev.manifest:
            found = f"is the {locked['part']} manifest"
            raise UserError(f"{manifest_file}: {found}, but evaluate.manifest = {ev.manifest!r}")
        wanted = ev.locked.get(cfg.env, self.sha256)
        if wanted != self.sha256:
            found = f"sha256_of_lines is {self.sha256[:12]}…, but evaluate.locked.{cfg.env} is {wanted[:12]}…"
            advice = "evaluate on the locked manifest, or change the lock if the data was meant to change"
            raise UserError(f"{manifest_file}: {found}; {advice}")
        self.entries = locked["entries"][begin:pairs]
        self.env = make(cfg.env)
        if ev.renderer == "library":
            library.draws(self.env)
        self.first = self.data.row(self.entries[:, 0], self.entries[:, 1])
        self.last = self.first + cfg.goal_offset
        starts, self.goals = self.data.state[self.first], self.data.state[self.last]
        self.starts = self.env.settled(starts) if ev.restore == "settled" else starts

    @functools.cached_property
    def goal_frames(self) -> np.ndarray:
        """(N, H, W, 3) uint8"""
        return self.data.pixels[self.last]

    @functools.cached_property
    def first_frames(self) -> np.ndarray:
        return self.data.pixels[self.first]

    def play(self, policy: mpc.Policy, which: slice = slice(None), history: int = 0, to_the_end: bool = True) -> dict:
        """Outcomes of some of the pairs with a policy that sees `history` frames; see mpc.run_episodes."""
        limits = (self.cfg.evaluate.budget, self.cfg.frameskip, history, self.data.image_size)
        first = self.first_frames[which] if history else None
        return mpc.run_episodes(self.env, self.starts[which], self.goals[which], policy, *limits, first, to_the_end)


def run(
    cfg: EvaluateSlice,
    episodes: Path,
    manifest_file: Path,
    saved: dict[int, Path],
    out: Path,
    times: Path | None = None,
) -> pd.DataFrame:
    """Evaluate one trained model: every cell of the slice with its plan seeds on every pair of the manifest.

    Seconds of each plan go to `times` (default: beside `out`): rows stay the same from run to run, times do not.
    """
    locked = Episodes(cfg, episodes, manifest_file)
    planners = load_planners(cfg, saved, locked)
    inputs = {"episodes": episodes, "manifest": manifest_file, **{f"epoch_{e}": saved[e] for e in epochs(cfg)}}
    job = {"params": hash_of(cfg.model_dump(mode="json")), "code": version(cfg.env), "machine": fingerprint()}
    job["inputs"] = {name: sha256_of_input(path) for name, path in inputs.items()}
    journal = Journal(out.with_name(f".{out.name}.journal"), job)
    todo = [(c, s, k) for c, cell in enumerate(cfg.cells) for s in cell.plan_seeds for k in range(cell.pairs)]
    title = f"evaluate {cfg.env}/{cfg.method_name}/{cfg.seed}"
    with progress(len(todo), title, "episodes", initial=len(journal.done)) as bar:
        for c, plan_seed, k in todo:
            if (c, plan_seed, k) not in journal.done:
                which = slice(k, k + 1)
                policy = planners[c].policy(locked.goal_frames[which], plan_seed, locked.entries[which])
                outcome = locked.play(policy, which, cfg.cells[c].planner.history)
                journal.add((c, plan_seed, k), {name: np.asarray(values).tolist() for name, values in outcome.items()})
                bar.update()
    tables, seconds = [], []
    for c, cell in enumerate(cfg.cells):
        for plan_seed in cell.plan_seeds:
            done = [journal.done[c, plan_seed, k] for k in range(cell.pairs)]
            outcome = {name: np.concatenate([o[name] for o in done]) for name in done[0] if name != "plan_seconds"}
            key = {"method": cfg.method_name, "train_seed": cfg.seed, "epoch": cell.epoch, "solver": cell.solver}
            key |= {"cost": cell.cost, "w": cell.w, "plan_seed": plan_seed}
            tables.append(rows(cfg, locked, key, outcome, sha256_of_input(saved[cell.epoch]), cell))
            for (episode, start), o in zip(locked.entries[: cell.pairs], done, strict=True):
                where = {"cell": c, "plan_seed": plan_seed, "episode": episode, "start": start}
                seconds += [{**where, "plan": i, "seconds": round(t, 6)} for i, t in enumerate(o["plan_seconds"][0])]
    table = write(cfg, tables, inputs, out)
    csv = pd.DataFrame(seconds).to_csv(index=False, lineterminator="\n")
    write_text(times or out.with_name(out.stem + ".times.csv"), csv)
    journal.finish()
    return table


def load_planners(cfg: EvaluateSlice, saved: dict[int, Path], locked: Episodes) -> list[mpc.LatentPlanner]:
    """One planner per cell; whatever cannot be planned with is an error here, before anything runs."""
    from tdjepa.base.device import pick_device
    from tdjepa.model import checkpoint
    from tdjepa.planning import costs

    device, data, env = pick_device(cfg.evaluate.device, "evaluate.device"), locked.data, locked.env
    models = {}
    for epoch in epochs(cfg):
        source = saved[epoch]
        models[epoch], about = checkpoint.load(source, checkpoint.of(cfg, epoch), device)
        if (size := about["image_size"]) != data.image_size:
            raise UserError(f"{source}: was trained on {size}-px frames, but {data.path} has {data.image_size} px")
        if about["block"] != cfg.frameskip * env.action_dim:
            found, expected = about["block"], f"{cfg.frameskip} x {env.action_dim}"
            raise UserError(f"{source}: was trained on action blocks of {found} numbers, expected {expected}")
    for cell in cfg.cells:
        model, source, history = models[cell.epoch], str(saved[cell.epoch]), cell.planner.history
        costs.refuse(cell, model, env, source)
        if history > model.predictor.history:
            raise UserError(f"{source}: sees {model.predictor.history} frames, but planner.history = {history}")
    return [mpc.LatentPlanner(models[cell.epoch], env, cell) for cell in cfg.cells]


def epochs(cfg: EvaluateSlice) -> list[int]:
    """Whose checkpoints are needed."""
    return sorted({cell.epoch for cell in cfg.cells})


def checkpoints(cfg: EvaluateSlice, folder: Path) -> dict[int, Path]:
    """Those of a training's folder that are needed, by epoch."""
    return {epoch: folder / f"epoch_{epoch:02d}.safetensors" for epoch in epochs(cfg)}


def criterion(env: str) -> str:
    """What counts as success, in words."""
    return make(env).success_text


def version(env: str) -> str:
    return code_version("tdjepa.steps.evaluate", env)[:16]


def run_floors(cfg: EvaluateSlice, episodes: Path, manifest_file: Path, out: Path) -> pd.DataFrame:
    """What no learning gives: uniformly random actions, no action, and the replayed log (the oracle)."""
    ev, locked = cfg.evaluate, Episodes(cfg, episodes, manifest_file)
    env = locked.env
    shape = (-(-ev.budget // cfg.frameskip), cfg.frameskip, env.action_dim)

    def act(name, plan_seed, i, plan, frames, past):
        if name == "random":
            rng = stream(plan_seed, "random", *map(int, locked.entries[i]))
            return rng.uniform(env.action_low, env.action_high, shape).astype(np.float32)
        actions = np.zeros(shape)
        if name == "replay":
            logged = locked.data.action[locked.first[i] : locked.first[i] + cfg.goal_offset]
            actions.reshape(-1, env.action_dim)[: cfg.goal_offset] = np.nan_to_num(logged)
        return actions

    tables, floor = [], {"train_seed": 0, "epoch": 0, "solver": "none", "cost": "none", "w": 1.0}
    for design, size in ev.designs.items():
        for name in FLOORS:
            for plan_seed in ev.plan_seeds[: size.plan_seeds]:
                if name == "random" or plan_seed == ev.plan_seeds[0]:  # the others do not depend on the plan seed
                    outcome = locked.play(functools.partial(act, name, plan_seed), slice(size.pairs))
                key = {"method": name, **floor, "plan_seed": plan_seed}
                tables.append(rows(cfg, locked, key, outcome, "", design=design))
    return write(cfg, tables, {"episodes": episodes, "manifest": manifest_file}, out)


def rows(
    cfg: EvaluateSlice,
    locked: Episodes,
    key: dict,
    outcome: dict,
    checkpoint_sha256: str,
    cell: Cell | None = None,
    design: str = MAIN,
) -> pd.DataFrame:
    """One row per episode of the first pairs: what was evaluated, then what tells settings apart; floors have no cell."""
    setting = {"design": design, "setting": MAIN, "alpha": np.nan, "refinements": 0, "candidates": 0, "history": 0}
    if cell:
        setting = {"design": cell.design, "setting": cell.setting, "alpha": cell.alpha}
        setting |= {"refinements": cell.refinements}
        setting |= {"candidates": cell.planner.candidates, "history": cell.planner.history}
        setting["planner"] = planner_hash(cell)
    pairs = locked.entries[: len(outcome["success"])]
    columns = {"scale": cfg.scale, "env": cfg.env, **key, "episode": pairs[:, 0], "start": pairs[:, 1]}
    if locked.data.kind is not None:  # success on the expert's goals and on all
        columns["kind"] = locked.data.kind[pairs[:, 0]]
    columns |= {name: outcome[name] for name in ("success", "trivial", "steps")} | setting | {"plans": outcome["plans"]}
    if "least_distance" in outcome:
        least, touched = outcome["least_distance"], outcome["touched"]
        columns |= {"start_distance": outcome["start_distance"].round(4), "least_distance": least.round(4)}
        columns |= {"touched": touched, "contact": in_contact(least, touched, cfg.evaluate.costs)}
    if "end" in outcome:  # stricter readings of success; the protocol's is "at any step, within the tolerance"
        columns |= {"success_half": outcome["closest"] < 0.5, "success_end": outcome["end"] < 1}
    demands = locked.env.demands(locked.starts[: len(pairs)], locked.goals[: len(pairs)])
    for name in set(OBJECTS) & set(demands):
        columns["to_move"] = np.round(demands[name], 3)
    locked.env.restore(outcome["final"])
    # of the last states to their goals, in tolerances of the task: below 1 is at the goal
    columns["final_distance"] = locked.env.distance(locked.goals[: len(pairs)]).astype(np.float64).round(4)
    hashes = {
        "manifest": locked.sha256,
        "checkpoint": checkpoint_sha256,
        "params": hash_of(cfg.model_dump(mode="json")),
    }
    columns |= {name: found[:16] for name, found in hashes.items()}
    return pd.DataFrame(columns | {"code": version(cfg.env)})


def planner_hash(cell: Cell) -> str:
    """Tells planner settings apart that no column shows; how much is planned with them is no part of them."""
    return hash_of({**cell.model_dump(mode="json"), "design": None, "plan_seeds": None, "pairs": None})[:16]


def write(cfg: EvaluateSlice, tables: list[pd.DataFrame], inputs: dict[str, Path], out: Path, **more) -> pd.DataFrame:
    table = pd.concat(tables, ignore_index=True)
    write_parquet(out, table)
    facts = {"rows": len(table), "success_criterion": criterion(cfg.env)}
    facts |= {name: table[name].iloc[0] for name in ("manifest", "code")}
    write_card(out, "evaluate", cfg.model_dump(mode="json"), inputs, **facts, **more)
    return table


def shown(table: pd.DataFrame, times: Path | None = None) -> str:
    """Success by setting as a small table: what varies between the cells, the rate, the seconds of planning per episode."""
    names = ["design", "method", "epoch", "solver", "cost", "w", "alpha", "refinements", "candidates", "history"]
    names = [name for name in names if name in ("method", "cost") or table[name].nunique() > 1]
    groups = [*names, "planner"] if "planner" in table else names  # settings that no column shows stay apart
    found = table.groupby(groups, sort=False, dropna=False).success.agg(["mean", "size"]).reset_index()
    found["success %"], found["episodes"] = (100 * found["mean"]).map("{:.1f}".format), found["size"]
    kinds = sorted(table.kind.unique()) if "kind" in table else []
    for kind in kinds:
        of_kind = table[table.kind == kind].groupby(groups, dropna=False).success.mean().mul(100).map("{:.1f}".format)
        found = found.merge(of_kind.rename(f"{kind} %").reset_index(), on=groups, how="left").fillna({f"{kind} %": "–"})
    head = [*names, "success %", *(f"{kind} %" for kind in kinds), "episodes"]
    lines = [[f"{v:g}" if isinstance(v, float) else str(v) for v in row] for row in found[head].values.tolist()]
    if times and times.exists():
        of_cell = pd.read_csv(times).groupby("cell").seconds.sum()
        if len(of_cell) == len(lines):
            head.append("s/episode")
            lines = [[*line, f"{t / int(line[-1]):.3f}"] for line, t in zip(lines, of_cell, strict=True)]
    wide = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    ruler = ["-" * n for n in wide]
    return "\n".join("| " + " | ".join(map(str.ljust, line, wide)) + " |" for line in (head, ruler, *lines))
