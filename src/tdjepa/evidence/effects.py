"""The size of what a claim says: an effect with an interval and a p-value, under the paper's protocol and under ours.

The paper's: one training seed and its plan seeds; Student's interval and test over the plan seeds' differences. Ours: an
interval over trainings and episodes (intervals.py) and a permutation test over episodes (paired.py). For correlations the
paper itself takes three trainings: there its protocol is Student's interval over training seeds, and ours adds the episodes of
the pairs, which are resampled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import special

from tdjepa.base.streams import stream
from tdjepa.config.names import MAIN, PROTOCOL
from tdjepa.evidence import alignment, contact, intervals, paired, summary
from tdjepa.evidence.columns import UNTRAINED, with_planner
from tdjepa.evidence.intervals import Pool, Spread, Trainings, quantile
from tdjepa.evidence.select import select
from tdjepa.evidence.summary import Cell

RANK_DRAWS = 500  # each weighs every pair of every checkpoint anew


@dataclass(frozen=True)
class Effect:
    effect: float
    low: float | None  # None where a protocol has no spread to offer
    high: float | None
    p: float | None
    n_train: int | None = None  # trainings of the method that has fewest; None without a trained one
    n_plan: int | None = None  # plan seeds; None for pairs, which nobody plans
    error: float | None = None  # standard error and its degrees of freedom, for `detectable`
    freedom: float | None = None


def detectable(effect: Effect, level: float, power: float = 0.8) -> float | None:
    """The smallest true difference that an interval as wide as this one leaves zero out for, with that probability."""
    if effect.error is None or effect.freedom is None:
        return None
    return (quantile((1 + level) / 2, effect.freedom) + quantile(power, effect.freedom)) * effect.error


class Evidence:
    """Rows and held-out pairs, ready to be asked."""

    def __init__(self, rows: pd.DataFrame, pairs: pd.DataFrame, seed: int, resamples: int, level: float):
        self.rows, self.pairs, self.level = with_planner(rows), pairs, level
        self.seed, self.draws = seed, min(resamples, RANK_DRAWS)
        self.cells: dict[str | tuple, list[Cell]] = {}
        self.pools: dict[str, Pool] = {}

    def of_value(self, value: str) -> list[Cell]:
        """Cells of an outcome: success, or a failure before or after contact."""
        if value not in self.cells:
            rows = self.rows
            if value != "success":
                rows = contact.with_phases(rows[rows["contact"].notna()]) if "contact" in rows else rows.iloc[:0]
            self.cells[value] = summary.cells(rows, value) if len(rows) else []
        return self.cells[value]

    def pool(self, value: str) -> Pool:
        """How trainings vary in that outcome."""
        if value not in self.pools:
            self.pools[value] = paired.pooled(self.of_value(value))
        return self.pools[value]

    def cell(self, env: str, wanted: Mapping, design: str = MAIN) -> Cell | None:
        wanted = {"design": design, **wanted}
        if beyond := wanted.pop("beyond", None):  # solved with this cost and not with that one
            sides = self.cell(env, wanted, design), self.cell(env, {**wanted, "cost": beyond}, design)
            if None in sides:
                return None
            name = tuple(side.id for side in sides)  # kept: resamples are known by their cell
            return self.cells.setdefault(name, [summary.solved_only_by(*sides)])[0]
        cells = {cell.id: cell for cell in self.of_value(wanted.pop("value", "success"))}
        found = select([{**vars(cell), "id": name} for name, cell in cells.items()], env, **wanted)
        return cells[found["id"]] if found else None

    def stratum(self, env: str, **names: str | None) -> np.ndarray | None:
        """(E,) which of the environment's pairs are in these strata (contact.STRATA); None for all of them."""
        found, of_env = None, self.rows[self.rows["env"] == env]
        for kind, name in names.items():
            if name is not None:
                of_kind = of_env.assign(stratum=contact.strata(of_env, kind)).groupby(["episode", "start"], sort=True)
                inside = (of_kind["stratum"].first() == name).to_numpy()
                found = inside if found is None else found & inside
        return found


