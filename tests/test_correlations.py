"""Correlations of costs with the step gap: scipy's, and one factor per set of checkpoints."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from synthetic import outcomes, write
from tdjepa.base.errors import UserError
from tdjepa.evidence import alignment, claims, headlines, ledger
from tdjepa.evidence.effects import Evidence

COSTS = [[1, {"method": "tdjepa", "rank": "d_psi"}], [-1, {"method": "tdjepa", "rank": "l2"}]]


def verdict_of(terms, pairs):
    test = {"env": "push_t", "sum": terms, "is": "above", "bound": 0, "margin": 0.05}
    words = {"id": "c", "theme": "time", "short": "it is so", "claim": "It is so.", "place": "Table 2"}
    declared = ledger.Ledger([{**words, "tests": [test]}], {}, {"time": "Time"}, ())
    return claims.judge(declared, Evidence(outcomes(np.ones((1, 1, 2))), pairs, 1, 200, 0.95), 3072)[0]


def test_correlations_are_printed_with_three_digits():
    pairs = made_up_pairs([[[1, 2, 3], [20, 13, 8]], [[1, 9, 20], [9, 1, 20]]])
    found = verdict_of(COSTS, pairs)
    assert f"{found['effect']:+.3f} [{found['low']:+.3f}, " in headlines.numbers(found)


def made_up_pairs(noise):
    """Pairs of three trainings of two methods; noise (2, 2, 3) by method, cost and training."""
    rng = np.random.default_rng(0)
    tau, frames = rng.integers(1, 26, 300), []
    for method, by_cost in zip(("tdjepa", "lewm"), noise, strict=True):
        for seed, (of_d_psi, of_l2) in enumerate(zip(*by_cost, strict=True)):
            measures = {"d_psi": tau + of_d_psi * rng.normal(size=300), "l2": tau + of_l2 * rng.normal(size=300)}
            key = {"env": "push_t", "method": method, "train_seed": seed, "episode": np.arange(300) // 6}
            frames.append(pd.DataFrame({**key, "tau": tau, "near": True, "far": True, **measures}))
    return pd.concat(frames)


def test_two_costs_of_one_checkpoint_are_one_factor():
    """Three checkpoints give two degrees of freedom, however many costs are measured on them; two methods give up to four."""
    pairs, freedom = made_up_pairs([[[1, 9, 20], [20, 3, 8]], [[1, 9, 20], [9, 1, 20]]]), []
    for terms in (COSTS, [COSTS[0], [-1, {"method": "lewm", "rank": "l2"}]]):
        found = verdict_of(terms, pairs)
        assert (found["n_train"], found["n_plan"], found["unit"]) == (3, None, "ρ")
        freedom.append(found["freedom"])
    ranks = alignment.spearman(pairs).query("split == 'all' and method == 'tdjepa'")
    rho = ranks.pivot(columns="measure", index="train_seed")["rho"]
    found = verdict_of(COSTS, pairs)
    assert found["effect"] == pytest.approx((rho["d_psi"] - rho["l2"]).mean(), rel=1e-4)
    assert found["error"] == pytest.approx((rho["d_psi"] - rho["l2"]).std(ddof=1) / np.sqrt(3), rel=0.1)
    assert freedom[0] == pytest.approx(2, abs=0.3)
    assert 2 < freedom[1] <= 4.3


def test_pairs_without_episodes_are_refused(tmp_path):
    path = write(tmp_path / "pairs.parquet", made_up_pairs(np.ones((2, 2, 3))).drop(columns="episode"))
    with pytest.raises(UserError, match="pairs.parquet: missing episode"):
        alignment.read([path])


def test_correlations_of_weighted_pairs_are_scipys():
    rng = np.random.default_rng(0)
    x, tau = rng.normal(size=60).round(1), rng.integers(1, 9, 60)
    weights = rng.integers(0, 3, (3, 60))
    for row, found in zip(weights, alignment.correlation(x, tau, weights.astype(float)), strict=True):
        i = np.repeat(np.arange(60), row)
        assert found == pytest.approx(stats.spearmanr(x[i], tau[i]).statistic)
