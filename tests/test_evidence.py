"""Statistics against hand-made answers, scipy, brute force and simulation."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from synthetic import PAIRS, outcomes, random_outcomes, rows_of
from tdjepa.base.errors import UserError
from tdjepa.evidence import intervals, moves, paired, simulate, summary
from tdjepa.evidence.intervals import Pool, Trainings
from tdjepa.tools import coverage


def the_cell(frame, method="tdjepa"):
    return next(cell for cell in summary.cells(frame) if cell.method == method)


def interval(success, clusters, level=0.95):
    """The interval of success (T, P, E), alone in its environment."""
    frame = outcomes(success, pairs=[(int(c), i) for i, c in enumerate(clusters)])
    (cell,) = summary.cells(frame)
    c = paired.contrast([(1, cell)])
    return intervals.of_rate(c.groups[0].values, c.clusters, paired.spread([c], Pool()), level)


# Means ----------------------------------------------------------------------------------------------------------------


def test_mean_and_std_by_hand():
    success = np.zeros((2, 2, 4))
    success[0, 0] = 1  # plan seed means: (4 + 0) / 8 and (0 + 2) / 8
    success[1, 1, :2] = 1
    found = summary.summarise(the_cell(outcomes(success)))
    assert found["mean"] == pytest.approx(37.5)
    assert found["std"] == pytest.approx(np.std([50, 25], ddof=1))
    assert (found["n_train_seeds"], found["n_plan_seeds"], found["n_episodes"], found["n_rows"]) == (2, 2, 4, 16)
    assert summary.summarise(the_cell(outcomes(np.ones((2, 1, 4)))))["std"] is None
    assert summary.summarise(the_cell(outcomes(np.ones((2, 3, 4)))))["std"] == 0


def test_trivial_pairs_can_be_left_out():
    frame = outcomes([[[1, 1, 0, 0]]])
    frame["trivial"] = frame["episode"] == 0
    found = summary.summarise(the_cell(frame))
    assert (found["mean"], found["n_trivial"]) == (50, 1)
    assert found["mean_nontrivial"] == pytest.approx(100 / 3)
    frame["trivial"] = True
    assert summary.summarise(the_cell(frame))["mean_nontrivial"] is None


def test_cells_of_an_environment_share_their_axes():
    a = outcomes(np.ones((1, 2, 2)), plan_seeds=[7, 11], pairs=[(1, 0), (2, 5)])
    b = outcomes(np.ones((1, 1, 1)), "lewm", "l2", plan_seeds=[3], pairs=[(2, 4)])
    first, second = summary.cells(rows_of(a, b))
    assert first.success.shape == second.success.shape == (1, 3, 3)
    assert [np.isnan(cell.success).sum() for cell in (first, second)] == [8, 5]


# Intervals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", coverage.WORLDS[:3], ids=str)
def test_every_kind_of_interval_covers_on_simulated_data(world):
    """A cheap part of docs/coverage.csv. Always covering is no art ([0, 100] does): its widths are in that table too."""
    found = coverage.simulated(np.random.default_rng(5), 60, simulate.Size(4, 1, 60), world, 0.8)
    assert {kind: entry for kind, entry in found.items() if entry["coverage"] < 0.85} == {}
    assert all(0 < entry["half_width"] < 40 for entry in found.values())


def spread_of(values, clusters=None, pool=None):
    """(error, degrees of freedom) of the mean of values (T, E)"""
    clusters = np.arange(values.shape[1]) if clusters is None else clusters
    trainings = intervals.of_trainings("e", "m", "cell", [(values, clusters)], 1.0)
    found = intervals.combined([intervals.of_episodes(values.mean(0), clusters)], [trainings], pool or Pool())
    return found.error, found.freedom


def test_the_error_of_a_mean_is_the_textbooks():
    """Trainings that nothing is pooled with: the variance of rows plus that of columns, less their interaction."""
    rng = np.random.default_rng(0)
    values = 3 * rng.normal(size=(4, 1)) + rng.normal(size=(1, 6))  # no interaction at all
    rows, columns = values.mean(1).var(ddof=1) / 4, values.mean(0).var(ddof=1) / 6
    assert spread_of(values)[0] == pytest.approx(np.sqrt(rows + columns))
    for varies, expected, within in (((3, 1), 2, 0.1), ((1, 50), 49, 3)):  # trainings, episodes
        values = 5 * rng.normal(size=varies) + 0.1 * rng.normal(size=(3, 50))
        assert spread_of(values)[1] == pytest.approx(expected, abs=within)


def test_a_variance_is_moderated_towards_the_pooled_one_of_other_methods():
    def of(method, variance, n=3, scale=1.0):
        return Trainings("e", method, "cell", n, variance, 1.0, scale)

    own = of("a", 9.0)
    assert Pool([own]).moderated(own) == (9.0, 2)  # nobody else: as it is
    assert Pool([own, of("b", 5.0)]).moderated(own) == ((2 * (6 + 1) + 2 * 9) / 4, 4)  # b's two, excess (8 + 4) / 2
    three = Pool([own, of("b", 5.0), of("c", 1.0), of("c", 1.0)])  # two costs of c share their trainings
    assert three.prior(own) == (pytest.approx(4), 4)
    assert three.moderated(own) == (pytest.approx((4 * (4 + 1) + 2 * 9) / 6), 6)
    assert three.prior(of("a", 9.0, scale=0.5))[0] == pytest.approx(2)  # nearer to the ceiling
    assert three.moderated(of("d", 0.0, n=1)) == (pytest.approx(4 + 1), 4)  # a single training
    assert Pool().moderated(of("d", 0.0, n=1)) == (1.0, np.inf)
    assert Pool([of("b", 0.1), of("c", 0.2)]).prior(own) == (0.0, 4)  # less than noise


def test_a_cell_without_failures_gets_clopper_pearson_over_distinct_episodes():
    exact = stats.binomtest(50, 50).proportion_ci(0.95, "exact").low
    success = np.ones((3, 10, 50))
    assert interval(success, np.arange(50)) == (pytest.approx(100 * exact), 100, "exact_low")
    assert interval(1 - success, np.arange(50)) == (0, pytest.approx(100 - 100 * exact), "exact_high")
    success[0, 0, 0] = 0  # does not make it much narrower
    low, _, kind = interval(success, np.arange(50))
    assert (low < 93, kind) == (True, "exact_low")


@pytest.mark.parametrize("together", [1, 2, 3, 5, 10])
def test_one_failure_of_fifty_leaves_room_for_none_whatever_its_episode(together):
    """The failing pair is in an episode of so many pairs. Clopper and Pearson's interval reaches to 99.9 % too."""
    success, clusters = np.ones((1, 1, 50)), np.maximum(np.arange(50) - together + 1, 0)
    success[0, 0, 0] = 0
    exact = stats.binomtest(49, 50).proportion_ci(0.95, "exact").high
    low, high, _ = interval(success, clusters)
    assert high >= 100 * exact
    assert interval(1 - success, clusters)[:2] == pytest.approx((100 - high, 100 - low))
    assert interval(np.ones((1, 1, 50)), clusters)[:2] == (pytest.approx(100 * 0.025 ** (1 / (51 - together))), 100)


