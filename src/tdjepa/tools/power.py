"""`tdjepa power`: the smallest differences that a scale's design can see, and the cheapest design for a wanted one.

    tdjepa power --scale desk                            each comparison, with 80 % power
    tdjepa power --scale desk --difference 8             and trainings x plan seeds x pairs, by CPU-minutes
    tdjepa power --scale desk --docs docs/statistics.md  the tables between their marks there

Runs of the design are simulated (evidence/simulate.py) with the variance components of the scale's rows, or those of
power.yaml where it has none, and judged by the intervals of the report.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.slices import evaluate_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence import components, paired, simulate, summary
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.evidence.effects import Effect, detectable
from tdjepa.evidence.simulate import Size, World
from tdjepa.report.labels import ENVS
from tdjepa.report.phrases import number
from tdjepa.report.table import Table
from tdjepa.tools.time_spent import rule, wall_seconds

POWER = 0.8
METHODS = 4  # that share the pooled variance
TRAININGS, PLAN_SEEDS, PAIRS = range(2, 11), (1, 3), (50, 100, 150, 200, 300, 400)


@dataclass(frozen=True)
class Place:
    """An environment: its world, the usual rate, the episodes of its test part, and whether rows said so."""

    env: str
    world: World
    rate: float
    episodes: int
    from_rows: bool


@dataclass(frozen=True)
class Tables:
    parts: tuple[Table, ...]

    def to_markdown(self) -> str:
        return "\n".join(table.to_markdown() for table in self.parts)


def run(p: Params, files: list[Path], wanted: float, simulations: int) -> Tables:
    if not 0 < wanted < 100:
        raise UserError(f"--difference {wanted:g}: percentage points between 0 and 100 are expected")
    cells = summary.cells(evaluation_rows.read(files)) if files else []
    places = [place_of(p, env, cells) for env in p.envs]
    return Tables((seen(p, places, simulations), cheapest(p, places, wanted, simulations)))


def place_of(p: Params, env: str, cells: list) -> Place:
    episodes = round(getattr(p.collect, env).episodes * p.mine.split.test)
    if found := components.fitted(cells, env):
        return Place(env, *found, episodes, True)
    given = read_yaml(Path(__file__).with_suffix(".yaml")).get(env)
    if given is None:
        raise UserError(
            f"{env}: power.yaml has no variance components for it, and no rows of two trainings of two methods"
        )
    rate, points = given.pop("rate"), given.pop("training")
    return Place(env, World(points / 100 / (rate * (1 - rate)), **given), rate, episodes, False)


def comparisons(p: Params, env: str) -> Iterator[tuple[str, Size, tuple[int, int]]]:
    """(what is compared, its size, trainings of the two sides; (n, 0) for two cells of one training)"""
    main, methods = p.evaluate.designs["main"], runs.methods_in(p, env)
    counts = {m: len(runs.train_seeds_of(p, m)) for m in methods}
    most = max(counts.values())
    for n in sorted(set(counts.values()), reverse=True):
        yield "two methods", Size(most, main.plan_seeds, main.pairs), (most, n)
        if n < most and list(counts.values()).count(n) > 1:
            yield "two methods", Size(n, main.plan_seeds, main.pairs), (n, n)
    yield "two costs of one method", Size(most, main.plan_seeds, main.pairs), (most, 0)
    swept = {
        (min(s.train_seeds or most, most), s.plan_seeds, s.pairs)
        for s in p.evaluate.sweeps.values()
        if env in s.envs and s.train_seeds != 1
    }
    for n, plan_seeds, pairs in sorted(swept):
        yield "two cells of a sweep", Size(n, plan_seeds, pairs), (n, 0)


def smallest(p: Params, place: Place, size: Size, sides: tuple[int, int], simulations: int) -> float | None:
    """The median over simulated runs of the smallest difference that their interval could have seen, in points."""
    rng = stream(p.judge.seed, "power", place.env, str(size), *sides)
    size = Size(size.trainings, size.plan_seeds, size.pairs, place.episodes)
    levels, found = [[place.world.logit(place.rate)] * 2] * METHODS, []
    for _ in range(simulations):
        cells = simulate.cells(rng, place.world, size, levels, place.env)
        a, b = cells[0], cells[2] if sides[1] else cells[1]
        b = simulate.first_trainings(b, sides[1]) if sides[1] else b
        c = paired.contrast([(1, a), (-1, b)])
        spread = paired.spread([c], paired.pooled(cells))
        effect = Effect(0.0, None, None, None, error=100 * spread.error, freedom=spread.freedom)
        found.append(detectable(effect, p.judge.level, POWER))
    return float(np.median(found)) if min(sides[0], sides[1] or sides[0]) > 1 else None


def seen(p: Params, places: list[Place], simulations: int) -> Table:
    """What the scale's own design can see."""
    body: dict[str, list[str]] = {}
    for i, place in enumerate(places):
        for label, size, sides in comparisons(p, place.env):
            trainings = f"{sides[0]} and {sides[1]}" if sides[1] not in (0, sides[0]) else str(sides[0])
            key = f"{label}: {trainings} x {size.plan_seeds} x {size.pairs}"
            line = body.setdefault(key, ["–"] * len(places))
            line[i] = number(smallest(p, place, size, sides, simulations), 1)
    head = ["Compared: trainings x plan seeds x pairs", *(ENVS[place.env] for place in places)]
    caption = (
        f"The smallest true difference in points that is seen with {POWER:.0%} power at the level {p.judge.level:.0%}; "
        f"scale {p.scale}, {simulations} simulated runs. {_components(places)}"
    )
    return Table("power", caption, head, [[label, *line] for label, line in body.items()])


