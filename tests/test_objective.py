"""The losses: SIGReg against numpy and the library, temporal loss by hand, gradients stop where they should."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from library import SIGReg
from tdjepa.objective import prediction
from tdjepa.objective.sigreg import directions, plain, sigreg
from tdjepa.objective.temporal import all_pairs, draw_pairs, one_pair, pair_weights, strangers
from tdjepa.streams import torch_stream


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
    slow = plain(z, a, 17)
    (expected,) = torch.autograd.grad(slow, z)
    fast = sigreg(z, a, 17)
    (got,) = torch.autograd.grad(fast * 1.0, z)
    slow, fast = slow.detach(), fast.detach()
    assert float(fast) == pytest.approx(float(slow), rel=1e-5)
    assert float(fast) == pytest.approx(numpy_sigreg(z.detach().double().numpy(), a.double().numpy()), rel=1e-4)
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


def test_pairs_follow_the_published_rule():
    i, j = draw_pairs(4000, 8, np.random.default_rng(0))
    assert ((i >= 0) & (i < j) & (j <= 7)).all()
    assert set(i) == set(range(7))
    assert (np.bincount(i, minlength=7) > 450).all()  # i uniform over 0..6
    assert (j == 7).mean() == pytest.approx(4 / 7, abs=0.03)  # j = min(i + U{1..7}, 7): mean over i of (i + 1)/7


def test_pair_weights_are_the_frequencies_of_the_draw():
    i, j = draw_pairs(200_000, 8, np.random.default_rng(1))
    counts = np.zeros((8, 8))
    np.add.at(counts, (i, j), 1 / len(i))
    assert pair_weights(8).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(counts, pair_weights(8), atol=0.002)


def test_strangers_are_never_oneself():
    for seed in range(20):
        assert strangers(2, np.random.default_rng(seed)).tolist() == [1, 0]
        assert (strangers(50, np.random.default_rng(seed)) != np.arange(50)).all()


def test_all_pairs_is_the_mean_of_one_pair_over_many_draws():
    rng, z = np.random.default_rng(0), torch.randn(6, 8, 1) * 3
    other = strangers(6, rng)
    draws = [one_pair(Table(), z, *draw_pairs(6, 8, rng), other, 5.0) for _ in range(20_000)]
    expected = all_pairs(Table(), z, other, 5.0)
    for k in (0, 1):
        assert float(np.mean([float(d[k]) for d in draws])) == pytest.approx(float(expected[k]), rel=0.02)


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


def test_targets_stop_the_gradient_where_the_paper_does():
    def shift(z, c):
        return z + c

    z, c = torch.randn(2, 4, 3, requires_grad=True), torch.zeros(2, 3, 3)
    prediction.one_step(shift, z, c, 3, detach=True).backward()
    assert (z.grad[:, 3] == 0).all()  # the last frame is only a target
    assert (z.grad[:, :3] != 0).any()
    z.grad = None
    prediction.one_step(shift, z, c, 3, detach=False).backward()
    assert (z.grad[:, 3] != 0).any()
    z = torch.randn(2, 8, 3, requires_grad=True)
    prediction.rollout(lambda z, c: z[:, -1:].repeat(1, 5, 1), z, torch.zeros(2, 7, 3), 3, 5).backward()
    assert (z.grad[:, 3:] == 0).all()
    assert (z.grad[:, 2] != 0).any()


def test_rollout_loss_is_the_planners_rollout(smoke):
    """In eval mode the loss is the mean square between the logged latents and what the planner would imagine."""
    from tdjepa.model.world_model import build
    from tdjepa.planning.rollout import rollout

    model = build(smoke.model, "mrn", 32, 10, seed=0).eval()
    z, blocks = torch.randn(1, 8, smoke.model.latent), torch.randn(1, 7, 10)
    with torch.no_grad():
        loss = prediction.rollout(model.rollout, z, model.action_encoder(blocks), 3, 5)
        imagined = rollout(model, z[0, :3], blocks[0, :2], blocks[:, 2:])
    assert float(loss) == pytest.approx(float(F.mse_loss(imagined[0], z[0, 3:])), rel=1e-5)
