"""Planning: the solvers against a known optimum and against the library's, costs and aggregation by hand."""

from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.load import load
from tdjepa.config.overlay import merge
from tdjepa.config.parse import parse
from tdjepa.config.records.base import Cost
from tdjepa.config.records.model import Model
from tdjepa.config.slices import evaluate_slice
from tdjepa.envs.base import make
from tdjepa.model.world_model import build
from tdjepa.planning import costs
from tdjepa.planning.cem import cem, coloured, icem
from tdjepa.planning.mpc import SOLVERS, LatentPlanner
from tdjepa.planning.reference import library_solver, solve


@pytest.fixture(scope="module")
def paper():
    return load(ROOT / "params.yaml", "paper")


@pytest.fixture(scope="module")
def planner(paper):
    return paper.evaluate.planner


def cell_of(p, method="tdjepa", planner=None, **changes):
    """The protocol's cell of Two-Room with some values changed."""
    cell = evaluate_slice(p, "two_room", method, 3072).cells[0]
    return cell.model_copy(update={"planner": cell.planner.model_copy(update=planner or {}), **changes})


def ready(p, frameskip=5, residual=False):
    """A model in which actions matter (AdaLN-zero starts as the identity) and whose batch norm does something."""
    cfg = merge(p.model.model_dump(mode="json"), {"predictor": {"residual": residual}})
    model = build(parse(Model, cfg, "test"), "mrn", 32, 2 * frameskip, seed=0)
    torch.manual_seed(1)
    with torch.no_grad():
        for block in model.predictor.blocks:
            block.modulation[1].weight.normal_(std=0.3)
            block.modulation[1].bias.normal_(std=0.3)
        if residual:
            model.pred_projector[-1].weight.mul_(10)  # it starts small, where candidates hardly differ
        for part in (model.projector, model.pred_projector):
            part[1].running_mean.normal_()
            part[1].running_var.uniform_(0.5, 2)
    return model.eval()


WIDE = (torch.full((2,), -9.0), torch.full((2,), 9.0))


def bowl(target):
    return lambda a: (a - target).square().sum((-1, -2))


@pytest.mark.parametrize(
    ("solver", "refinements", "changes", "error"),
    [
        ("cem", 30, {}, 0.05),
        ("icem", 30, {}, 0.05),
        ("mppi", 60, {"temperature": 0.05, "std": 0.1}, 0.05),  # its noise never shrinks
        ("gradient", 30, {"step_size": 0.25, "candidates": 4}, 0.001),  # a step of 1 jumps across this bowl for ever
    ],
)
def test_the_minimum_of_a_bowl_is_found(planner, solver, refinements, changes, error):
    target, planner = torch.linspace(-1, 1, 10).reshape(5, 2), planner.model_copy(update=changes)
    plan = SOLVERS[solver](bowl(target), planner, refinements, torch.Generator().manual_seed(0), WIDE)
    assert (plan - target).abs().max() < error


@pytest.mark.parametrize("solver", ["cem", "icem", "mppi", "gradient"])
def test_a_plan_depends_on_its_plan_seed_alone(smoke, model, solver):
    frames = np.random.default_rng(0).integers(0, 256, (2, 1, 32, 32, 3), np.uint8)
    few = {"candidates": 8, "elites": 4, "keep": 2}
    planner = LatentPlanner(model, make("two_room"), cell_of(smoke, planner=few, solver=solver, refinements=2))

    def plan(seed):
        torch.manual_seed(seed)  # must not matter
        return planner.policy(frames[1], 7 + seed % 2, [(0, 0)])(0, 0, frames[0], np.zeros((0, 10), np.float32))

    plans = [plan(seed) for seed in range(4)]
    np.testing.assert_array_equal(plans[0], plans[2])
    np.testing.assert_array_equal(plans[1], plans[3])
    assert (plans[0] != plans[1]).any()


# candidates, elites, refinements, horizon, frameskip
SHAPES = [(40, 8, 6, 5, 5), (300, 30, 3, 5, 5), (17, 3, 5, 4, 1), (24, 24, 4, 3, 2)]


