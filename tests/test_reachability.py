"""RC-aux's losses: which pairs are asked about, with which label, and what the losses are on hand-made answers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tdjepa.objective import reachability
from tdjepa.objective.reachability import beyond, branch, budgets, draw_far_pairs, exactly, within


class Asked:
    """A head on scalar latents that writes down every question and answers as told."""

    def __init__(self, answer=lambda s, g, b: 0 * s):
        self.answer, self.calls = answer, []

    def logit(self, s, g, b=None):
        s, g = s.squeeze(-1), g.squeeze(-1)
        self.calls.append((s, g, b))
        return self.answer(s, g, b)


def cross_entropy(logits, label):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label)).item()


def test_fifteen_positives_and_ten_hard_negatives_a_sample():
    positives, negatives = (set(zip(*map(np.ndarray.tolist, of), strict=True)) for of in (within(5), beyond(5)))
    assert positives == {(d, b) for d in range(1, 6) for b in range(d, 6)}  # 15
    assert negatives == {(d, b) for d in range(1, 6) for b in range(1, d)}  # 10
    head, z = Asked(), torch.arange(24.0).view(4, 6, 1)  # window w, frame t: 6 w + t
    branch(head, z[:, :1].expand(-1, 5, -1), z[:, 1:], within(5), np.array([1, 0, 3, 2]), 1.0)
    (s, g, b), (s_cross, g_cross, b_cross), (s_hard, g_hard, b_hard) = head.calls
    assert s.shape == s_cross.shape == (4, 15)
    assert s_hard.shape == (4, 10)
    assert (g - s <= b).all()
    assert (g_hard - s_hard > b_hard).all()
    assert (s == z[:, 0]).all()  # only the last context frame is a source
    assert (g_cross // 6 == torch.tensor([1, 0, 3, 2])[:, None]).all()
    assert torch.equal(b, b_cross)


def test_a_branch_balances_positives_against_both_kinds_of_negatives():
    z = torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]).unsqueeze(-1)
    head = Asked(lambda s, g, b: 2.0 - (g - s).abs() + b)  # far goals and small budgets look out of reach
    loss = branch(head, z[:, :1].expand(-1, 2, -1), z[:, 1:], within(2), np.array([1, 0]), 0.5)
    positive = cross_entropy(torch.tensor([2.0, 3.0, 2.0]), 1.0)  # (d, b) = (1, 1), (1, 2), (2, 2)
    other = torch.tensor([[11.0, 11.0, 12.0], [9.0, 9.0, 8.0]])  # |distance| to the other window's goals
    cross = cross_entropy(2.0 - other + torch.tensor([1.0, 2.0, 2.0]), 0.0)
    hard = cross_entropy(torch.tensor([1.0]), 0.0)  # (2, 1)
    assert float(loss) == pytest.approx(0.5 * (positive + (cross + 0.5 * hard) / 1.5), rel=1e-6)


def test_terminal_progress_asks_for_exactly_the_steps_that_are_left():
    head, z, z_hat = Asked(), torch.arange(12.0).view(2, 6, 1), 100 + torch.arange(8.0).view(2, 4, 1)
    budgets(head, z, z_hat, [np.array([1, 0])] * 4, 0.5, 0.5, 1.0, 0.5)
    real, predicted, terminal, terminal_predicted = (head.calls[k : k + 3] for k in range(0, 12, 3))
    assert len(head.calls) == 12
    assert (real[0][0].shape[1], real[2][0].shape[1]) == (15, 10)
    s, g, b = predicted[0]
    assert s.shape[1] == 10  # 1 <= d <= b <= 4: as far as was predicted
    assert (s == z[:, 0]).all()
    assert (g >= 100).all()
    s, g, b = terminal[0]
    assert (g == z[:, 4]).all()  # the last frame that was predicted, but the real one
    assert torch.equal(s[0], torch.tensor([3.0, 2.0, 1.0, 0.0]))
    assert torch.equal(b, torch.tensor([1, 2, 3, 4]))
    s, g, b = terminal[2]
    assert (g - s > b).all()
    s, g, b = terminal_predicted[0]
    assert (g == z[:, 4]).all()
    assert torch.equal(s[0], torch.tensor([102.0, 101.0, 100.0]))
    assert torch.equal(b, torch.tensor([1, 2, 3]))


def test_one_predicted_step_has_no_way_and_nothing_out_of_reach():
    head = Asked(lambda s, g, b: 0 * s + 1)
    z = torch.zeros(2, 6, 1)
    loss = budgets(head, z, z[:, :1], [np.array([1, 0])] * 4, 0.5, 0.5, 1.0, 0.5)
    yes, no = cross_entropy(torch.ones(1), 1.0), cross_entropy(torch.ones(1), 0.0)
    # real: both negatives; predicted and terminal: the hard ones are missing, their weight in the denominator is not
    expected = 0.5 * (yes + no) + 0.5 * 0.5 * (yes + no / 1.5) + 0.5 * (yes + no / 2)
    assert float(loss) == pytest.approx(expected, rel=1e-6)
    assert [list(v) for v in exactly(1)] == [[1], [1]]


def test_far_pairs_are_far_and_all_of_them_occur():
    i, j = draw_far_pairs(3000, 8, 5, np.random.default_rng(0))
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == {(0, 6), (0, 7), (1, 7)}
    near, far, other = reachability.drawn_pairs(64, 6, 5, np.random.default_rng(0))
    assert far is None  # in a window of 6 nothing is more than 5 steps apart
    assert (other != np.arange(64)).all()
    assert (near[0] < near[1]).all()


def test_pair_reachability_on_hand_made_pairs():
    z = torch.arange(16.0).view(2, 8, 1)
    head = Asked(lambda s, g, b: 3 - (g - s).abs() / 2)
    near, far = (np.array([0, 1]), np.array([5, 7])), (np.array([0, 1]), np.array([6, 7]))
    loss = reachability.pairs(head, z, near, far, np.array([1, 0]), 5)
    expected = F.binary_cross_entropy_with_logits(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0])).item()
    expected += cross_entropy(3 - torch.tensor([13.0, 2.0]) / 2, 0.0)  # 0 -> 13 and 9 -> 7
    expected += cross_entropy(torch.tensor([0.0, 0.0]), 0.0)
    assert float(loss) == pytest.approx(expected, rel=1e-6)