def test_the_error_of_a_mean_of_unequal_episodes_is_the_ratio_estimators():
    """Also with rows missing: what an episode adds is its pairs' distances from the mean of all rows that are there."""
    clusters = np.repeat(np.arange(6), [1, 1, 2, 3, 5, 8])
    success = random_outcomes(3, (1, 1, 20))
    success[0, 0, [4, 11, 19]] = np.nan
    variance, freedom = intervals.of_episodes(success[0, 0], clusters)
    distances = [np.nansum(success[0, 0, clusters == c] - np.nanmean(success)) for c in range(6)]
    assert variance == pytest.approx(6 / 5 * np.square(distances).sum() / 17**2)
    assert freedom == pytest.approx(17**2 / np.square([1, 1, 2, 2, 4, 7]).sum() - 1)


@pytest.mark.parametrize(("seeds", "logit"), [((1, 1), 4), ((3, 3), 4), ((3, 3), 2.2), ((3, 3), 0)], ids=str)
def test_coverage_with_episodes_of_unequal_size(seeds, logit):
    """Twenty episodes of one pair and three of ten; near 100 % neither end may be missed often."""
    rng, below, above, simulations = np.random.default_rng(5), 0, 0, 200
    clusters = np.repeat(np.arange(23), [1] * 20 + [10] * 3)
    truth = 100 * np.mean(1 / (1 + np.exp(-logit - rng.normal(size=400_000))))
    for _ in range(simulations):
        chance = 1 / (1 + np.exp(-logit - rng.normal(size=23)[clusters]))
        success = (rng.random((*seeds, 50)) < chance).astype(float)
        low, high, _ = interval(success, clusters)
        below, above = below + (truth < low), above + (truth > high)
    assert max(below, above) / simulations <= 0.06


