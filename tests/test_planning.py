"""Planning: the solvers against a known optimum and against the library's, costs and aggregation by hand."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from conftest import ROOT
from library import CEMSolver, ICEMSolver
from tdjepa import params
from tdjepa.errors import UserError
from tdjepa.planning import costs
from tdjepa.planning.cem import cem, coloured, icem


@pytest.fixture(scope="module")
def planner():
    return params.load(ROOT / "params.yaml", "paper").evaluate.planner


WIDE = (torch.tensor(-9.0), torch.tensor(9.0))


def bowl(target):
    return lambda a: (a - target).square().sum((-1, -2))


@pytest.mark.parametrize("solver", ["cem", "icem"])
def test_the_minimum_of_a_bowl_is_found(planner, solver):
    target = torch.linspace(-1, 1, 10).reshape(5, 2)
    search = (bowl(target), planner, 30, 2, torch.Generator().manual_seed(0))
    plan = cem(*search) if solver == "cem" else icem(*search, WIDE)
    assert (plan - target).abs().max() < 0.05


class Costable:
    """What the library's solvers want of a model."""

    def __init__(self, cost):
        self.cost = cost

    def get_cost(self, info, candidates):  # (1, N, H, A)
        return self.cost(candidates[0])[None]


class Config:
    horizon, action_block = 5, 1


@pytest.mark.parametrize(("dim", "candidates", "elites", "steps"), [(2, 300, 30, 10), (10, 64, 8, 4), (3, 300, 30, 30)])
@pytest.mark.parametrize("solver", ["cem", "icem"])
def test_plans_equal_the_librarys_given_the_same_noise(planner, solver, dim, candidates, elites, steps):
    planner = planner.model_copy(update={"candidates": candidates, "elites": elites})
    target = torch.linspace(-1.5, 1.5, 5 * dim).reshape(5, dim)

    def rough(a):  # many local minima: an equal plan is not just an equal optimum
        return bowl(target)(a) + torch.sin(7 * a).sum((-1, -2))

    kind = CEMSolver if solver == "cem" else ICEMSolver
    reference = kind(Costable(rough), num_samples=candidates, topk=elites, n_steps=steps, seed=11)
    reference.configure(action_space=gym.spaces.Box(-1.0, 1.0, (1, dim)), n_envs=1, config=Config())
    expected = reference.solve({"x": torch.zeros(1, 1)})["actions"][0]
    search = (rough, planner, steps, dim, torch.Generator().manual_seed(11))
    plan = cem(*search) if solver == "cem" else icem(*search, (-torch.ones(dim), torch.ones(dim)))
    torch.testing.assert_close(plan, expected, atol=1e-5, rtol=0)


def test_coloured_noise_is_unit_and_slow():
    noise = coloured(4000, 5, 2, 2.0, torch.Generator().manual_seed(0))
    assert noise.shape == (4000, 5, 2)
    assert noise.std(1).mean() == pytest.approx(1.0, abs=1e-5)

    def neighbours(x):
        return float((x[:, 1:] * x[:, :-1]).mean())

    white = coloured(4000, 5, 2, 0.0, torch.Generator().manual_seed(0))
    assert neighbours(noise) > neighbours(white) + 0.3


def test_costs_by_hand(smoke):
    from tdjepa.model.world_model import build

    model = build(smoke.model, "mrn", 32, 10, seed=0).eval()
    goal, z = torch.randn(8), torch.randn(6, 8)
    d = costs.make_cost(model, "d_psi", 0.1)(goal)(z)
    euclid = costs.make_cost(model, "l2", 0.1)(goal)(z)
    torch.testing.assert_close(d, model.head(z, goal))
    torch.testing.assert_close(euclid, (z - goal).norm(dim=-1) ** 2)
    torch.testing.assert_close(costs.make_cost(model, "blend", 0.1)(goal)(z), 0.9 * d + 0.1 * euclid)


def test_a_cost_without_its_head_is_an_error_not_a_fallback(smoke):
    from tdjepa.model.world_model import build

    model = build(smoke.model, "none", 32, 10, seed=0)
    for cost in ("d_psi", "blend"):
        with pytest.raises(UserError, match="without a temporal head"):
            costs.make_cost(model, cost, 0.1)


def test_aggregation_weights_the_end_and_the_way_there():
    def first(z):
        return z[..., 0]

    context, z_hat = torch.tensor([7.0, 0.0]), torch.tensor([[[1.0, 9.0], [2.0, 9.0], [4.0, 9.0]]])
    assert costs.aggregate(first, context, z_hat, 1.0).tolist() == [4.0]
    # mean over the trajectory includes the context frame: (7 + 1 + 2 + 4) / 4 = 3.5
    assert costs.aggregate(first, context, z_hat, 0.3).tolist() == pytest.approx([0.3 * 4 + 0.7 * 3.5])
    assert costs.aggregate(first, context, z_hat, 0.0).tolist() == pytest.approx([3.5])


def test_elites_std_is_the_unbiased_one(planner):
    seen = []

    def cost(a):
        seen.append(a.clone())
        return a.square().sum((-1, -2))

    cem(cost, planner.model_copy(update={"candidates": 50, "elites": 5}), 2, 1, torch.Generator().manual_seed(0))
    elites = seen[0][seen[0].square().sum((-1, -2)).topk(5, largest=False).indices]
    noise = torch.randn(50, 5, 1, generator=(g := torch.Generator().manual_seed(0)))
    noise = torch.randn(50, 5, 1, generator=g)
    expected = noise * elites.std(0, unbiased=True) + elites.mean(0)
    np.testing.assert_allclose(seen[1][1:], expected[1:], atol=1e-6)