def _components(places: list[Place]) -> str:
    parts = []
    for place in places:
        w, points = place.world, 100 * place.rate * (1 - place.rate) * place.world.training
        deviations = f"{w.episode:.1f}, {w.method:.1f}, {w.interaction:.1f}"
        parts.append(f"{ENVS[place.env]} {place.rate:.0%}, {points:.1f} ({deviations})")
    source = {True: "this scale's rows", False: "power.yaml", None: "rows and power.yaml"}
    known = {place.from_rows for place in places}
    return (
        f"Rate, deviation between trainings in points and (of the logit: episode, method in it, training in it) from "
        f"{source[known.pop() if len(known) == 1 else None]}: {'; '.join(parts)}."
    )


def cheapest(p: Params, places: list[Place], wanted: float, simulations: int) -> Table:
    """For two methods in each environment, the design that sees the wanted difference in the least CPU time."""
    of_training, of_episode = seconds(p)
    designs = [Size(t, plan, pairs) for t in TRAININGS for plan in PLAN_SEEDS for pairs in PAIRS]

    def minutes(size: Size) -> float:
        return 2 * size.trainings * (of_training + size.plan_seeds * size.pairs * of_episode) / 60

    body = []
    for place in places:
        row = [ENVS[place.env], f"none of {len(designs)}", "–", "–"]
        for size in sorted(designs, key=minutes):
            sees = smallest(p, place, size, (size.trainings, size.trainings), max(5, simulations // 4))
            if sees is not None and sees <= wanted:
                row = [ENVS[place.env], str(size), number(sees, 1), number(minutes(size), 1)]
                break
        body.append(row)
    caption = (
        f"The cheapest design by which two methods that differ by {wanted:g} points are told apart; both methods' trainings and "
        f"evaluations, at {of_training:.0f} s per training and {of_episode:.3f} s per planned episode and cost."
    )
    head = ["Environment", "trainings x plan seeds x pairs", "Sees", "CPU-minutes"]
    return Table("designs", caption, head, body, left=2)


def seconds(p: Params) -> tuple[float, float]:
    """(of one training, of one planned episode with one cost): what the jobs of a run here took, else the expected ones."""
    taken = wall_seconds(p.scale)
    jobs = {kind: [s for job, s in taken.items() if rule(job) == kind] for kind in ("train", "evaluate")}
    if not all(jobs.values()):
        expected = read_yaml("workflow/expected_seconds.yaml").get(p.scale)
        if not expected:
            raise UserError(
                f"workflow/expected_seconds.yaml: no times of scale {p.scale}, and nothing of it was run here"
            )
        jobs = {kind: [expected[kind]] for kind in jobs}
    planned = [evaluate_slice(p, *training).cells for training in runs.trainings(p)]
    episodes = [sum(len(cell.plan_seeds) * cell.pairs for cell in cells) for cells in planned]
    return float(median(jobs["train"])), float(np.mean(jobs["evaluate"])) / float(np.mean(episodes))
