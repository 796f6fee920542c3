"""Made-up worlds whose variance components are known: cells of success as `judge` sees them, for coverage and for power.

The logit of an outcome is the method's level, plus what its training, the episode, both together and the method in that
episode add, each normal. Plan seeds only draw again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy import optimize, special

from tdjepa.evidence.columns import PLANNER
from tdjepa.evidence.summary import Cell


@dataclass(frozen=True)
class World:
    """Standard deviations of the logit."""

    training: float
    episode: float
    method: float = 0.5  # of a method in an episode
    interaction: float = 0.5  # of a training in an episode
    shared: float = 0.5  # share of the trainings' variance that two costs of a checkpoint have in common

    def logit(self, rate: float) -> float:
        """The level at which the mean over everything is this rate."""
        x, weights = hermegauss(80)
        spread = np.sqrt(self.training**2 + self.episode**2 + self.method**2 + self.interaction**2)

        def off(level):
            return (weights * special.expit(level + spread * x)).sum() / weights.sum() - rate

        return float(optimize.brentq(off, -40, 40))


@dataclass(frozen=True)
class Size:
    trainings: int
    plan_seeds: int
    pairs: int
    episodes: int | None = None  # that the pairs are drawn from; None: each has its own

    def __str__(self) -> str:
        text = f"{self.trainings} x {self.plan_seeds} x {self.pairs}"
        return text if self.episodes is None else f"{text} of {self.episodes}"


def cells(
    rng: np.random.Generator, world: World, size: Size, levels: Sequence[Sequence[float]], env: str = "two_room"
) -> list[Cell]:
    """One cell per method and cost; `levels` holds the costs' logits of each method."""
    t, p, e = size.trainings, size.plan_seeds, size.pairs
    member = np.arange(e) if size.episodes is None else rng.integers(size.episodes, size=e)
    of_episode = world.episode * rng.normal(size=member.max() + 1)[member]
    names = {**PLANNER, "env": env, "solver": "icem", "w": 1.0, "epoch": 10}
    axes = {"train_seeds": np.arange(t), "plan_seeds": np.arange(p), "episodes": member}
    axes["trivial"] = np.zeros(e, bool)
    out = []
    for m, of_costs in enumerate(levels):
        common = world.training * np.sqrt(world.shared) * rng.normal(size=(t, 1))
        here = of_episode + world.method * rng.normal(size=member.max() + 1)[member]
        here = here + world.interaction * rng.normal(size=(t, member.max() + 1))[:, member] + common  # (T, E)
        for k, level in enumerate(of_costs):
            apart = world.training * np.sqrt(1 - world.shared) * rng.normal(size=(t, 1))
            success = rng.random((t, p, e)) < special.expit(level + here + apart)[:, None]
            cell = Cell(method=f"m{m}", cost=f"c{k}", success=success.astype(float), **names, **axes)
            out.append(cell)
    return out


def first_trainings(cell: Cell, n: int) -> Cell:
    return replace(cell, train_seeds=cell.train_seeds[:n], success=cell.success[:n])
