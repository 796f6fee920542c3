"""One plan, 300 candidates x 30 refinements x horizon 5, against the library's CEM solver: same weights, frames and noise.

The library's side runs its own solver on our model through `LibraryModel.get_cost`, written as in its LeWM. Seconds of CPU
time on one thread, encoding of both frames included; the share of the peak is that of our own operations.
"""

import numpy as np
import torch

from tdjepa.base.streams import torch_stream
from tdjepa.config.load import load
from tdjepa.config.slices import evaluate_slice
from tdjepa.envs.base import make
from tdjepa.model.world_model import build
from tdjepa.planning.mpc import LatentPlanner
from tdjepa.planning.reference import library_solver, solve
from tdjepa.tools.bench.timing import best, faster, matmul, operations, peak

SEED, CANDIDATES, ELITES, REFINEMENTS, HORIZON, FRAMESKIP = 11, 300, 30, 30, 5, 5
SIZES = {"desk": (64, 5), "paper": (224, 2)}  # image size, rounds


def run(size: str = "desk") -> dict:
    torch.set_num_threads(1)
    image_size, rounds = SIZES[size]
    p = load("params.yaml", size)
    model = awake(build(p.model, "mrn", image_size, 2 * FRAMESKIP, seed=0))
    cell = evaluate_slice(p, "two_room", "tdjepa", p.train_seeds[0]).cells[0]
    search = cell.planner.model_copy(update={"candidates": CANDIDATES, "elites": ELITES, "horizon": HORIZON})
    searched = {"solver": "cem", "cost": "l2", "w": 1.0, "refinements": REFINEMENTS, "planner": search}
    cell = cell.model_copy(update=searched)
    seen, goal = np.random.default_rng(0).integers(0, 256, (2, 1, image_size, image_size, 3), np.uint8)
    none, plans = np.zeros((0, 2 * FRAMESKIP), np.float32), {}

    def ours(cell=cell):
        planner = LatentPlanner(model, make("two_room"), cell)
        generator = torch.Generator().manual_seed(SEED)
        plans["ours"] = planner.plan(planner.context(seen, none), planner.encode(goal[0]), generator)

    def reference(cell=cell):
        info = {"pixels": torch.from_numpy(seen)[None], "goal": torch.from_numpy(goal)[None]}
        plans["reference"] = solve(library_solver(model, cell, SEED), HORIZON, 2, FRAMESKIP, info)

    for side in (ours, reference):
        side(cell.model_copy(update={"refinements": 1}))  # warm-up
    a, b = best(ours, reference, rounds=rounds, warm_up=False)
    planner = LatentPlanner(model, make("two_room"), cell)
    start, candidates = planner.context(seen, none), torch.zeros(CANDIDATES, HORIZON, 2 * FRAMESKIP)
    with torch.no_grad():
        flop = REFINEMENTS * operations(lambda: planner.rollout(*start, candidates))
    (product,) = best(matmul(), rounds=8)
    difference = float((plans["ours"] - plans["reference"]).abs().max())
    counted = {"gflop": round(flop / 1e9, 2), "share_of_matmul_peak": round(flop / a / peak(product), 3)}
    return faster("plan", a, b, size=size, difference=difference, **counted)


def awake(model):
    """AdaLN-zero starts as the identity, where no action matters: give it weights that a training could have left."""
    with torch.no_grad():
        for i, block in enumerate(model.predictor.blocks):
            for j, tensor in enumerate((block.modulation[1].weight, block.modulation[1].bias)):
                tensor.normal_(std=0.1, generator=torch_stream(0, "bench", i, j))
    return model.eval()
