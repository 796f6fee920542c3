"""What lies behind a cell: every outcome, the files it was read from, the checkpoint, the parameters, the commands.

The page's script draws it when a number is clicked. At the published scale that is 200,000 outcomes: a character each for
success, and the steps as plain numbers, make less than a megabyte.
"""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from tdjepa.base.artefacts import card_path, read_json, sha256
from tdjepa.config.names import MAIN, SIMULATOR, TRUE_STATE
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.columns import CELL
from tdjepa.report.inputs import Inputs
from tdjepa.report.page import cells
from tdjepa.report.phrases import reproduced_text

FACTS = ("env", "mean", "std", "low", "high", "mean_nontrivial", "excess_over_random", "epoch")
FACTS += ("n_train_seeds", "n_plan_seeds", "n_episodes", "n_trivial", "n_rows")
COMPARED = ("difference", "low", "high")


def trace(found: Inputs, cited: set[str]) -> dict:
    """The page's data: pairs of each environment, cells by id, rows files, and comparisons of the cited cells."""
    rows = found.files.get("rows", ())
    frames = [evaluation_rows.read([path]).assign(file=i) for i, path in enumerate(rows)]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({name: [] for name in (*CELL, "file")})
    pairs, runs = {}, {}
    for env, of_env in frame.groupby("env", sort=True):
        pairs[env] = of_env.groupby(["episode", "start"], sort=True)["trivial"].any().reset_index()
        numbers = of_env.groupby(["episode", "start"], sort=True).ngroup()  # places in the list of pairs
        for values, of_cell in of_env.assign(pair=numbers).groupby(CELL, sort=True):
            runs.setdefault(_key(dict(zip(CELL, values, strict=True))), []).extend(_runs(of_cell, len(pairs[env])))
    by_id = {cell["id"]: _cell(found, cell, runs) for cell in found.stats["cells"]}
    known = cited & set(by_id)
    comparisons = [c for c in found.stats["comparisons"] if c["a"] in known and c["b"] in known]
    return {
        "pairs": {env: table.to_numpy(int).tolist() for env, table in pairs.items()},  # [episode, start, trivial]
        "cells": by_id,
        "files": [_file(path) for path in rows],
        "comparisons": [[c["a"], c["b"], *(c[name] for name in COMPARED)] for c in comparisons],
        "level": found.params.judge.level,
    }


def _key(cell: dict) -> tuple:
    """What tells cells apart: under the published protocol the first seven fields do, whatever else a file says."""
    cell = {"design": MAIN, **cell}
    return tuple(cell[name] for name in (CELL[:7] if cell.get("setting", MAIN) == MAIN else CELL))


def _runs(of_cell: pd.DataFrame, n_pairs: int) -> list:
    """[training seed, plan seed, file, "10.1…" by pair, [steps by pair]] for each training and plan seed."""
    out = []
    for seeds, run in of_cell.groupby(["train_seed", "plan_seed", "file"], sort=True):
        where = run["pair"].to_numpy()
        outcome, steps = np.full(n_pairs, "."), np.zeros(n_pairs, int)
        outcome[where] = np.where(run["success"].to_numpy(bool), "1", "0")
        steps[where] = run["steps"].to_numpy()
        out.append([*map(int, seeds), "".join(outcome), steps.tolist()])
    return out


def _cell(found: Inputs, cell: dict, runs: dict) -> dict:
    said = {"name": cells.name(found, cell), "text": str(reproduced_text(found, cell))}
    said |= {"planner": cells.planner_text(cell), "runs": runs.get(_key(cell), [])}
    return said | {name: cell[name] for name in FACTS}


def _file(path: Path) -> dict:
    """A rows file and its card; a file that is not what its card says is shown as such."""
    found = {"path": Path(path).as_posix(), "sha256": sha256(path)}
    if not card_path(path).exists():
        return found | {"problem": "no card lies beside it, so nothing says how it was made"}
    card = read_json(card_path(path))
    if card.get("sha256") != found["sha256"]:
        found["problem"] = "its content is not what its card says: it was changed after it was made"
    epochs = {name: value for name, value in card.get("inputs", {}).items() if name.startswith("epoch_")}
    return found | {
        **{"machine": card.get("machine"), "criterion": card.get("success_criterion"), "params": card.get("params")},
        "checkpoints": {name.removeprefix("epoch_"): value for name, value in epochs.items()},
        "commands": commands(card.get("params") or {}, bool(epochs), Path(path).name),
    }


def commands(params: dict, trained: bool, name: str = "") -> list[str]:
    """What makes the rows of this file again, from the model on."""
    if not {"env", "method_name", "seed", "scale"} <= set(params):
        return []
    of_env = ["--env", params["env"], "--scale", params["scale"]]
    if params["method_name"] == TRUE_STATE:
        return [shlex.join(["tdjepa", "ladder", *of_env])]
    if params["method_name"] == SIMULATOR:
        parts = sorted(int(part) for part in re.findall(r"ceiling_(\d+)\.parquet$", name))
        return [shlex.join(["tdjepa", "ceiling", *of_env, "--part", str(part)]) for part in parts]
    which = ["--env", params["env"], "--method", params["method_name"]]
    which += ["--seed", str(params["seed"])] if trained else []
    verbs = ("train", "evaluate") if trained else ("evaluate",)
    return [shlex.join(["tdjepa", verb, *which, "--scale", params["scale"]]) for verb in verbs]
