"""Everything that is rendered. What is missing stays empty: a table then says "not run".

Tables need only statistics and cards, which are JSON; rows and pairs are read when somebody asks for them, because
reading parquet costs a second of start-up.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.names import MAIN
from tdjepa.config.params import Params
from tdjepa.evidence import ledger
from tdjepa.evidence.columns import UNTRAINED
from tdjepa.evidence.guard import require_keys
from tdjepa.evidence.select import select

TRAINING = ["env", "method", "train_seed"]
CURVE_COLUMNS = ["epoch", "loss", "effective_rank"]
KEYS = {
    "cards": ["env", "episodes"],
    "aliasing": [*TRAINING, "patch", "shift_px", "change", "ratio_one_patch"],
    "probes": [*TRAINING, "epoch", "frames", "quantities"],
}
EMPTY = {
    "cells": [],
    "comparisons": [],
    "phases": [],
    "geometry": [],
    "moves": [],
    "ranks": [],
    "median_start_distance": None,
}
NOT_JUDGED = {"ledger": {}, "themes": [], "claims": []}


@dataclass(frozen=True)
class Inputs:
    params: Params
    stats: dict
    cards: dict[str, dict]  # by environment
    aliasing: list[dict]
    claims: dict  # claims.json: ledger, themes and claims
    probes: list[dict]
    files: dict[str, Sequence[Path]]  # rows, pairs, curves

    @property
    def digits(self) -> int:
        return self.params.render.digits

    @functools.cached_property
    def rows(self):
        from tdjepa.evidence import rows

        return rows.read(self.files.get("rows", ()))

    @functools.cached_property
    def pairs(self):
        from tdjepa.evidence import alignment

        return alignment.last(alignment.read(self.files.get("pairs", ())))

    @functools.cached_property
    def curves(self):
        import pandas as pd

        frames = [_read_curve(Path(path)) for path in self.files.get("curves", ())]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=[*TRAINING, *CURVE_COLUMNS])

    @functools.cached_property
    def _by_pair(self) -> dict:
        return {(c["a"], c["b"]): c for c in self.stats["comparisons"]}

    def cell(self, env: str, method: str, cost: str = "") -> dict | None:
        """The cell under the environment's protocol at the last epoch; None when not run."""
        if method in UNTRAINED:
            return select(self.stats["cells"], env, method)
        p = self.params.evaluate.protocol.get(env)
        return p and select(self.stats["cells"], env, method, cost=cost, solver=p.solver, w=p.w, setting=MAIN)

    def deployed(self, env: str, method: str) -> dict | None:
        """The cell with the one cost that the method plans with."""
        return self.cell(env, method, runs.planned_cost(self.params, env, method))

    def swept(self, env: str, method: str, **wanted) -> dict | None:
        """The cell with these planner settings, of the protocol or of any sweep; None when not run."""
        return select(self.stats["cells"], env, method, **wanted)

    def rank(self, env: str, method: str, measure: str, split: str = "all", epoch: int | None = None, **more):
        """(mean, sample std or None, n) over training seeds of a cost's correlation with the gap; None when not run."""
        wanted = {"env": env, "method": method, "measure": measure, "split": split, **more}
        found = [r for r in self.stats["ranks"] if all(r[key] == value for key, value in wanted.items())]
        epoch = max((r.get("epoch", 0) for r in found), default=0) if epoch is None else epoch  # usually the last
        rho = [r["rho"] for r in found if r.get("epoch", 0) == epoch]
        return (mean(rho), spread(rho), len(rho)) if rho else None

    def comparison(self, a: dict | None, b: dict | None) -> dict | None:
        """The comparison of two cells as a - b, whichever way round it was judged; None when not run."""
        if a is None or b is None:
            return None
        judged, found = (self._by_pair.get((x["id"], y["id"])) for x, y in ((a, b), (b, a)))
        if judged or not found:
            return judged
        turned = {"difference": -found["difference"], "low": -found["high"], "high": -found["low"]}
        turned["t"] = None if found["t"] is None else -found["t"]
        if found.get("outcomes"):
            both, only_b, only_a, neither = found["outcomes"]
            turned["outcomes"] = [both, only_a, only_b, neither]
        return {**found, **turned, "a": a["id"], "b": b["id"]}


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> float | None:
    """Sample standard deviation; None of a single value."""
    squares = sum((value - mean(values)) ** 2 for value in values)
    return (squares / (len(values) - 1)) ** 0.5 if len(values) > 1 else None


def seed_means(cell: dict) -> dict[int, float]:
    """Percent of each training seed over its plan seeds."""
    known = [[rate for rate in rates if rate is not None] for rates in cell["rates"]]
    return {seed: mean(rates) for seed, rates in zip(cell["train_seeds"], known, strict=True) if rates}


def read(params: Params, stats: Path | None = None, claims: Path | None = None, **files: Sequence[Path]) -> Inputs:
    """`files` are cards, aliasing, probes, rows, pairs and curves. Any of all these may be absent."""
    judged = read_json(stats) if stats and Path(stats).exists() else EMPTY
    if not {"cells", "comparisons"} <= set(judged):
        raise UserError(f"{stats}: no cells and comparisons in it; make it with `tdjepa judge`")
    cards, shifted, probes = ([_read_keys(path, KEYS[kind]) for path in files.pop(kind, ())] for kind in KEYS)
    shifted = [found for found in shifted if found["ratio_one_patch"] is not None]
    params = runs.widened(params, among={cell["method"] for cell in judged["cells"]})  # what has been run is shown
    verdicts = ledger.stored(claims) if claims and Path(claims).exists() else NOT_JUDGED
    return Inputs(params, EMPTY | judged, {card["env"]: card for card in cards}, shifted, verdicts, probes, files)


def _read_curve(path: Path):
    """A training's curve; which training it was, is said by its folder: .../<env>/<method>/<seed>/<file>.csv."""
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not a readable CSV file ({str(error).splitlines()[0]})") from None
    require_keys(path, frame, CURVE_COLUMNS)
    folder = path.absolute().parent
    return frame.assign(env=folder.parent.parent.name, method=folder.parent.name, train_seed=folder.name)


def _read_keys(path: Path, keys: list[str]) -> dict:
    content = read_json(path)
    require_keys(path, content if isinstance(content, dict) else {}, keys)
    return content