def of_cells(evidence: Evidence, env: str, terms: Sequence[Sequence], train_seed: int) -> tuple | None:
    """(paper's, ours) for a weighted sum [[coefficient, cell], ...] in percentage points; None when a cell is missing.
    A cell may be of another environment (`env`): their plan seeds and pairs are drawn apart."""
    parts = _parts(evidence, env, terms, MAIN)
    whole = [paired.contrast(of_part, mask) for of_part, mask in parts or []]
    if not whole or any(c is None for c in whole):
        return None
    published = _parts(evidence, env, terms, PROTOCOL) or parts  # without rows of its own, main's first training
    first = [paired.contrast([(c, _one_seed(x, train_seed)) for c, x in of_part], mask) for of_part, mask in published]
    papers = None if any(c is None for c in first) else _over_plan_seeds(first, evidence.level)
    simple = len(whole) == 1 and len(terms) == 2 and sum(c for c, _ in terms) == 0
    (value,) = {wanted.get("value", "success") for _, wanted in terms[:1]}
    return papers, _over_trainings(whole, evidence, evidence.pool(value), with_p=simple)


def _parts(evidence: Evidence, env: str, terms: Sequence[Sequence], design: str) -> list[tuple] | None:
    """The cells of a weighted sum by environment and stratum, each with its mask of pairs; None when the design lacks one."""
    by_stratum: dict[tuple, list] = {}
    for coefficient, wanted in terms:
        wanted = dict(wanted)
        where = (wanted.pop("env", env), *(wanted.pop(kind, None) for kind in contact.STRATA))
        cell = evidence.cell(where[0], wanted, design)
        if cell is None:
            return None
        by_stratum.setdefault(where, []).append((coefficient, cell))
    return [
        (of_part, evidence.stratum(of_env, **dict(zip(contact.STRATA, names, strict=True))))
        for (of_env, *names), of_part in by_stratum.items()
    ]


def _one_seed(cell: Cell, seed: int) -> Cell:
    """The cell with only one training seed; floors have none."""
    if not cell.trained:
        return cell
    success = cell.success[cell.train_seeds == seed]
    missing = np.full((1, *cell.success.shape[1:]), np.nan)
    return replace(cell, train_seeds=np.array([seed]), success=success if len(success) else missing)


def _over_plan_seeds(contrasts: list[paired.Contrast], level: float) -> Effect | None:
    shared = sorted(set.intersection(*(set(c.plan_seeds.tolist()) for c in contrasts)))
    if not shared:
        return None
    values = np.zeros(len(shared))
    for c in contrasts:
        values += summary.plan_seed_means(c.by_pair)[np.isin(c.plan_seeds, shared)]
    low, high = student_interval(values, level)
    n, error = len(shared), None if low is None else float(values.std(ddof=1)) / math.sqrt(len(shared))
    return Effect(
        float(values.mean()), low, high, paired.paired_t(values)[1], _trainings(contrasts), n, error, float(n - 1)
    )


def _trainings(contrasts: list[paired.Contrast]) -> int | None:
    """Of the method that has fewest with any row here; floors have none."""
    groups = [g for c in contrasts for g in c.groups if g.training not in UNTRAINED]
    return min((int((~np.isnan(g.values)).any((1, 2)).sum()) for g in groups), default=None)


def student_interval(values: np.ndarray, level: float) -> tuple[float | None, float | None]:
    """Student's interval of a mean (n,); (None, None) for one value, and for equal ones, which say nothing of a spread."""
    n = len(values)
    if n < 2 or np.ptp(values) < 1e-9:
        return None, None
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * float(values.std(ddof=1)) / math.sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def _over_trainings(contrasts: list[paired.Contrast], evidence: Evidence, pool: Pool, with_p: bool) -> Effect:
    spread, estimate = paired.spread(contrasts, pool), 100 * sum(c.estimate for c in contrasts)
    low, high, _ = paired.contrast_interval(contrasts, pool, evidence.level)
    p = paired.permutation(contrasts[0], evidence.seed) if with_p else None
    # where the exact bound acts, the error that would have made an interval as wide
    error = max(estimate - low, high - estimate) / quantile((1 + evidence.level) / 2, spread.freedom)
    n = (_trainings(contrasts), min(len(c.plan_seeds) for c in contrasts))
    return Effect(estimate, low, high, p, *n, error, spread.freedom)


