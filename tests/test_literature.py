"""The methods that the paper only cites: their losses by hand and against the library, their heads, acting without a search."""

import numpy as np
import pytest
import torch

from conftest import ROOT
from library import PLDMLoss, TemporalStraighteningLoss
from tdjepa.base.errors import UserError
from tdjepa.base.streams import torch_stream
from tdjepa.config.load import load, resolve
from tdjepa.config.records.model import Head
from tdjepa.config.slices import evaluate_slice, train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.envs.base import make
from tdjepa.model import checkpoint
from tdjepa.model.heads import MRN, Action, CriticAction, TimedAction, ValueAction
from tdjepa.objective import actions, value, variance
from tdjepa.objective.sigreg import directions, sigreg, subspace_directions
from tdjepa.planning import mpc
from tdjepa.steps import evaluate as evaluation
from tdjepa.steps import train as training

CFG = Head(hidden=16, features=8, budgets=5)
B, T, D, A = 6, 5, 4, 3
OTHER = np.roll(np.arange(B), 1)


@pytest.fixture
def z():
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def blocks():
    return torch.randn(B, T - 1, A, generator=torch.Generator().manual_seed(1))


def test_variance_covariance_similarity_and_curvature_equal_the_librarys(z):
    centred = PLDMLoss()(z - z.mean(0))  # it centres over the batch, also for the spread over time
    assert variance.variance(z, 1.0) == pytest.approx(float(centred["std_loss"]), rel=1e-5)
    assert variance.covariance(z) == pytest.approx(float(centred["cov_loss"]), rel=1e-5)
    assert variance.variance_over_time(z - z.mean(0), 1.0) == pytest.approx(float(centred["std_t_loss"]), rel=1e-5)
    assert variance.similarity(z) == pytest.approx(float((z[:, 1:] - z[:, :-1]).square().mean()))
    straight = TemporalStraighteningLoss()(z)
    assert variance.curvature(z) == pytest.approx(1 + float(straight), rel=1e-5)


def test_what_the_terms_against_collapse_are_smallest_for():
    spread = 3 * torch.eye(4).repeat(2, 1)[:, None] * torch.tensor([1.0, -1.0]).repeat_interleave(4)[:, None, None]
    assert variance.variance(spread, 1.0) == 0
    assert variance.covariance(spread) == pytest.approx(0, abs=1e-9)
    assert variance.variance(torch.zeros(8, 3, 4), 1.0) == pytest.approx(0.99)
    line = torch.arange(5.0)[None, :, None] * torch.ones(2, 1, 4)
    assert variance.curvature(line) == pytest.approx(0, abs=1e-6)
    assert variance.similarity(line) == 1


def test_progression_is_a_cosine_triplet(z):
    a, p, n = z[:, 2, :2], z[:, 3, :2], z[OTHER][:, 2, :2]

    def cos(x, y):
        return (x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1))

    expected = torch.relu(cos(a, n) - cos(a, p) + 0.2).mean()
    assert variance.progression(z[..., :2], 2, 3, OTHER, 0.2) == pytest.approx(float(expected), rel=1e-5)


def test_subspace_directions_are_unit_vectors_of_frozen_subspaces(z):
    def drawn(step):
        return subspace_directions(12, 40, 4, torch_stream(0, "frozen"), torch_stream(0, "draw", step))

    a, b = drawn(0), drawn(1)
    assert a.shape == (12, 40)
    assert torch.allclose(a.norm(dim=0), torch.ones(40), atol=1e-5)
    for k in range(4):  # ten directions per subspace, whatever the step: three dimensions
        part = torch.cat([a[:, 10 * k : 10 * k + 10], b[:, 10 * k : 10 * k + 10]], 1)
        assert torch.linalg.matrix_rank(part) == 3
    assert not torch.allclose(a, b)
    whole = subspace_directions(4, 8, 1, torch_stream(0, "frozen"), torch_stream(0, "draw"))
    assert torch.linalg.matrix_rank(whole) == 4
    assert sigreg(z.transpose(0, 1), whole, 17) > 0
    assert directions(4, 8, torch_stream(0, "draw")).shape == whole.shape


def test_inverse_dynamics_asks_neighbours_and_behaviour_all_later_frames(z, blocks):
    asked = []

    class Head:
        def action(self, z_s, z_g, steps):
            asked.append(torch.as_tensor(steps).unique().tolist())
            return torch.zeros(*z_s.shape[:-1], A)

    assert actions.inverse_dynamics(Head(), z, blocks) == pytest.approx(float(blocks.square().mean()))
    i = torch.triu_indices(T, T, 1)[0]
    assert actions.behaviour(Head(), z, blocks) == pytest.approx(float(blocks[:, i].square().mean()))
    assert asked == [[1], [1, 2, 3, 4]]