def test_pairs_of_one_episode_count_once():
    success = random_outcomes(6, (3, 4, 30), rate=np.random.default_rng(60).random((1, 1, 30)))
    once = interval(success, np.arange(30))
    twice = interval(np.repeat(success, 2, axis=2), np.repeat(np.arange(30), 2))
    assert twice == pytest.approx(once)
    as_if_independent = interval(np.repeat(success, 2, axis=2), np.arange(60))
    assert as_if_independent[1] - as_if_independent[0] < once[1] - once[0]


def test_intervals_of_small_and_unbalanced_cells_hold_their_mean():
    rng = np.random.default_rng(8)
    for shape in [(1, 1, 1), (1, 1, 8), (2, 1, 5), (3, 3, 12)]:
        success = random_outcomes(9, shape)
        success[rng.random(shape) < 0.3] = np.nan
        success[0, 0, 0] = 1
        low, high, _ = interval(success, np.arange(shape[2]))
        assert 0 <= low <= 100 * np.nanmean(success) <= high <= 100


# Comparisons ----------------------------------------------------------------------------------------------------------


def cells_of(a, b, method="lewm", **axes):
    """Two cells of shape (T, P, E) of the same plan seeds and pairs."""
    cells = summary.cells(rows_of(outcomes(a, **axes), outcomes(b, method, "l2", **axes)))
    return sorted(cells, key=lambda cell: cell.cost)


def pair_of(a, b, **more):
    first, second = cells_of(a, b, **more)
    return paired.contrast([(1, first), (-1, second)])


def t_test(contrast):
    return paired.paired_t(summary.plan_seed_means(contrast.by_pair))


def test_paired_t_is_scipys_over_plan_seed_means_or_none():
    a, b = random_outcomes(1, (2, 6, 20), 0.8), random_outcomes(2, (2, 6, 20), 0.5)
    expected = stats.ttest_rel(a.mean((0, 2)), b.mean((0, 2)))
    assert t_test(pair_of(a, b)) == pytest.approx((expected.statistic, expected.pvalue))
    assert t_test(pair_of(np.ones((1, 4, 5)), np.zeros((1, 4, 5)))) == (None, None)
    assert t_test(pair_of(random_outcomes(1, (2, 1, 9)), random_outcomes(2, (2, 1, 9)))) == (None, None)


def all_flips(by_episode):
    flips = [abs(np.dot(signs, by_episode)) for signs in itertools.product([-1, 1], repeat=len(by_episode))]
    return np.mean(np.array(flips) >= abs(by_episode.sum()) - 1e-9)


def test_permutation_against_all_sign_flips():
    a, b = random_outcomes(3, (2, 2, 8), 0.8), random_outcomes(4, (2, 2, 8), 0.4)
    assert paired.permutation(pair_of(a, b), 0) == pytest.approx(all_flips(a.mean((0, 1)) - b.mean((0, 1))))
    assert paired.permutation(pair_of(a, a), 0) == 1
    for failures, expected in enumerate((1, 1, 0.5)):
        a, b = np.ones((2, 2, 2, 8))
        b[:, :, :failures] = 0
        assert paired.permutation(pair_of(a, b), 0) == expected


def test_permutation_flips_whole_episodes_by_their_weight():
    a, b = random_outcomes(0, (2, 3, 6), 0.6), random_outcomes(100, (2, 3, 6), 0.5)
    by_pair = a.sum((0, 1)) - b.sum((0, 1))
    by_episode = np.array([by_pair[0] + by_pair[1], *by_pair[2:]])  # episode 3 has two starts
    assert paired.permutation(pair_of(a, b, pairs=PAIRS), 0) == pytest.approx(all_flips(by_episode))


