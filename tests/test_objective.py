"""The losses: SIGReg against numpy and the library, temporal and prediction losses by hand, where gradients go."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from library import SIGReg
from tdjepa.base.streams import torch_stream
from tdjepa.config.parse import parse
from tdjepa.config.records.methods import Method
from tdjepa.config.records.model import Head
from tdjepa.model.heads import MRN, Symmetric
from tdjepa.model.world_model import build
from tdjepa.objective import prediction
from tdjepa.objective.methods import Batch, objective
from tdjepa.objective.sigreg import directions, knots, plain, sigreg
from tdjepa.objective.temporal import all_pairs, draw_pairs, one_pair, pair_weights, strangers
from tdjepa.planning.rollout import Rollout
from tdjepa.tools.bench.plan import awake


def numpy_sigreg(z, a, knots=17):
    """Straight from the description: knots in [0, 3], trapezoid over [-3, 3] by symmetry, Gaussian window, times B."""
    t = np.linspace(0, 3, knots)
    x = z @ a  # (T, B, P)
    total = 0.0
    for k in range(knots):
        weight = np.exp(-(t[k] ** 2) / 2) * (3 / (knots - 1)) * (1 if k in (0, knots - 1) else 2)
        real, imaginary = np.cos(t[k] * x).mean(1), np.sin(t[k] * x).mean(1)
        total += weight * ((real - np.exp(-(t[k] ** 2) / 2)) ** 2 + imaginary**2)
    return float(total.mean() * z.shape[1])


@pytest.mark.parametrize("shape", [(8, 32, 16, 64), (1, 2, 3, 4), (4, 64, 192, 33)])
def test_fast_sigreg_equals_the_formula_value_and_gradient(shape):
    t, b, d, p = shape
    a = directions(d, p, torch_stream(0, "test"))
    z = (1.7 * torch.randn(t, b, d) + 0.3).requires_grad_()
    slow, fast = plain(z, a, 17), sigreg(z, a, 17)
    (expected,), (got,) = torch.autograd.grad(slow, z), torch.autograd.grad(fast * 1.0, z)
    assert fast.item() == pytest.approx(slow.item(), rel=1e-5)
    assert fast.item() == pytest.approx(numpy_sigreg(z.detach().double().numpy(), a.double().numpy()), rel=1e-4)
    assert (got - expected).abs().max() < 1e-5 * max(1.0, float(expected.abs().max()))


def test_sigreg_equals_the_librarys():
    library = SIGReg(knots=17, num_proj=128)
    z = torch.randn(3, 40, 12)
    torch.manual_seed(5)
    expected = library(z)
    torch.manual_seed(5)
    a = torch.randn(12, 128)
    assert float(sigreg(z, a / a.norm(dim=0), 17)) == pytest.approx(float(expected), rel=1e-5)


def test_sigreg_is_smallest_for_gaussian_latents():
    rng, a = torch.Generator().manual_seed(0), directions(8, 256, torch_stream(1, "test"))
    gaussian = torch.randn(4, 512, 8, generator=rng)
    value = float(sigreg(gaussian, a, 17))
    # E over samples: B * sum_k w_k * Var / B is about 1 for Gaussian data, whatever B is
    assert 0.3 < value < 2.0
    for other in (2 * gaussian, gaussian + 1, torch.zeros_like(gaussian)):
        assert float(sigreg(other, a, 17)) > 10 * value
    assert float(sigreg(gaussian.sign(), a, 17)) > 2 * value  # right moments, wrong shape


def test_pairs_follow_the_published_rule_and_weights_are_their_frequencies():
    i, j = draw_pairs(200_000, 8, np.random.default_rng(1))
    assert ((i >= 0) & (i < j) & (j <= 7)).all()
    assert (np.bincount(i, minlength=7) > 27_000).all()  # i uniform over 0..6
    assert (j == 7).mean() == pytest.approx(4 / 7, abs=0.005)  # j = min(i + U{1..7}, 7): mean over i of (i + 1)/7
    counts = np.zeros((8, 8))
    np.add.at(counts, (i, j), 1 / len(i))
    assert pair_weights(8).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(counts, pair_weights(8), atol=0.002)


def test_strangers_are_never_oneself():
    for seed in range(20):
        assert strangers(2, np.random.default_rng(seed)).tolist() == [1, 0]
        assert (strangers(50, np.random.default_rng(seed)) != np.arange(50)).all()
        families = strangers(12, np.random.default_rng(seed), siblings=4) // 4
        assert (families != np.arange(12) // 4).all()  # nor one's own episode, where four of each stand side by side


def test_all_pairs_is_the_mean_of_one_pair_over_many_draws():
    rng, z = np.random.default_rng(0), torch.randn(6, 8, 1) * 3
    other = strangers(6, rng)
    draws = 20_000  # of the six windows, as one batch
    others = (other + 6 * np.arange(draws)[:, None]).ravel()
    found = one_pair(Table(), z.repeat(draws, 1, 1), *draw_pairs(6 * draws, 8, rng), others, 5.0)
    for one, every in zip(found, all_pairs(Table(), z, other, 5.0), strict=True):
        assert float(one) == pytest.approx(float(every), rel=0.02)


@pytest.mark.parametrize("head", [MRN, Symmetric])
def test_all_pairs_is_every_pair_in_turn_value_and_gradient(head):
    head = head(Head(hidden=8, features=4, budgets=5), 3).double()
    z = torch.randn(6, 5, 3, dtype=torch.float64, requires_grad=True)
    other, weights = strangers(6, np.random.default_rng(0)), pair_weights(5)
    one_by_one = 0
    for i, j in np.argwhere(weights):
        each = one_pair(head, z, np.full(6, i), np.full(6, j), other, 2.0)
        one_by_one = one_by_one + weights[i, j] * torch.stack(each)
    for ours, expected in zip(all_pairs(head, z, other, 2.0), one_by_one, strict=True):
        torch.testing.assert_close(ours, expected)
        gradients = (torch.autograd.grad(loss, z, retain_graph=True)[0] for loss in (ours, expected))
        torch.testing.assert_close(*gradients)


class Table:
    """A head that knows its distances: latents are scalars on a line, d = relu(g - s) + 2 relu(s - g)."""

    def features(self, z):
        return z

    def distance(self, s, g):
        return (F.relu(g - s) + 2 * F.relu(s - g)).squeeze(-1)


def test_temporal_loss_on_hand_made_pairs():
    z = torch.tensor([[0.0, 1.0, 2.5], [10.0, 10.2, 10.4]]).unsqueeze(-1)  # (2, 3, 1)
    pairs = (np.array([0, 1]), np.array([2, 2]), np.array([1, 0]))
    positive, negative = one_pair(Table(), z, *pairs, margin=9.0)
    # d = 2.5 against 2: smooth L1 of .5 = .125; d = .2 against 1: of .8 = .32
    assert float(positive) == pytest.approx((0.125 + 0.32) / 2)
    # window 0 to window 1's frame 2: d = 10.4 > 9: 0; window 1 (10.2) to window 0's frame 2 (2.5): 15.4 > 9: 0
    assert float(negative) == 0.0
    _, negative = one_pair(Table(), z, *pairs, margin=12.0)
    assert float(negative) == pytest.approx((1.6 + 0.0) / 2)


def test_sigreg_exceeds_its_expectation_by_nothing_for_gaussian_latents():
    """E cos^2 + E sin^2 = 1 and E cos = phi, so the statistic of Gaussian data is sum_k w_k (1 - phi_k^2) in the mean."""
    _, phi, weight = (np.array(v) for v in knots(17))
    expected = float(weight @ (1 - phi**2))
    generator = torch.Generator().manual_seed(0)
    latents = [torch.randn(1, 16, 4, generator=generator) for _ in range(400)]
    draws = [sigreg(z, directions(4, 8, torch_stream(k, "test")), 17).item() for k, z in enumerate(latents)]
    assert abs(np.mean(draws) - expected) < 4 * np.std(draws) / 20


def test_rollout_loss_is_the_planners_rollout(smoke):
    """In eval mode the loss is the mean square between the logged latents and what the planner would imagine."""
    model = awake(build(smoke.model, "mrn", 32, 10, seed=0)).eval()
    z, blocks = torch.randn(1, 8, smoke.model.latent), torch.randn(1, 7, 10)
    with torch.no_grad():
        c = model.action_encoder(blocks)
        imagined = Rollout(model)(z[0, :3], blocks[0, :2], blocks[:, 2:]).transpose(0, 1)  # (1, 5, D)
        z_hat = Batch(model, smoke.methods["tdjepa"], z, c, 0, 0, 1).rollout(5)[0]
        for horizons in ((5,), (1, 3, 5)):
            loss = prediction.rollout(z_hat, z[:, 3:], horizons)
            expected = np.mean([float(F.mse_loss(imagined[:, :h], z[:, 3 : 3 + h])) for h in horizons])
            assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert float(F.mse_loss(imagined[:, 1:], imagined[:, :-1])) > 1e-4  # the model does imagine something


def test_shorter_rollouts_are_the_beginning_of_longer_ones(smoke):
    model = awake(build(smoke.model, "none", 32, 10, seed=0)).eval()
    z, c = torch.randn(2, 8, smoke.model.latent), model.action_encoder(torch.randn(2, 7, 10))
    for order in ((2, 5), (5, 2)):
        batch = Batch(model, smoke.methods["tdjepa"], z, c, 0, 0, 1)
        parts = {steps: batch.rollout(steps)[0] for steps in order}
        assert parts[2].shape[1] == 2
        torch.testing.assert_close(parts[2], parts[5][:, :2])


def test_the_first_step_of_a_rollout_is_the_one_step_prediction(smoke):
    """Shared instead of computed twice: the same value and gradients, with BatchNorm in training mode too."""
    model = awake(build(smoke.model, "none", 32, 10, seed=0)).train()
    z, blocks = torch.randn(6, 8, smoke.model.latent, requires_grad=True), torch.randn(6, 7, 10)

    def gradients(z_next, z_hat):
        loss = prediction.one_step(z_next, z[:, 1:4], False) + prediction.rollout(z_hat, z[:, 3:], (5,))
        return torch.autograd.grad(loss, [z, *model.predictor.parameters()])

    batch = Batch(model, smoke.methods["tdjepa"], z, model.action_encoder(blocks), 0, 0, 1)
    shared = gradients(batch.next, batch.rollout(5)[0])
    c = model.action_encoder(blocks)
    apart = gradients(model.predict(z[:, :3], c[:, :3]), model.rollout(z[:, :3], c))
    for a, b in zip(shared, apart, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_open_loop_weighs_step_k_with_k():
    z_hat, z = torch.zeros(2, 3, 4), torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1).expand(2, 3, 4)
    assert float(prediction.open_loop(z_hat, z, False)) == pytest.approx((1 * 1 + 2 * 4 + 3 * 9) / 6)


def test_the_curriculum_of_horizons():
    longest = SimpleNamespace(integers=lambda low, high: high - 1)
    assert [prediction.draw_horizon(4, 4, epoch, longest) for epoch in range(1, 7)] == [2, 3, 3, 4, 4, 4]
    rng = np.random.default_rng(0)
    for epoch, longest in ((1, 2), (2, 3), (9, 4)):
        drawn = [prediction.draw_horizon(4, 4, epoch, rng) for _ in range(600)]
        assert sorted(set(drawn)) == list(range(1, longest + 1))
        assert min(np.bincount(drawn)[1:]) > 0.7 * 600 / longest


# Where the gradient goes: parts of the model, and frames of the window (3 of context, 5 after it).
ENCODE, PREDICT = {"encoder", "projector"}, {"action_encoder", "predictor", "pred_projector"}
OPEN, TEMPORAL = {"horizon": 1, "curriculum": 1}, {"margin": 9.0, "negatives": True, "pairs": "all"}
BUDGET = {"horizon": 5, "predicted": 0.5, "predicted_hard": 0.5, "terminal": 1.0, "terminal_predicted": 0.5}
NO_BUDGET = dict.fromkeys(BUDGET, 0.0) | {"horizon": 5}
FLOWS = {
    "one_step": ("none", {"targets": "detached"}, ENCODE | PREDICT, {0, 1, 2}),
    "one_step, attached": ("none", {"targets": "attached"}, ENCODE | PREDICT, {0, 1, 2, 3}),
    "rollout": ("none", {"horizons": [5]}, ENCODE | PREDICT, {0, 1, 2}),
    "open_loop": ("none", OPEN | {"targets": "detached"}, ENCODE | PREDICT, {0, 1, 2}),
    "open_loop, attached": ("none", OPEN | {"targets": "attached"}, ENCODE | PREDICT, {0, 1, 2, 3}),
    "temporal": ("mrn", TEMPORAL, ENCODE | {"head"}, set(range(8))),
    "temporal, symmetric": ("symmetric", TEMPORAL, ENCODE | {"head"}, set(range(8))),
    "pair_reachability": ("reachability", {"horizon": 5}, ENCODE | {"head"}, set(range(8))),
    "budget_reachability": ("budget_reachability", NO_BUDGET, ENCODE | {"head"}, set(range(2, 8))),
    "budget_reachability, predicted": ("budget_reachability", BUDGET, ENCODE | PREDICT | {"head"}, set(range(8))),
    "sigreg": ("none", {"directions": 16, "knots": 17}, ENCODE, set(range(8))),
}


@pytest.mark.parametrize("case", FLOWS)
def test_gradients_reach_these_parts_and_frames_and_no_others(smoke, case):
    head, settings, parts, frames = FLOWS[case]
    record = {"label": case, "window": 8, "head": head, "terms": {case.split(",")[0]: {"weight": 1.0, **settings}}}
    method = parse(Method, {**record, "costs": ["l2"]}, case)
    model = awake(build(smoke.model, head, 32, 10, seed=0)).train()
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (24, 8, 32, 32, 3), dtype=torch.uint8, generator=generator)
    loss, _, z = objective(model, method, pixels, torch.randn(24, 7, 10, generator=generator), 0, 0, 1)
    (of_z,) = torch.autograd.grad(loss, z, retain_graph=True)
    assert {t for t in range(8) if of_z[:, t].abs().max() > 0} == frames
    loss.backward()
    moved = [name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0]
    assert {name.split(".")[0] for name in moved} == parts
