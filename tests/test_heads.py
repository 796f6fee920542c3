"""The heads: what makes d_psi a directed distance, its symmetric twin, and the shapes of RC-aux's two heads."""

import pytest
import torch
import torch.nn.functional as F

from conftest import ROOT
from tdjepa.config.load import load
from tdjepa.config.records.model import Head
from tdjepa.model.heads import HEADS, MRN, BudgetReachability, Reachability, Symmetric

CFG = Head(hidden=32, features=8, budgets=5)


@pytest.fixture
def points():
    return torch.randn(3, 500, 6, generator=torch.Generator().manual_seed(0))


def parts(head, z_s, z_g):
    """Both summands of the MRN distance by themselves."""
    sym, asym = (head.features(z_s) - head.features(z_g)).chunk(2, -1)
    return sym.norm(dim=-1), F.relu(asym).amax(-1)


def test_the_mrn_is_a_directed_distance(points):
    (a, b, c), head = points, MRN(CFG, 6)
    assert (head(a, a) == 0).all()
    assert (head(a, b) >= 0).all()
    assert ((head(a, b) - head(b, a)).abs() > 1e-3).float().mean() > 0.9
    torch.testing.assert_close(head(a, b), sum(parts(head, a, b)))
    for ac, ab, bc in zip(parts(head, a, c), parts(head, a, b), parts(head, b, c), strict=True):
        assert (ac <= ab + bc + 1e-5).all()
        assert (ab > 1e-3).float().mean() > 0.9  # neither part is idle
    assert (head(a, c) <= head(a, b) + head(b, c) + 1e-5).all()


def test_the_symmetric_head_is_a_plain_distance(points):
    (a, b, c), head = points, Symmetric(CFG, 6)
    assert (head(a, a) == 0).all()
    torch.testing.assert_close(head(a, b), head(b, a))
    assert (head(a, b) > 0).all()
    assert (head(a, c) <= head(a, b) + head(b, c) + 1e-5).all()


@pytest.mark.parametrize("kind", [MRN, Symmetric])
def test_the_gradient_exists_where_start_and_goal_meet(kind):
    head, z = kind(CFG, 6), torch.zeros(1, 6, requires_grad=True)
    head(z, z.detach()).sum().backward()
    assert torch.isfinite(z.grad).all()


def test_published_shapes():
    """Counted by hand from the descriptions, at latent 192."""
    cfg = load(ROOT / "params.yaml", "paper").model.head
    trunk = 192 * 512 + 512 + 2 * 512
    expected = {
        "mrn": trunk + 512 * 256 + 256,
        "symmetric": trunk + 512 * 128 + 128,
        "reachability": 384 * 512 + 512 + 2 * 512 + 512 * 256 + 256 + 256 + 1,
        "budget_reachability": 6 * 32 + 2 * 800 + 800 * 512 + 512 + 512 * 512 + 512 + 512 + 1,
    }
    assert {
        name: sum(p.numel() for p in head(cfg, 192).parameters()) for name, head in HEADS.items() if name in expected
    } == expected


def test_reachability_logits_broadcast(points):
    (a, b, _), head = points, Reachability(CFG, 6)
    assert head.logit(a, b).shape == (500,)
    torch.testing.assert_close(head.logit(a, b[0])[7], head.logit(a[7], b[0]))
    assert not torch.allclose(head.logit(a, b), head.logit(b, a))


def test_budget_reachability_knows_how_many_steps_are_left(points):
    (a, b, _), head = points, BudgetReachability(CFG, 6)
    every = head.logit(a[:, None], b[:, None], torch.arange(6))  # (500, 6)
    assert every.shape == (500, 6)
    for budget in (0, 5):
        torch.testing.assert_close(every[:, budget], head.logit(a, b, budget))
    assert (every[:, 1] != every[:, 2]).all()
