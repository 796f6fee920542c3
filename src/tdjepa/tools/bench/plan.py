"""One plan, 300 candidates x 30 refinements x horizon 5, against the library's CEM solver: same weights, frames and noise.

The library's side runs its own solver on our model through `LibraryModel.get_cost`, written as its LeWM writes it. Seconds
of CPU time on one thread, encoding of both frames included; the share of the peak is that of our own operations.

tdjepa bench plan --size desk|paper
"""

import contextlib
import io
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import torch

from tdjepa.base.streams import torch_stream
from tdjepa.config.load import load
from tdjepa.config.slices import evaluate_slice
from tdjepa.envs.base import make
from tdjepa.model.world_model import build
from tdjepa.planning.mpc import LatentPlanner
from tdjepa.planning.reference import LibraryModel, library_solver
from tdjepa.tools.bench.timing import cpu_seconds, result

SEED, CANDIDATES, ELITES, REFINEMENTS, HORIZON, FRAMESKIP = 11, 300, 30, 30, 5, 5
SIZES = {"desk": (64, 5), "paper": (224, 2)}  # image size, rounds


def run(size: str = "desk") -> dict:
    torch.set_num_threads(1)
    image_size, rounds = SIZES[size]
    p = load("params.yaml", size)
    model = awake(build(p.model, "mrn", image_size, 2 * FRAMESKIP, seed=0))
    cell = evaluate_slice(p, "two_room", "tdjepa", p.train_seeds[0]).cells[0]
    search = {"candidates": CANDIDATES, "elites": ELITES, "horizon": HORIZON}
    planner = cell.planner.model_copy(update=search)
    cell = cell.model_copy(
        update={"solver": "cem", "cost": "l2", "w": 1.0, "refinements": REFINEMENTS, "planner": planner}
    )
    seen, goal = np.random.default_rng(0).integers(0, 256, (2, 1, image_size, image_size, 3), np.uint8)
    plans = {}

    def ours(cell=cell):
        search = LatentPlanner(model, make("two_room"), cell)
        context = search.context(seen, np.zeros((0, 2 * FRAMESKIP), np.float32))
        plans["ours"] = search.plan(context, search.encode(goal[0]), torch.Generator().manual_seed(SEED))

    def reference(cell=cell):
        with contextlib.redirect_stdout(io.StringIO()):
            plans["reference"] = library_plan(model, cell, seen, goal)

    for side in (ours, reference):  # warm-up
        side(cell.model_copy(update={"refinements": 1}))
    times = [(cpu_seconds(ours), cpu_seconds(reference)) for _ in range(rounds)]
    a, b = (min(side) for side in zip(*times, strict=True))
    flops = REFINEMENTS * flops_of_a_rollout(LatentPlanner(model, make("two_room"), cell))
    return result(
        "plan",
        b / a,
        a,
        b,
        unit="s",
        size=size,
        difference=float((plans["ours"] - plans["reference"]).abs().max()),
        gflop=round(flops / 1e9, 2),
        share_of_matmul_peak=round(flops / a / matmul_peak(), 3),
    )


def library_plan(model, cell, seen, goal) -> torch.Tensor:
    planner = cell.planner
    solver = library_solver("CEMSolver")(
        LibraryModel(model, cell),
        num_samples=planner.candidates,
        topk=planner.elites,
        n_steps=cell.refinements,
        seed=SEED,
    )
    config = SimpleNamespace(horizon=planner.horizon, action_block=FRAMESKIP)
    solver.configure(action_space=gym.spaces.Box(-1.0, 1.0, (1, 2)), n_envs=1, config=config)
    return solver.solve({"pixels": torch.from_numpy(seen)[None], "goal": torch.from_numpy(goal)[None]})["actions"][0]


def awake(model):
    """AdaLN-zero starts as the identity, where no action matters: give it weights that a training could have left."""
    with torch.no_grad():
        for i, block in enumerate(model.predictor.blocks):
            for j, tensor in enumerate((block.modulation[1].weight, block.modulation[1].bias)):
                tensor.normal_(std=0.1, generator=torch_stream(0, "bench", i, j))
    return model.eval()


def flops_of_a_rollout(planner: LatentPlanner) -> int:
    """Multiplications and additions of matrix products in one refinement."""
    from torch.utils.flop_counter import FlopCounterMode

    z, past = torch.zeros(1, planner.model.pred_projector[-1].out_features), torch.zeros(0, 2 * FRAMESKIP)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        planner.rollout(z, past, torch.zeros(CANDIDATES, HORIZON, 2 * FRAMESKIP))
    return counter.get_total_flops()


def matmul_peak(n: int = 1024, rounds: int = 8) -> float:
    """Operations a second of a square float32 product, the best of several."""
    a, b = torch.randn(2, n, n, generator=torch_stream(0, "bench"))
    return 2 * n**3 / min(cpu_seconds(lambda: a @ b) for _ in range(rounds))