def test_two_costs_of_one_checkpoint_share_their_training_noise():
    """Both costs rise and fall with the checkpoint: drawn together their difference is sharp, drawn apart it is not."""
    quality = np.array([0.1, 0.5, 0.9]).reshape(3, 1, 1)
    a, b = (random_outcomes(seed, (3, 4, 40), quality) for seed in (1, 2))

    def width(method):
        low, high, _ = paired.contrast_interval([pair_of(a, b, method=method)], Pool(), 0.95)
        return high - low

    assert width("tdjepa") < 0.5 * width("lewm")


def test_only_what_both_cells_have_is_compared():
    a, b = random_outcomes(1, (2, 3, 10)), random_outcomes(2, (2, 3, 10))
    a[:, 0] = b[:, :, 7:] = np.nan
    found = paired.compare(*cells_of(a, b), Pool(), 0.95, 0)
    assert (found["n_plan_seeds"], found["n_episodes"]) == (2, 7)
    assert found["difference"] == pytest.approx(100 * (a[:, 1:, :7].mean() - b[:, 1:, :7].mean()))
    a[:, 1:] = b[:, 0] = np.nan
    a[:, 0, 0] = 1
    assert paired.compare(*cells_of(a, b), Pool(), 0.95, 0) is None


def test_a_difference_without_variation_still_has_an_interval():
    pair = pair_of(np.ones((2, 3, 50)), np.zeros((2, 3, 50)))
    low, high, kind = paired.contrast_interval([pair], Pool(), 0.95)
    assert (high, kind) == (100, "exact")
    assert 80 < low < 90


def test_a_sum_over_environments_is_the_root_of_the_sum_of_squares():
    rates = np.array([0.2, 0.9, 0.7, 0.3])[:, None, None]  # trainings differ beyond the noise
    one, other = (
        pair_of(random_outcomes(i, (4, 1, 80), rates), random_outcomes(i + 9, (4, 1, 80), 0.4)) for i in (0, 1)
    )
    elsewhere = dataclasses.replace(other, env="cube")
    errors = [paired.spread([c], Pool()).error for c in (one, elsewhere)]
    assert paired.spread([one, elsewhere], Pool()).error == pytest.approx(np.hypot(*errors))
    low, high, kind = paired.contrast_interval([one, elsewhere], Pool(), 0.95)
    assert (low + high) / 2 == pytest.approx(100 * (one.estimate + other.estimate))
    parts = [paired.contrast_interval([c], Pool(), 0.95) for c in (one, elsewhere)]
    apart = np.hypot(*(b - a for a, b, _ in parts))
    assert (0.6 * apart < high - low <= apart, kind) == (True, "student")  # together they have more degrees of freedom
    sure = dataclasses.replace(pair_of(np.ones((4, 1, 80)), np.zeros((4, 1, 80))), env="reacher")
    wide = paired.contrast_interval([one, sure], Pool(), 0.95)
    assert wide[2] == "exact"
    assert wide[0] < 100 * (one.estimate + 1) - (parts[0][1] - parts[0][0]) / 2


def test_cells_of_two_designs_are_not_compared():
    cells = summary.cells(
        rows_of(outcomes(np.ones((2, 1, 4)), design="main"), outcomes(np.ones((1, 2, 4)), design="protocol"))
    )
    assert [cell.id.endswith("/protocol") for cell in cells] == [False, True]
    with pytest.raises(UserError, match="rows of the designs main and protocol in one query .two_room/tdjepa/d_psi"):
        paired.contrast([(1, cells[0]), (-1, cells[1])])


def test_success_by_how_far_the_object_must_move_and_by_kind():
    pairs = pd.DataFrame({"episode": range(6), "start": 0, "to_move": [0.0, 4.9, 5.0, 69.0, 70.0, 300.0]})
    rows = pairs.assign(
        env="push_t", method="lewm", cost="l2", epoch=2, success=[True, False, True, True, False, False]
    )
    rows = pd.concat([rows.assign(kind=["expert", "wander"] * 3), rows.assign(epoch=1, success=True, kind="expert")])
    found = {entry["pairs"]: (entry["mean"], entry["n_pairs"]) for entry in moves.moves(rows)}
    ranges = {"0 to 5 px": (50.0, 2), "5 to 30 px": (100.0, 1), "30 to 70 px": (100.0, 1), "beyond 70 px": (0.0, 2)}
    assert found == ranges | {"from expert": (pytest.approx(200 / 3), 3), "from wander": (pytest.approx(100 / 3), 3)}
    assert moves.moves(rows.assign(env="two_room").drop(columns="kind")) == []
