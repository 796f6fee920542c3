"""`tdjepa cost`: what the GPU jobs of a scale take, counted in operations, and the hours that these are at an assumed rate.

    tdjepa cost --scale paper                  operations, and hours at 30 TFLOP/s in training and 5 in planning
    tdjepa cost --scale paper --measure        and a training step timed on this machine: how long it would take here, and
                                               on a GPU that is kept as busy as this CPU

torch counts matrix products and attention of one window of every method and of one refinement of the planner. The parameters
say how many there are, as if no episode succeeded early. Reading frames and stepping environments come on top.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.part import text
from tdjepa.config.records.model import Model
from tdjepa.config.slices import EvaluateSlice, TrainSlice, evaluate_slice, train_slice
from tdjepa.mining.windows import span
from tdjepa.steps.schedule import batches_per_step, steps_per_epoch

ROWS = {"two_room": 920_809, "reacher": 2_010_000, "push_t": 2_336_736, "cube": 2_010_000}  # of the released files
ACTION = 2  # numbers per action; Cube has five, which is nothing beside the frames


@dataclass
class Job:
    kind: str
    name: str
    flop: float


def gpu_hours(p: Params, train_tflops: float = 30, plan_tflops: float = 5) -> float:
    return sum(job.flop / (train_tflops if job.kind == "train" else plan_tflops) / 3.6e15 for job in jobs(p))


def run(p: Params, train_tflops: float, plan_tflops: float, peak_tflops: float = 312, measure: bool = False) -> None:
    rates = {"--train-tflops": train_tflops, "--plan-tflops": plan_tflops, "--peak-tflops": peak_tflops}
    for flag, rate in rates.items():
        if not 0 < rate < math.inf:  # NaN is neither
            raise UserError(f"{flag} {rate:g}: must be a positive number, the TFLOP/s of your GPU")
    chosen = f", the part {text(p)}" if text(p) else ""
    print(f"scale {p.scale}{chosen}, assuming {train_tflops:g} TFLOP/s in training and {plan_tflops:g} in planning:")
    print(f"{'':<10}{'jobs':>6}{'PFLOP':>10}{'hours':>8}   longest")
    tflops = {"train": train_tflops, "evaluate": plan_tflops, "sweep": plan_tflops}
    hours = {kind: 1 / rate / 3.6e15 for kind, rate in tflops.items()}  # of one operation
    found, groups = jobs(p), _of_groups(p)
    for kind in tflops:
        if each := [job for job in found if job.kind == kind]:
            longest = max(each, key=lambda job: job.flop)
            print(_line(kind, each, hours, f"{longest.name}, {longest.flop * hours[kind]:.1f} h"))
    print(_line("all", found, hours))
    for group, each in groups.items():
        print(_line(group, each, hours, f"beside all, on request: snakemake {group}"))
    if measure:
        show_measured(p, sum(job.flop for job in found if job.kind == "train"), train_tflops, peak_tflops)


def _of_groups(p: Params) -> dict[str, list[Job]]:
    """The jobs of the methods on request; a part that names its methods has none beside them."""
    if p.part.methods:
        return {}
    return {group: jobs(p.model_copy(update={"methods_run": methods})) for group, methods in p.groups.items()}


def _line(name: str, each: list[Job], hours: dict[str, float], more: str = "") -> str:
    taken = sum(job.flop * hours[job.kind] for job in each)
    return f"{name:<10}{len(each):>6}{sum(job.flop for job in each) / 1e15:>10.1f}{taken:>8.1f}   {more}".rstrip()


def show_measured(p: Params, flop: float, train_tflops: float, peak_tflops: float) -> None:
    """All trainings (`flop` operations) from the cost of a step that is timed here."""
    env, method, seed = runs.trainings(p)[0]
    seconds, of_window, peak = measured_window(p, train_slice(p, env, method, seed))
    share, cores = of_window / seconds / peak, flop / of_window * seconds / 3600
    busy, assumed = (flop / tflops / 3.6e15 for tflops in (share * peak_tflops, train_tflops))
    print(
        f"measured here, one CPU thread: a window of {method} takes {seconds:.2g} s, {of_window / 1e9:.3g} GFLOP at "
        f"{share:.0%} of the\nthread's matmul peak of {peak / 1e9:.0f} GFLOP/s. All trainings: {cores:,.0f} hours of such "
        f"a core; {busy:.3g} of a GPU\nof {peak_tflops:g} TFLOP/s that were kept as busy, {assumed:.3g} at "
        f"{train_tflops:g} TFLOP/s"
    )


def measured_window(p: Params, cfg: TrainSlice, rounds: int = 3) -> tuple[float, float, float]:
    """One window in training on one thread: CPU seconds and operations; and the rate of a large matrix product."""
    import torch

    from tdjepa.base.allocator import keep_memory
    from tdjepa.tools.bench.timing import best, matmul, peak

    keep_memory()
    torch.set_num_threads(1)
    size = getattr(p.collect, cfg.env).image_size
    windows = min(cfg.train.batch, max(2, 32 * 64**2 // size**2))  # as many pixels as in a batch of the scale desk
    of_step, of_product = best(training_step(cfg, size, windows), matmul(), rounds=rounds)
    return of_step / windows, flop_of_a_window(cfg, size), peak(of_product)


def jobs(p: Params) -> list[Job]:
    found = []
    for which in runs.trainings(p):
        found += [Job("train", "/".join(map(str, which)), training_flop(p, train_slice(p, *which)))]
        found += [Job("evaluate", "/".join(map(str, which)), planning_flop(p, evaluate_slice(p, *which)))]
    for sweep, *which in runs.sweeps(p):
        cfg = evaluate_slice(p, *which, sweep)
        found.append(Job("sweep", "/".join(map(str, (sweep, *which))), planning_flop(p, cfg)))
    return found


def training_flop(p: Params, cfg: TrainSlice) -> float:
    train, data = cfg.train, getattr(p.collect, cfg.env)
    rows = ROWS[cfg.env] if p.collect.source[cfg.env] == "released" else data.episodes * (data.max_steps + 1)
    taken = span(cfg.method.window, cfg.frameskip, train.window_ends)  # rows
    share = 0.9 if train.windows_from == "all_episodes" else p.mine.split.train
    steps = train.epochs * steps_per_epoch(train, int(share * (rows - data.episodes * (taken - 1))))
    of_step = train.batch * batches_per_step(train)  # windows
    return steps * of_step * flop_of_a_window(cfg, data.image_size)


def planning_flop(p: Params, cfg: EvaluateSlice) -> float:
    total, size = 0.0, getattr(p.collect, cfg.env).image_size
    for cell in cfg.cells:
        plans = (
            cell.pairs * len(cell.plan_seeds) * math.ceil(cfg.evaluate.budget / (cell.planner.receding * cfg.frameskip))
        )
        candidates = cell.planner.candidates * cell.refinements * plans
        total += candidates * flop_of_a_candidate(p.model, size, cfg.frameskip, cell.planner.horizon)
    return total


def training_step(cfg: TrainSlice, image_size: int, windows: int):
    """Forward and backward of random windows, as a function."""
    import torch

    from tdjepa.model.world_model import build
    from tdjepa.objective.methods import objective

    window, block = cfg.method.window, cfg.frameskip * ACTION
    world = build(cfg.model, cfg.method.head, image_size, block, 0).train()
    frames = torch.randint(256, (windows, window, image_size, image_size, 3), dtype=torch.uint8)
    blocks = torch.randn(windows, window - 1, block)
    return lambda: objective(world, cfg.method, frames, blocks, 0, 0, 1)[0].backward()


def flop_of_a_window(cfg: TrainSlice, image_size: int) -> float:
    method = cfg.method
    key = (cfg.model, method.window, method.head, method.terms, image_size, cfg.frameskip)
    return _once(key, lambda: training_step(cfg, image_size, 2)) / 2  # batch norm wants two


def flop_of_a_candidate(model: Model, image_size: int, frameskip: int, horizon: int) -> float:
    """One candidate of one refinement, rolled out from one frame, as the published protocol does."""

    def rollout():
        import torch

        from tdjepa.model.world_model import build
        from tdjepa.planning.rollout import Rollout

        block = frameskip * ACTION
        world = build(model, "mrn", image_size, block, 0).eval().requires_grad_(False)
        start, candidates = (torch.zeros(1, model.latent), torch.zeros(0, block)), torch.zeros(10, horizon, block)
        return lambda: Rollout(world)(*start, candidates)

    return _once((model, image_size, frameskip, horizon), rollout) / 10


_counted: dict[str, int] = {}


def _once(key: tuple, work: Callable[[], Callable]) -> int:
    """The operations of what `work` makes. Most methods share their architecture, and all environments do."""
    if repr(key) not in _counted:
        from tdjepa.tools.bench.timing import operations

        _counted[repr(key)] = operations(work())
    return _counted[repr(key)]
