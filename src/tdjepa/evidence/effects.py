"""The size of what a claim says: an effect with an interval and a p-value, under the paper's protocol and under ours.

The paper's: one training seed and its plan seeds; Student's interval and test over the plan seeds' differences. Ours:
training seeds, plan seeds and episodes resampled (bootstrap.py) and a permutation test over episodes (paired.py). For
correlations the paper itself takes three trainings: there its protocol is Student's interval over training seeds, and
ours resamples the episodes of the pairs as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import special

from tdjepa.base.streams import stream
from tdjepa.config.names import MAIN, PROTOCOL
from tdjepa.evidence import alignment, bootstrap, contact, paired, summary
from tdjepa.evidence.bootstrap import draw
from tdjepa.evidence.columns import UNTRAINED, with_planner
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


def quantile(share: float, freedom: float) -> float:
    """Student's, or the normal one for infinitely many degrees of freedom."""
    return float(special.stdtrit(freedom, share)) if math.isfinite(freedom) else float(special.ndtri(share))


class Evidence:
    """Rows and held-out pairs, ready to be asked."""

    def __init__(self, rows: pd.DataFrame, pairs: pd.DataFrame, seed: int, resamples: int, level: float):
        self.rows, self.pairs, self.level = with_planner(rows), pairs, level
        self.resampled = paired.Resampled(seed, resamples)
        self.cells: dict[str, list[Cell]] = {}

    def of_value(self, value: str) -> list[Cell]:
        """Cells of an outcome: success, or a failure before or after contact."""
        if value not in self.cells:
            rows = self.rows
            if value != "success":
                rows = contact.with_phases(rows[rows["contact"].notna()]) if "contact" in rows else rows.iloc[:0]
            self.cells[value] = summary.cells(rows, value) if len(rows) else []
        return self.cells[value]

    def cell(self, env: str, wanted: Mapping, design: str = MAIN) -> Cell | None:
        wanted = {"design": design, **wanted}
        cells = {cell.id: cell for cell in self.of_value(wanted.pop("value", "success"))}
        found = select([{**vars(cell), "id": name} for name, cell in cells.items()], env, **wanted)
        return cells[found["id"]] if found else None

    def stratum(self, env: str, name: str | None) -> np.ndarray | None:
        """(E,) which of the environment's pairs are in a stratum of start distances; None for all of them."""
        if name is None:
            return None
        of_env = self.rows[self.rows["env"] == env]
        of_env = of_env.assign(stratum=contact.strata(of_env))
        return (of_env.groupby(["episode", "start"], sort=True)["stratum"].first() == name).to_numpy()


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
    return papers, _resampled(whole, evidence, with_p=simple)


def _parts(evidence: Evidence, env: str, terms: Sequence[Sequence], design: str) -> list[tuple] | None:
    """The cells of a weighted sum by environment and stratum, each with its mask of pairs; None when the design lacks one."""
    by_stratum: dict[tuple, list] = {}
    for coefficient, wanted in terms:
        wanted = dict(wanted)
        where = (wanted.pop("env", env), wanted.pop("starts", None))
        cell = evidence.cell(where[0], wanted, design)
        if cell is None:
            return None
        by_stratum.setdefault(where, []).append((coefficient, cell))
    return [(of_part, evidence.stratum(*where)) for where, of_part in by_stratum.items()]


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
    """Student's interval of a mean (n,); (None, None) for one value, and for two equal ones, which say nothing of a spread."""
    n = len(values)
    if n < 2 or (n == 2 and abs(values[1] - values[0]) < 1e-9):
        return None, None
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * float(values.std(ddof=1)) / math.sqrt(n)
    return float(values.mean()) - half, float(values.mean()) + half


def _resampled(contrasts: list[paired.Contrast], evidence: Evidence, with_p: bool) -> Effect:
    resampled, estimate = evidence.resampled, sum(c.estimate for c in contrasts)
    n = (_trainings(contrasts), min(len(c.plan_seeds) for c in contrasts))
    if len(contrasts) == 1:
        low, high, _ = paired.contrast_interval(contrasts[0], resampled, evidence.level)
        p = paired.permutation(contrasts[0], resampled.draws.seed) if with_p else None
        error, freedom = paired.spread(contrasts[0], resampled)
        return Effect(100 * estimate, low, high, p, *n, 100 * error, freedom)
    spreads = [paired.spread(c, resampled) for c in contrasts]
    error, freedom = math.hypot(*(e for e, _ in spreads)), min(f for _, f in spreads)
    means = sum(resampled.means(c) for c in contrasts)
    low, high = bootstrap.percentiles(means, estimate, math.inf, freedom, evidence.level)
    return Effect(100 * estimate, 100 * low, 100 * high, None, *n, 100 * error, freedom)


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
    means, fixed, episodes = _resampled_pairs(evidence, env, by_method, shared)
    freedom = freedom_of_pairs(list(by_seed.values()), fixed, episodes)
    low, high = bootstrap.percentiles(means, estimate, math.inf, freedom, evidence.level)
    return papers, Effect(estimate, low, high, None, n_train, None, float(np.nanstd(means)), freedom)


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


def _resampled_pairs(evidence: Evidence, env: str, by_method: Mapping, shared: Mapping) -> tuple:
    """(resampled sums (B,), the same with all trainings kept (B,), number of episodes). Episodes are drawn once for all
    checkpoints of a draw, as they share their pairs; trainings once a method."""
    draws, seed = min(RANK_DRAWS, evidence.resampled.draws.resamples), evidence.resampled.draws.seed
    total, fixed, most = np.zeros(draws), np.zeros(draws), 0
    for method, of_method in by_method.items():
        n = len(shared[method])
        weights = draw(stream(seed, "trainings", f"{env}/{method}", n), draws, n)
        values = np.zeros((draws, n))
        for coefficient, frames, statistic in of_method:
            for i, frame in enumerate(frames[s] for s in shared[method]):
                labels, member = np.unique(frame["episode"], return_inverse=True)
                episodes = draw(stream(seed, "episodes of pairs", env, *map(int, labels)), draws, len(labels))
                values[:, i] += coefficient * statistic(frame["x"], frame["tau"], episodes[:, member])
                most = max(most, len(labels))
        total += (values * weights).sum(1) / weights.sum(1)
        fixed += values.mean(1)
    return total, fixed, most


def freedom_of_pairs(by_seed: Sequence[np.ndarray], fixed: np.ndarray, episodes: int) -> float:
    """Satterthwaite's degrees of freedom of a sum over methods: factors are each one's trainings (T,), and the episodes,
    with the variance of draws (B,) that keep the trainings."""
    factors = [(v.var(ddof=1) / len(v), len(v) - 1) for v in by_seed if len(v) > 1]
    factors.append((float(np.nanvar(fixed)), episodes - 1))
    variance, noise = sum(v for v, _ in factors), sum(v**2 / max(df, 1) for v, df in factors)
    return max(1.0, variance**2 / noise) if noise else math.inf