def of_pairs(evidence: Evidence, env: str, terms: Sequence[Sequence]) -> tuple | None:
    """(paper's, ours) for a weighted sum [[coefficient, {method, split, rank | rise}], ...] of statistics of held-out pairs:
    a cost's correlation with the gap, or the smallest rise of its mean over the gaps. Two costs of one method are measured
    on the same checkpoints, so their difference is taken seed by seed."""
    by_method: dict[str, list] = {}
    for coefficient, wanted in terms:
        by_method.setdefault(wanted["method"], []).append((coefficient, *_checkpoints(evidence.pairs, env, wanted)))
    shared = {m: sorted(set.intersection(*(set(frames) for _, frames, _ in of))) for m, of in by_method.items()}
    if not all(shared.values()):
        return None
    by_seed = {m: np.zeros(len(seeds)) for m, seeds in shared.items()}  # (T,) each
    for m, of in by_method.items():
        for c, frames, statistic in of:
            by_seed[m] += [c * statistic(frames[s]["x"], frames[s]["tau"])[0] for s in shared[m]]
    if any(np.isnan(values).any() for values in by_seed.values()):
        return None
    estimate, n_train = float(sum(v.mean() for v in by_seed.values())), min(map(len, by_seed.values()))
    low = high = p = None
    if len({tuple(seeds) for seeds in shared.values()}) == 1:
        together = sum(by_seed.values())
        (low, high), p = student_interval(together, evidence.level), paired.paired_t(together)[1]
    papers = Effect(estimate, low, high, p, n_train)
    spread = _spread_of_pairs(evidence, env, by_method, shared, by_seed)
    half = quantile((1 + evidence.level) / 2, spread.freedom) * spread.error
    return papers, Effect(estimate, estimate - half, estimate + half, None, n_train, None, spread.error, spread.freedom)


def _checkpoints(pairs: pd.DataFrame, env: str, wanted: Mapping):
    """The pairs of each checkpoint of a method in a split by training seed, and the statistic that is asked for."""
    part = pairs[(pairs["env"] == env) & (pairs["method"] == wanted["method"])]
    split, (measure, kind) = wanted.get("split", "all"), next((wanted[k], k) for k in ("rank", "rise") if k in wanted)
    if split != "all":
        part = part[part[split].astype(bool)]
    part = part.dropna(subset=[measure])
    part = part.assign(x=part[measure]).groupby("train_seed", sort=True)
    frames = {seed: {name: frame[name].to_numpy() for name in ("x", "tau", "episode")} for seed, frame in part}
    return frames, alignment.correlation if kind == "rank" else alignment.smallest_rise


def _spread_of_pairs(evidence: Evidence, env: str, by_method: Mapping, shared: Mapping, by_seed: Mapping) -> Spread:
    """Episodes are drawn once for all checkpoints of a draw, as they share their pairs; the variance of the sum under these
    draws, plus what trainings differ by beyond it. Nothing is moderated: few methods have such pairs."""
    total, most, trainings = np.zeros(evidence.draws), 0, []
    for method, of_method in by_method.items():
        n = len(shared[method])
        values = np.zeros((evidence.draws, n))
        for coefficient, frames, statistic in of_method:
            for i, frame in enumerate(frames[s] for s in shared[method]):
                labels, member = np.unique(frame["episode"], return_inverse=True)
                episodes = draw(
                    stream(evidence.seed, "episodes of pairs", env, *map(int, labels)), evidence.draws, len(labels)
                )
                values[:, i] += coefficient * statistic(frame["x"], frame["tau"], episodes[:, member])
                most = max(most, len(labels))
        total += values.mean(1)
        own = float(np.nanvar(values - values.mean(1, keepdims=True), axis=0).sum() / max(n - 1, 1))
        between = float(by_seed[method].var(ddof=1)) if n > 1 else 0.0
        trainings.append(Trainings(env, method, "pairs", n, between, own if n > 1 else 0.0, 0.0))
    return intervals.combined([(float(np.nanvar(total)), most - 1)], trainings, Pool())


def draw(rng: np.random.Generator, resamples: int, n: int) -> np.ndarray:
    """(resamples, n): how often each of n levels is drawn; n - 1 of n, so that the variance of a mean comes out right."""
    return rng.multinomial(max(n - 1, 1), np.full(n, 1 / n), size=resamples).astype(float)