def test_the_expectile_is_where_the_loss_is_least():
    target = torch.tensor([0.0, 1.0])
    grid = torch.linspace(0, 1, 1001)
    for expectile in (0.5, 0.9):
        losses = [float(value.expectile_loss(target - at, expectile)) for at in grid]
        # of two equally likely values 0 and 1 the expectile is the number itself
        assert grid[int(np.argmin(losses))] == pytest.approx(expectile, abs=2e-3)


def test_a_distance_that_counts_steps_has_no_value_loss():
    """Along a line with one unit per step, d = steps solves d(s, g) = 1 + d(s', g) for goals ahead."""

    class Steps:
        def features(self, z):
            return z

        def distance(self, s, g):
            return (g - s).abs().sum(-1)

    line = torch.arange(5.0)[None, :, None].repeat(2, 1, 1)
    assert value.distance(Steps(), line, np.array([1, 0]), 0.9, 1.0) == 0
    assert value.distance(Steps(), 2 * line, np.array([1, 0]), 0.9, 1.0) > 0


def test_gradients_of_a_value_stop_at_its_target(z):
    head, z = MRN(CFG, D), z.requires_grad_()
    loss = value.distance(head, z, OTHER, 0.9, 0.98)
    (gradient,) = torch.autograd.grad(loss, z)
    assert gradient.abs().amax((0, 2)).min() > 0  # every frame starts a pair or is a goal
    with torch.no_grad():
        f = head.features(z)
        target = 1 + 0.98 * head.distance(f[:, 1], f[:, 1])  # next frame is the goal itself
    assert torch.allclose(target, torch.ones(B))


@pytest.mark.parametrize(("loss", "kind"), [(value.implicit_value, ValueAction), (value.implicit_q, CriticAction)])
def test_implicit_learning_finds_how_far_the_goal_is(loss, kind):
    """On a line walked one way, the value becomes minus the (discounted) number of steps, and the policy walks on."""
    torch.manual_seed(0)
    z = torch.linspace(-1, 1, T)[None, :, None].repeat(B, 1, 2)
    z[..., 1] = torch.linspace(-1, 1, B)[:, None]  # each window has a line of its own: strangers' goals are not met
    blocks = torch.ones(B, T - 1, A)
    head = kind(CFG, 2, A)
    optimiser = torch.optim.Adam(head.parameters(), 3e-3)
    for _ in range(800):
        optimiser.zero_grad()
        loss(head, z, blocks, OTHER, 0.9, 0.9, 3.0).backward()
        optimiser.step()
    with torch.no_grad():
        far, near = head.value(z[0, 0], z[0, 4]), head.value(z[0, 3], z[0, 4])
    assert float(near) == pytest.approx(-1, abs=0.3)
    assert float(far) == pytest.approx(-(1 + 0.9 + 0.81 + 0.729), abs=0.5)
    assert torch.allclose(head.action(z[0, 0], z[0, 4]), torch.ones(A), atol=0.1)


def test_a_timed_head_knows_the_steps_and_no_more_than_its_budget(z):
    plain, timed = Action(CFG, D, A), TimedAction(CFG, D, A)
    a, b = z[:, 0], z[:, 1]
    assert torch.equal(plain.action(a, b, 1), plain.action(a, b, 3))
    assert not torch.allclose(timed.action(a, b, 1), timed.action(a, b, 3))
    assert torch.equal(timed.action(a, b, 5), timed.action(a, b, 9))
    assert timed.action(z[:, :2], z[:, 2:4], torch.tensor([1, 2])).shape == (B, 2, A)


@pytest.fixture(scope="module")
def few():
    raw = read_yaml(ROOT / "params.yaml")
    raw["scales"]["smoke"]["train"] |= {"epochs": 1, "steps_per_epoch": 2}
    raw["scales"]["smoke"]["evaluate"]["curve_epochs"] = [1]
    raw["scales"]["smoke"]["methods"]["tdjepa_continued"] = {"envs": ["push_t"], "restart": None}
    for name in ("two_room_epochs", "cube_epochs"):
        raw["scales"]["smoke"]["evaluate"]["sweeps"][name] = {"pairs": 6, "cells": {"epochs": {"epoch": 1}}}
    return resolve(raw, "smoke")


