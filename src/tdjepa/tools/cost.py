"""`tdjepa cost`: what the GPU jobs of a scale take, counted in operations, and the hours that these are at an assumed rate.

    tdjepa cost --scale paper                  operations, and hours at 30 TFLOP/s in training and 5 in planning
    tdjepa cost --scale paper --measure        and a training step timed on this machine: how long it would take here, and
                                               a GPU that is kept as busy as this CPU

Counted by torch (matrix products and attention): forward and backward of one window with every method, one refinement of
the planner. Multiplied by the windows and plans that the parameters ask for; plans are counted as if no episode succeeded
early. Frames are read and environments stepped beside that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.records.methods import Method
from tdjepa.config.records.model import Model
from tdjepa.config.slices import EvaluateSlice, TrainSlice, evaluate_slice, train_slice

ROWS = {"two_room": 920_809, "reacher": 2_010_000, "push_t": 2_336_736, "cube": 2_010_000}  # of the released files
ACTION = 2  # numbers an action; Cube has five, which is nothing beside the frames


@dataclass
class Job:
    kind: str
    name: str
    flop: float


def run(p: Params, train_tflops: float, plan_tflops: float, peak_tflops: float = 312, measure: bool = False) -> None:
    rates = {"--train-tflops": train_tflops, "--plan-tflops": plan_tflops, "--peak-tflops": peak_tflops}
    for flag, rate in rates.items():
        if not 0 < rate < math.inf:  # NaN is neither
            raise UserError(f"{flag} {rate:g}: must be a positive number, the TFLOP/s of your GPU")
    rates = {"train": train_tflops, "evaluate": plan_tflops, "sweep": plan_tflops}
    print(f"scale {p.scale}, assuming {train_tflops:g} TFLOP/s in training and {plan_tflops:g} in planning:")
    print(f"{'':<9}{'jobs':>6}{'PFLOP':>10}{'hours':>8}   longest")
    total, found = 0.0, jobs(p)
    for kind, rate in rates.items():
        each = [job for job in found if job.kind == kind]
        if each:
            hours = sum(job.flop for job in each) / rate / 3.6e15
            longest = max(each, key=lambda job: job.flop)
            total += hours
            print(
                f"{kind:<9}{len(each):>6}{sum(job.flop for job in each) / 1e15:>10.1f}{hours:>8.1f}"
                f"   {longest.name}, {longest.flop / rate / 3.6e15:.1f} h"
            )
    print(f"{'all':<9}{len(found):>6}{sum(job.flop for job in found) / 1e15:>10.1f}{total:>8.1f}")
    if measure:
        show_measured(p, sum(job.flop for job in found if job.kind == "train"), train_tflops, peak_tflops)


def show_measured(p: Params, flop: float, train_tflops: float, peak_tflops: float) -> None:
    """All trainings (`flop` operations) from the cost of a step that is timed here."""
    env, method, seed = runs.trainings(p)[0]
    seconds, of_window, peak = measured_window(p, train_slice(p, env, method, seed))
    share, cores = of_window / seconds / peak, flop / of_window * seconds / 3600
    busy, assumed = (flop / tflops / 3.6e15 for tflops in (share * peak_tflops, train_tflops))
    gflop, peak = of_window / 1e9, peak / 1e9
    print(
        f"measured here, one CPU thread: a window of {method} takes {seconds:.2g} s, {gflop:.3g} GFLOP at {share:.0%} of the"
    )
    print(
        f"thread's matmul peak of {peak:.0f} GFLOP/s. All trainings: {cores:,.0f} hours of such a core; {busy:.3g} of a GPU"
    )
    print(f"of {peak_tflops:g} TFLOP/s that were kept as busy, {assumed:.3g} at {train_tflops:g} TFLOP/s")


def measured_window(p: Params, cfg: TrainSlice, rounds: int = 3) -> tuple[float, float, float]:
    """One window in training on one thread: CPU seconds and operations; and the rate of a large matrix product."""
    import torch

    from tdjepa.base.allocator import keep_memory
    from tdjepa.model.world_model import build
    from tdjepa.objective.methods import objective
    from tdjepa.tools.bench.timing import cpu_seconds
    from tdjepa.tools.bench.train import PEAK

    keep_memory()
    torch.set_num_threads(1)
    size, block = getattr(p.collect, cfg.env).image_size, cfg.frameskip * ACTION
    windows = min(cfg.train.batch, max(2, 32 * 64**2 // size**2))  # as many pixels as in a batch of the scale desk
    world = build(cfg.model, cfg.method.head, size, block, 0).train()
    frames = torch.randint(256, (windows, cfg.method.window, size, size, 3), dtype=torch.uint8)
    blocks = torch.randn(windows, cfg.method.window - 1, block)
    a = torch.randn(PEAK, PEAK)

    def step():
        objective(world, cfg.method, frames, blocks, 0, 0, 1)[0].backward()

    step()
    times = [(cpu_seconds(step), cpu_seconds(lambda: a @ a)) for _ in range(rounds)]
    of_step, of_product = (min(each) for each in zip(*times, strict=True))
    flop = flop_of_a_window(cfg.model, cfg.method, size, cfg.frameskip)
    return of_step / windows, flop, 2 * PEAK**3 / of_product


def jobs(p: Params) -> list[Job]:
    found = []
    for which in runs.trainings(p):
        found += [Job("train", "/".join(map(str, which)), training_flop(p, train_slice(p, *which)))]
        found += [Job("evaluate", "/".join(map(str, which)), planning_flop(p, evaluate_slice(p, *which)))]
    for name, sweep in p.evaluate.sweeps.items():
        for env, method, seed in runs.trainings(p):
            if env in sweep.envs and method in sweep.methods and seed in p.train_seeds[: sweep.train_seeds]:
                cfg = evaluate_slice(p, env, method, seed, name)
                found.append(Job("sweep", f"{name}/{env}/{method}/{seed}", planning_flop(p, cfg)))
    return found


def training_flop(p: Params, cfg: TrainSlice) -> float:
    train, data = cfg.train, getattr(p.collect, cfg.env)
    rows = ROWS[cfg.env] if p.collect.source[cfg.env] == "released" else data.episodes * (data.max_steps + 1)
    windows = p.mine.split.train * (rows - data.episodes * (cfg.method.window - 1) * cfg.frameskip)
    a_step = train.batch * train.accumulate  # windows; `passes` draws so many times as many
    steps = train.epochs * (train.steps_per_epoch or windows // a_step)
    return steps * a_step * cfg.method.passes * flop_of_a_window(cfg.model, cfg.method, data.image_size, cfg.frameskip)


def planning_flop(p: Params, cfg: EvaluateSlice) -> float:
    size = getattr(p.collect, cfg.env).image_size
    plans = sum(
        flop_of_a_rollout(p.model, size, cfg.frameskip, cell.planner.candidates, cell.planner.horizon)
        * cell.refinements
        * len(cell.plan_seeds)
        * math.ceil(cfg.evaluate.budget / (cell.planner.receding * cfg.frameskip))
        for cell in cfg.cells
    )
    return plans * cfg.evaluate.episodes


def flop_of_a_window(model: Model, method: Method, image_size: int, frameskip: int) -> float:
    import torch

    from tdjepa.model.world_model import build
    from tdjepa.objective.methods import objective

    def count():
        world, batch = build(model, method.head, image_size, frameskip * ACTION, 0).train(), 2  # batch norm wants two
        frames = torch.randint(256, (batch, method.window, image_size, image_size, 3), dtype=torch.uint8)
        blocks = torch.randn(batch, method.window - 1, frameskip * ACTION)
        with _counter() as counter:
            loss, *_ = objective(world, method, frames, blocks, 0, 0, 1)
            loss.backward()
        return counter.get_total_flops() / batch

    return _once(count, model, method.window, method.head, method.terms, image_size, frameskip)


def flop_of_a_rollout(model: Model, image_size: int, frameskip: int, candidates: int, horizon: int) -> float:
    """One refinement: all candidates rolled out from one frame, as the published protocol does."""
    import torch

    from tdjepa.model.world_model import build
    from tdjepa.planning.rollout import Rollout

    def count():
        world, few = build(model, "mrn", image_size, frameskip * ACTION, 0).eval(), 10
        start = torch.zeros(1, model.latent), torch.zeros(0, frameskip * ACTION)
        with torch.no_grad(), _counter() as counter:
            Rollout(world)(*start, torch.zeros(few, horizon, frameskip * ACTION))
        return counter.get_total_flops() / few

    return candidates * _once(count, model, image_size, frameskip, horizon)


_counted: dict[str, float] = {}


def _once(count: Callable[[], float], *what) -> float:
    """Most methods share their architecture, and all environments do."""
    key = repr(what)
    if key not in _counted:
        _counted[key] = count()
    return _counted[key]


def _counter():
    from torch.utils.flop_counter import FlopCounterMode

    from tdjepa.tools.bench.train import CPU_ATTENTION

    return FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION)