@pytest.mark.parametrize("precision", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(("w", "residual"), [(1.0, True), (0.3, False)])
@pytest.mark.parametrize("cost", ["d_psi", "l2", "blend"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("solver", ["cem", "icem"])
def test_equal_to_the_librarys_solver_on_the_same_model_and_noise(smoke, solver, shape, cost, w, residual, precision):
    """Its solver on our model through get_cost, ours on the fast rollout: the same frames, the same noise, the same plan."""
    candidates, elites, refinements, horizon, frameskip = shape
    model = ready(smoke, frameskip, residual).to(precision)
    changes = {"candidates": candidates, "elites": elites, "horizon": horizon, "receding": 1}
    cell = cell_of(smoke, planner=changes, solver=solver, cost=cost, w=w, refinements=refinements)
    frames = np.random.default_rng(3).integers(0, 256, (2, 1, 32, 32, 3), np.uint8)  # the frame seen, the goal

    seen, goal = torch.from_numpy(frames)
    info = {"pixels": seen[None], "goal": goal[None]}
    expected = solve(library_solver(model, cell, seed=11), horizon, 2, frameskip, info)

    ours = LatentPlanner(model, make("two_room"), cell)
    context = ours.context(frames[0], np.zeros((0, 2 * frameskip), np.float32))
    plan = ours.plan(context, ours.encode(frames[1, 0]), torch.Generator().manual_seed(11))
    assert plan.dtype == precision
    assert plan.abs().max() > 0.05
    torch.testing.assert_close(plan, expected.to(precision), atol=1e-5, rtol=0)


def test_coloured_noise_is_unit_and_slow():
    noise = coloured(4000, 5, 2, 2.0, torch.Generator().manual_seed(0))
    assert noise.shape == (4000, 5, 2)
    assert noise.std(1).mean() == pytest.approx(1.0, abs=1e-5)
    white = coloured(4000, 5, 2, 0.0, torch.Generator().manual_seed(0))
    slow, fast = (float((x[:, 1:] * x[:, :-1]).mean()) for x in (noise, white))  # of neighbours
    assert slow > fast + 0.3


@pytest.fixture
def model(smoke):
    return ready(smoke)


def test_costs_by_hand(model):
    goal, z = torch.randn(8), torch.randn(6, 8)
    d, euclid = (costs.step_cost(model, goal, share)(z) for share in (0.0, 1.0))
    torch.testing.assert_close(d, model.head(z, goal))
    torch.testing.assert_close(euclid, (z - goal).norm(dim=-1) ** 2)
    torch.testing.assert_close(costs.step_cost(model, goal, 0.1)(z), 0.9 * d + 0.1 * euclid)
    torch.testing.assert_close(costs.step_cost(model, goal, 1.0, "root")(z), (z - goal).norm(dim=-1))


def test_every_cost_has_its_share_of_l2(paper):
    planned = set(get_args(Cost)) - {"policy"}
    assert all(0 <= costs.share_of_l2(cell_of(paper, cost=cost), (10.0, False)) <= 1 for cost in planned)


def test_aggregation_weights_the_end_and_the_way_there():
    context, z_hat = torch.tensor([7.0, 0.0]), torch.tensor([[[1.0, 9.0]], [[2.0, 9.0]], [[4.0, 9.0]]])  # (H, 1, D)

    def cost(*w):
        return costs.aggregate(lambda z: z[..., 0], context, z_hat, *w).tolist()

    assert cost(1.0) == [4.0]
    # mean over the trajectory includes the context frame: (7 + 1 + 2 + 4) / 4 = 3.5
    assert [*cost(0.3), *cost(0.0)] == pytest.approx([0.3 * 4 + 0.7 * 3.5, 3.5])
    assert cost(0.3, False) == pytest.approx([0.3 * 4 + 0.7 * 7 / 3])  # the corrected reading leaves it out


def test_gates_choose_by_distance_and_a_touch_is_near(paper):
    c = paper.evaluate.costs
    assert [costs.hard_gate(d, False, c) for d in (39.9, 40.0, 500.0)] == [1.0, 0.0, 0.0]
    assert costs.hard_gate(500.0, True, c) == costs.soft_gate(500.0, True, c) == 1.0
    assert costs.soft_gate(40.0, False, c) == pytest.approx(0.55)  # half way between 0.10 and 1
    soft = [costs.soft_gate(d, False, c) for d in (0.0, 20.0, 40.0, 60.0, 1e9)]
    assert soft == sorted(soft, reverse=True)
    assert soft[-1] == pytest.approx(0.10)
    assert costs.share_of_l2(cell_of(paper, cost="hard_gate"), (10.0, False)) == 1.0
    assert costs.share_of_l2(cell_of(paper, cost="hard_gate"), (90.0, False)) == 0.0


def test_a_gate_reads_the_state_that_is_planned_from(smoke, model):
    """Push-T with the agent far from the block plans with d_psi, beside it with l2: as those two costs do, to the bit."""
    env = make("push_t")
    far, near = np.zeros((2, 1, 10))
    far[0, :5], near[0, :5] = (60, 60, 400, 400, 0), (400, 380, 400, 400, 0)
    frames = np.random.default_rng(0).integers(0, 256, (2, 1, 32, 32, 3), np.uint8)
    plans = {}
    for cost in ("hard_gate", "d_psi", "l2"):
        for name, state in (("far", far), ("near", near)):
            env.restore(state)
            cell = cell_of(smoke, cost=cost, refinements=2)
            policy = LatentPlanner(model, env, cell).policy(frames[1], 7, [(0, 0)])
            plans[cost, name] = policy(0, 0, frames[0], np.zeros((0, 10), np.float32))
    np.testing.assert_array_equal(plans["hard_gate", "far"], plans["d_psi", "far"])
    np.testing.assert_array_equal(plans["hard_gate", "near"], plans["l2", "near"])
    assert (plans["d_psi", "far"] != plans["l2", "far"]).any()


def test_the_first_gate_may_read_a_random_reset_as_the_reference_does(smoke, model, monkeypatch):
    """Beside the block, the first plan is the reset's and the second that of the state; each pair has its own reset."""
    env, state = make("push_t"), np.zeros((1, 10))
    state[0, :5] = 400, 380, 400, 400, 0
    env.restore(state)
    frames = np.random.default_rng(0).integers(0, 256, (2, 1, 32, 32, 3), np.uint8)
    costs, drawn = smoke.evaluate.costs.model_copy(update={"first_gate": "reset"}), []
    monkeypatch.setattr(env, "contact_after_reset", lambda rng: (drawn.append(rng.uniform()) or 500.0, False))

    def plan(number, cost, pair=(0, 0), **changes):
        cell = cell_of(smoke, cost=cost, refinements=2).model_copy(update=changes)
        policy = LatentPlanner(model, env, cell).policy(frames[1], 7, [pair])
        return policy(0, number, frames[0], np.zeros((0, 10), np.float32))

    np.testing.assert_array_equal(plan(0, "hard_gate", costs=costs), plan(0, "d_psi"))
    np.testing.assert_array_equal(plan(1, "hard_gate", costs=costs), plan(1, "l2"))
    np.testing.assert_array_equal(plan(0, "hard_gate"), plan(0, "l2"))  # smoke reads the state
    plan(0, "hard_gate", (0, 1), costs=costs)
    plan(0, "hard_gate", costs=costs)
    assert len(drawn) == 3
    assert drawn[0] == drawn[2] != drawn[1]


class Promising:
    """A head of RC-aux that knows by hand which latents reach the goal in how many steps."""

    budget = torch.nn.Embedding(6, 2)

    def logit(self, z, z_goal, steps_left):
        assert steps_left.flatten().tolist() == [3, 2, 1]  # H - k + 1
        return torch.where((z - z_goal).abs().amax(-1) < 0.5, 2.0, -torch.inf).expand(*z.shape[:-1])


def test_rc_aux_lowers_the_cost_of_what_comes_near_and_refuses_a_horizon_beyond_its_budget(smoke):
    goal = torch.zeros(2)
    z_hat = torch.tensor([[[3.0, 0.0], [3.0, 0.0]], [[0.0, 0.1], [2.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])  # (3, 2, 2)
    cell = cell_of(smoke, cost="rc_aux")
    found = costs.trajectory_cost(SimpleNamespace(head=Promising()), cell, goal)(torch.zeros(2), z_hat)
    lowered = 1 - 0.35 * torch.tensor(2.0).sigmoid()
    torch.testing.assert_close(found, torch.stack([lowered, torch.tensor(1.0)]))  # l2 of both ends is 1
    assert costs.reachability_factor(torch.full((3, 1), 99.0), 1.0).tolist() == pytest.approx([0.05])
    cell = cell_of(smoke, cost="rc_aux", planner={"horizon": 6})
    with pytest.raises(UserError, match="horizon 6 exceeds the 5 steps"):
        costs.refuse(cell, SimpleNamespace(head=Promising()), make("two_room"), "checkpoint")


def test_the_corrected_clip_is_in_the_actions_own_units(smoke, model):
    model.action_mean.fill_(0.5), model.action_std.fill_(0.25)
    cells = [cell_of(smoke, planner={"clip": clip}) for clip in ("reference", "raw")]
    reference, raw = (LatentPlanner(model, make("two_room"), cell) for cell in cells)
    assert [b[0].item() for b in reference.bounds] == [-1, 1]  # taken as if they were z-scored
    assert [b[0].item() for b in raw.bounds] == [-6, 2]
    assert raw.raw(torch.stack(raw.bounds)).min() == -1
    assert raw.raw(torch.stack(raw.bounds)).max() == 1


def test_elites_std_is_the_unbiased_one(planner):
    seen = []

    def cost(a):
        seen.append(a.clone())
        return a.square().sum((-1, -2))

    generator, one = torch.Generator().manual_seed(0), (torch.tensor([-1.0]), torch.tensor([1.0]))
    _, noise = (torch.randn(50, 5, 1, generator=generator) for _ in range(2))
    for changes in ({}, {"elite_std": "biased"}):
        small = planner.model_copy(update={"candidates": 50, "elites": 5, **changes})
        cem(cost, small, 2, generator.manual_seed(0), one)
        first, second = seen[-2:]
        elites = first[first.square().sum((-1, -2)).topk(5, largest=False).indices]
        expected = noise * elites.std(0, unbiased=not changes) + elites.mean(0)
        np.testing.assert_allclose(second[1:], expected[1:], atol=1e-6)


def test_icem_asks_once_for_the_cost_of_what_it_keeps(planner):
    asked = []

    def cost(a):
        asked.append(len(a))
        return bowl(0.5)(a)

    small = planner.model_copy(update={"candidates": 50, "elites": 10, "keep": 4})
    icem(cost, small, 3, torch.Generator().manual_seed(0), WIDE)
    assert asked == [50, 46, 46]