@pytest.fixture(scope="module")
def backbones(few, data, tmp_path_factory):
    """One epoch of the methods whose latents policies are trained on."""
    folder = tmp_path_factory.mktemp("backbones")
    for method in ("lewm", "tdjepa"):
        cfg = train_slice(few, "two_room", method, 3072)
        training.run(cfg, data / "episodes.h5", data / "mined/split.json", folder / method)
    return folder


@pytest.mark.parametrize("method", load(ROOT / "params.yaml", "smoke").groups["literature"])
def test_every_method_of_the_literature_trains_and_is_evaluated(few, data, backbones, tmp_path, method):
    cfg = train_slice(few, "two_room", method, 3072)
    backbone = cfg.method.backbone and backbones / cfg.method.backbone / "epoch_01.safetensors"
    files = (data / "episodes.h5", data / "mined/split.json", tmp_path)
    last = training.run(cfg, *files, backbone=backbone)
    terms = {name: term for name, term in cfg.method.terms if term}
    assert last["loss"] == pytest.approx(sum(term.weight * last[name] for name, term in terms.items()), rel=1e-4)
    planned = evaluate_slice(few, "two_room", method, 3072)
    table = evaluation.run(
        planned,
        data / "episodes.h5",
        data / "mined/test.json",
        {1: tmp_path / "epoch_01.safetensors"},
        tmp_path / "rows",
    )
    assert set(table.cost) == set(few.methods[method].costs)
    if not backbone:
        return
    assert set(table.solver) == {"policy"}
    ours, theirs = (checkpoint.load(path)[0].state_dict() for path in (tmp_path / "epoch_01.safetensors", backbone))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs if not name.startswith("head."))
    with pytest.raises(UserError, match=f"needs --backbone, a checkpoint of {cfg.method.backbone}"):
        training.run(cfg, *files)
    wrong = backbones / ({"lewm", "tdjepa"} - {cfg.method.backbone}).pop() / "epoch_01.safetensors"
    with pytest.raises(UserError, match="was trained with method_name"):
        training.run(cfg, *files, backbone=wrong)


@pytest.mark.parametrize("head", ["none", "mrn"])
def test_a_policy_needs_a_head_that_acts(head):
    raw = read_yaml(ROOT / "params.yaml")
    raw["methods"]["gcbc"]["head"] = head
    with pytest.raises(UserError, match=f"costs: policy needs head action or .*, but head is {head}"):
        resolve(raw, "smoke")


def test_far_goals_and_their_budget(smoke, data):
    cfg = evaluate_slice(smoke, "two_room", "tdjepa", 3072, "far_50")
    assert (cfg.goal_offset, cfg.evaluate.budget, cfg.evaluate.manifest) == (30, 60, "far")
    assert [cell.cost for cell in cfg.cells] == ["d_psi", "l2", "blend"]  # each that the method has
    locked = evaluation.Episodes(cfg, data / "episodes.h5", data / "mined/far.json")
    assert (locked.last - locked.first == 30).all()
    raw = read_yaml(ROOT / "params.yaml")
    sweep = raw["scales"]["smoke"]["evaluate"]["sweeps"]["far_50"]
    for offset, said in ((31, "is not among mine.far_offsets"), (60, "is longer than every episode")):
        sweep |= {"goal_offset": offset, "envs": ["two_room"]}
        raw["scales"]["smoke"]["mine"]["far_offsets"] = [30, 60]
        with pytest.raises(UserError, match=said):
            resolve(raw, "smoke")


def test_stricter_success_is_asked_of_the_same_episode():
    """A policy that reaches the goal and leaves it again: solved, but not there at the end."""
    env = make("two_room")
    start = np.array([[30.0, 100.0]])
    goal = start + [[20.0, 0.0]]
    moves = np.zeros((10, 5, 2))
    moves[0, :4, 0], moves[4:, :, 0] = 1, -1  # four steps of five pixels, a rest, and away
    there = mpc.run_episodes(env, start, goal, lambda i, plan, frames, past: moves[plan : plan + 1], 50, 5)
    assert there["success"] == [True]
    assert there["closest"] < 1 < there["end"]
    stay = np.where(np.arange(10)[:, None, None] < 4, moves, 0)
    kept = mpc.run_episodes(env, start, goal, lambda i, plan, frames, past: stay[plan : plan + 1], 50, 5)
    assert kept["success"] == [True]
    assert kept["end"] < 1
    assert kept["steps"] == there["steps"]
