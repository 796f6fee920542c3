"""Everything that is rendered, read once. What is missing stays empty: a table then says "not run"."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tdjepa.artefacts import read_json
from tdjepa.errors import UserError
from tdjepa.evidence import alignment
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.params import Params
from tdjepa.render.labels import FLOORS

PAIR_COLUMNS = ["env", "method", "train_seed", "tau", "near", "far", "d_psi", "l2"]
CURVE_COLUMNS = ["epoch", "loss", "effective_rank"]
ALIASING_KEYS = ["env", "method", "train_seed", "patch", "shift_px", "change", "ratio_one_patch"]


@dataclass(frozen=True)
class Inputs:
    params: Params
    stats: dict
    rows: pd.DataFrame
    pairs: pd.DataFrame
    ranks: pd.DataFrame  # Spearman correlations of the pairs
    cards: dict[str, dict]  # by environment
    curves: pd.DataFrame
    aliasing: list[dict]

    def cell(self, env: str, method: str, cost: str = "", epoch: int | None = None) -> dict | None:
        """The cell under the environment's protocol, at the last epoch unless told otherwise; None when not run."""
        if method in FLOORS:
            wanted = {"env": env, "method": method}
        else:
            protocol = self.params.evaluate.protocol.get(env)
            if protocol is None:
                return None
            epoch = self.params.train.epochs if epoch is None else epoch
            wanted = {"env": env, "method": method, "cost": cost, "epoch": epoch}
            wanted |= {"solver": protocol.solver, "w": protocol.w}
        return next((c for c in self.stats["cells"] if all(c[key] == v for key, v in wanted.items())), None)

    def comparison(self, a: dict | None, b: dict | None) -> dict | None:
        """The comparison of two cells as a - b, whichever way round it was judged; None when not run."""
        if a is None or b is None:
            return None
        for found in self.stats["comparisons"]:
            if (found["a"], found["b"]) == (a["id"], b["id"]):
                return found
            if (found["a"], found["b"]) == (b["id"], a["id"]):
                t = None if found["t"] is None else -found["t"]
                turned = {"difference": -found["difference"], "low": -found["high"], "high": -found["low"], "t": t}
                return {**found, **turned, "a": a["id"], "b": b["id"]}
        return None


def read(
    stats: Path | None,
    rows: Sequence[Path],
    pairs: Sequence[Path],
    cards: Sequence[Path],
    curves: Sequence[Path],
    aliasing: Sequence[Path],
    params: Params,
) -> Inputs:
    """Read every input; lists may be empty and `stats` may be absent."""
    judged = read_json(stats) if stats and Path(stats).exists() else {"cells": [], "comparisons": []}
    if not {"cells", "comparisons"} <= set(judged):
        raise UserError(f"{stats}: no cells and comparisons in it; make it with `tdjepa judge`")
    frame = _concat([_read_pairs(Path(path)) for path in pairs], PAIR_COLUMNS)
    return Inputs(
        params=params,
        stats=judged,
        rows=evaluation_rows.read(rows),
        pairs=frame,
        ranks=alignment.spearman(frame),
        cards={card["env"]: card for card in (_read_keys(path, ["env", "episodes"]) for path in cards)},
        curves=_concat([_read_curve(Path(path)) for path in curves], ["env", "method", "train_seed", *CURVE_COLUMNS]),
        aliasing=[a for path in aliasing if (a := _read_keys(path, ALIASING_KEYS))["ratio_one_patch"] is not None],
    )


def _concat(frames: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({name: [] for name in columns})


def _read_pairs(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable parquet file ({str(error).splitlines()[0]})") from None
    _require(path, list(frame.columns), PAIR_COLUMNS)
    return frame[PAIR_COLUMNS]


def _read_curve(path: Path) -> pd.DataFrame:
    """A training's curve; which training it was, is said by its folder: .../<env>/<method>/<seed>/<file>.csv."""
    try:
        frame = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable CSV file ({str(error).splitlines()[0]})") from None
    _require(path, list(frame.columns), CURVE_COLUMNS)
    folder = path.absolute().parent
    return frame.assign(env=folder.parent.parent.name, method=folder.parent.name, train_seed=folder.name)


def _read_keys(path: Path, keys: list[str]) -> dict:
    content = read_json(path)
    _require(path, list(content) if isinstance(content, dict) else [], keys)
    return content


def _require(path: Path, found: list[str], expected: list[str]) -> None:
    missing = [name for name in expected if name not in found]
    if missing:
        raise UserError(f"{path}: missing {', '.join(missing)}; rerun the step that makes this file")
