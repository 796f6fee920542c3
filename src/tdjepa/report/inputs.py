"""Everything that is rendered. What is missing stays empty: a table then says "not run".

Tables need only statistics and cards, which are JSON; rows and pairs are read when somebody asks for them, because
reading parquet costs a second of start-up.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.evidence.select import select
from tdjepa.report.labels import FLOORS

CURVE_COLUMNS = ["epoch", "loss", "effective_rank"]
ALIASING_KEYS = ["env", "method", "train_seed", "patch", "shift_px", "change", "ratio_one_patch"]
PROBE_KEYS = ["env", "method", "train_seed", "epoch", "frames", "quantities"]
EMPTY = {"cells": [], "comparisons": [], "phases": [], "geometry": [], "ranks": [], "median_start_distance": None}


@dataclass(frozen=True)
class Inputs:
    params: Params
    stats: dict
    cards: dict[str, dict]  # by environment
    aliasing: list[dict]
    claims: list[dict] = field(default_factory=list)  # of claims.json
    probes: list[dict] = field(default_factory=list)
    files: dict[str, Sequence[Path]] = field(default_factory=dict)  # rows, pairs, curves

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
        columns = ["env", "method", "train_seed", *CURVE_COLUMNS]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({name: [] for name in columns})

    @functools.cached_property
    def _by_pair(self) -> dict:
        return {(c["a"], c["b"]): c for c in self.stats["comparisons"]}

    def cell(self, env: str, method: str, cost: str = "", epoch: int | None = None) -> dict | None:
        """The cell under the environment's protocol, at the last epoch unless told otherwise; None when not run."""
        if method in FLOORS:
            return select(self.stats["cells"], env, method)
        protocol = self.params.evaluate.protocol.get(env)
        if protocol is None:
            return None
        wanted = {"cost": cost, "solver": protocol.solver, "w": protocol.w, "setting": "main"}
        return select(self.stats["cells"], env, method, **wanted, **({} if epoch is None else {"epoch": epoch}))

    def swept(self, env: str, method: str, **wanted) -> dict | None:
        """The cell with these planner settings, of the protocol or of any sweep; None when not run."""
        return select(self.stats["cells"], env, method, **wanted)

    def rank(
        self,
        env: str,
        method: str,
        measure: str,
        split: str = "all",
        train_seed: int | None = None,
        epoch: int | None = None,
    ):
        """(mean, sample std or None, n) over training seeds of a cost's correlation with the gap; None when not run.

        Of the last checkpoint, unless told otherwise.
        """
        wanted = {"env": env, "method": method, "measure": measure, "split": split}
        wanted |= {} if train_seed is None else {"train_seed": train_seed}
        found = [r for r in self.stats["ranks"] if all(r[key] == value for key, value in wanted.items())]
        if not found:
            return None
        epoch = max(r.get("epoch", 0) for r in found) if epoch is None else epoch
        rho = [r["rho"] for r in found if r.get("epoch", 0) == epoch]
        if not rho:
            return None
        mean = sum(rho) / len(rho)
        spread = (sum((r - mean) ** 2 for r in rho) / (len(rho) - 1)) ** 0.5 if len(rho) > 1 else None
        return mean, spread, len(rho)

    def comparison(self, a: dict | None, b: dict | None) -> dict | None:
        """The comparison of two cells as a - b, whichever way round it was judged; None when not run."""
        if a is None or b is None:
            return None
        found = self._by_pair.get((a["id"], b["id"]))
        if found:
            return found
        found = self._by_pair.get((b["id"], a["id"]))
        if found is None:
            return None
        t = None if found["t"] is None else -found["t"]
        turned = {"difference": -found["difference"], "low": -found["high"], "high": -found["low"], "t": t}
        if found.get("outcomes"):
            both, only_b, only_a, neither = found["outcomes"]
            turned["outcomes"] = [both, only_a, only_b, neither]
        return {**found, **turned, "a": a["id"], "b": b["id"]}


def seed_means(cell: dict) -> dict[int, float]:
    """Percent of each training seed over its plan seeds."""
    out = {}
    for seed, rates in zip(cell["train_seeds"], cell["rates"], strict=True):
        known = [rate for rate in rates if rate is not None]
        if known:
            out[seed] = sum(known) / len(known)
    return out


def read(
    stats: Path | None,
    rows: Sequence[Path],
    pairs: Sequence[Path],
    cards: Sequence[Path],
    curves: Sequence[Path],
    aliasing: Sequence[Path],
    params: Params,
    claims: Path | None = None,
    probes: Sequence[Path] = (),
) -> Inputs:
    """Lists may be empty, `stats` and `claims` may be absent."""
    judged = read_json(stats) if stats and Path(stats).exists() else EMPTY
    if not {"cells", "comparisons"} <= set(judged):
        raise UserError(f"{stats}: no cells and comparisons in it; make it with `tdjepa judge`")
    return Inputs(
        params=params,
        stats={**EMPTY, **judged},
        cards={card["env"]: card for card in (_read_keys(path, ["env", "episodes"]) for path in cards)},
        aliasing=[a for path in aliasing if (a := _read_keys(path, ALIASING_KEYS))["ratio_one_patch"] is not None],
        claims=read_json(claims) if claims and Path(claims).exists() else [],
        probes=[_read_keys(path, PROBE_KEYS) for path in probes],
        files={"rows": rows, "pairs": pairs, "curves": curves},
    )


def _read_curve(path: Path):
    """A training's curve; which training it was, is said by its folder: .../<env>/<method>/<seed>/<file>.csv."""
    import pandas as pd

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
