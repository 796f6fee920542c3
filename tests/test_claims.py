"""The ledger of claims and the bands: checked input, known verdicts, the two protocols apart."""

import json

import numpy as np
import pytest
import yaml

from conftest import ROOT
from synthetic import everything, outcomes, write
from tdjepa import cli, params
from tdjepa.errors import UserError
from tdjepa.evidence import alignment, bands, claims, judge, published
from tdjepa.evidence.effects import Effect, Evidence
from tdjepa.params import ENVS, Judge

LEDGER = ROOT / "paper/claims.yaml"
SETTINGS = Judge(seed=1, bootstrap=200, level=0.95)
GAIN = [[1, {"method": "tdjepa", "cost": "d_psi"}], [-1, {"method": "lewm", "cost": "l2"}]]
NO_PAIRS = alignment.read([])


def claim(*tests, **more):
    return {"id": "c", "claim": "it is so", "place": "Table 2", "tests": list(tests), **more}


def verdicts(frame, *tests, pairs=NO_PAIRS, seed=3072):
    (found,) = claims.judge([claim(*tests)], Evidence(frame, pairs, 1, 200, 0.95), seed)
    return found


def two_methods(a, b):
    import pandas as pd

    return pd.concat([outcomes(a), outcomes(b, "lewm", "l2")], ignore_index=True)


@pytest.mark.parametrize(
    ("direction", "low", "high", "expected"),
    [
        ("above", 1, 3, "reproduced"),
        ("above", -1, 3, "inconclusive"),
        ("above", -3, -1, "contradicted"),
        ("below", -3, -1, "reproduced"),
        ("below", 1, 3, "contradicted"),
        ("not_below", -2, 3, "reproduced"),
        ("not_below", -2.1, 3, "inconclusive"),
        ("not_below", -5, -2.1, "contradicted"),
        ("near", 10, 20, "reproduced"),
        ("near", -1, 20, "inconclusive"),
        ("near", 1, 3, "contradicted"),
    ],
)
def test_what_an_interval_says(direction, low, high, expected):
    test = {"is": direction, "margin": 2, "size": 14.2}
    assert claims.verdict(Effect((low + high) / 2, low, high, None), test) == expected


def test_without_rows_or_without_spread_nothing_is_claimed():
    assert claims.verdict(None, {"is": "above"}) == "not run"
    assert claims.verdict(Effect(5.0, None, None, None), {"is": "above"}) == "inconclusive"


def test_one_good_training_convinces_the_papers_protocol_but_not_ours():
    """The first training is far better than the baseline, the others far worse: its plan seeds never show that."""
    rng = np.random.default_rng(0)
    a = (rng.random((3, 5, 50)) < np.array([0.95, 0.3, 0.4]).reshape(3, 1, 1)).astype(float)
    b = (rng.random((3, 5, 50)) < 0.6).astype(float)
    found = verdicts(two_methods(a, b), {"env": "two_room", "sum": GAIN, "is": "above"})
    assert found["paper"]["verdict"] == "reproduced"
    assert found["ours"]["verdict"] == "inconclusive"
    assert found["paper"]["effect"] == pytest.approx(100 * (a[0].mean() - b[0].mean()), abs=1e-3)
    assert found["ours"]["effect"] == pytest.approx(100 * (a.mean() - b.mean()), abs=1e-3)


def test_the_papers_interval_is_students_over_plan_seeds():
    from scipy import stats

    rng = np.random.default_rng(1)
    a, b = (rng.random((2, 6, 30)) < 0.8).astype(float), (rng.random((2, 6, 30)) < 0.5).astype(float)
    found = verdicts(two_methods(a, b), {"env": "two_room", "sum": GAIN, "is": "above"})["paper"]
    expected = stats.ttest_rel(a[0].mean(1), b[0].mean(1))
    interval = expected.confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((100 * interval.low, 100 * interval.high), abs=1e-3)
    assert found["p"] == pytest.approx(expected.pvalue, rel=1e-4)


def test_our_protocol_may_hold_an_ablation_against_another_reference():
    """The ablation beats the short full model and loses to the one that was trained as long."""
    import pandas as pd

    rng = np.random.default_rng(0)
    rates = {"tdjepa": 0.3, "tdjepa_no_hinge": 0.6, "tdjepa_continued": 0.95}
    frame = pd.concat([outcomes(rng.random((3, 5, 40)) < rate, m) for m, rate in rates.items()], ignore_index=True)
    full = {"method": "tdjepa", "cost": "d_psi", "ours": "tdjepa_continued"}
    test = {"env": "two_room", "sum": [[1, full], [-1, {"method": "tdjepa_no_hinge", "cost": "d_psi"}]], "is": "above"}
    found = verdicts(frame, test)
    assert (found["paper"]["verdict"], found["ours"]["verdict"]) == ("contradicted", "reproduced")
    assert found["paper"]["effect"] < 0 < found["ours"]["effect"]
    shown = (
        "two_room: tdjepa d_psi - tdjepa_no_hinge d_psi > 0 (ours: tdjepa_continued d_psi - tdjepa_no_hinge d_psi > 0)"
    )
    assert found["comparison"] == shown
    found = verdicts(frame[frame["method"] != "tdjepa_continued"], test)
    assert (found["paper"]["verdict"], found["ours"]["verdict"]) == ("contradicted", "not run")


def test_the_paper_took_its_main_checkpoint_as_the_full_model_of_its_ablations():
    for cost, printed in published.load()["ablations"]["rows"]["tdjepa"].items():
        if cost != "icem":
            rates = published.cell("push_t", "tdjepa", cost)["rates"][:3]
            assert [round(np.mean(rates), 1), round(np.std(rates, ddof=1), 1)] == printed


def test_of_several_tests_the_worst_decides():
    good, bad = np.ones((2, 3, 40)), np.zeros((2, 3, 40))
    above, below = ({"env": "two_room", "sum": GAIN, "is": d} for d in ("above", "below"))
    elsewhere = {"env": "cube", "sum": GAIN, "is": "above"}
    frame = two_methods(good, bad)
    assert verdicts(frame, above)["ours"]["verdict"] == "reproduced"
    assert verdicts(frame, above, below)["ours"]["verdict"] == "contradicted"
    assert verdicts(frame, above, elsewhere)["ours"]["verdict"] == "not run"
    assert [p["verdict"] for p in verdicts(frame, above, elsewhere)["ours"]["parts"]] == ["reproduced", "not run"]


def test_a_gap_between_strata_and_failures_by_phase():
    """Far starts: l2 wins everything; close starts: both do. All failures are after contact."""
    far = np.arange(40) % 2 == 1
    frame = two_methods(np.ones((2, 3, 40)), np.where(far, 0.0, 1.0) * np.ones((2, 3, 1)))
    frame["start_distance"] = np.where(frame["episode"] % 2 == 1, 100.0, 10.0)
    frame["contact"] = True
    terms = [[c * s, {**cell, "starts": name}] for name, s in (("far", 1), ("close", -1)) for c, cell in GAIN]
    found = verdicts(frame, {"env": "two_room", "sum": terms, "is": "above"})["ours"]
    assert (found["effect"], found["verdict"]) == (100, "reproduced")
    after = [[1, {"method": "lewm", "cost": "l2", "value": "after_contact"}]]
    before = [[1, {"method": "lewm", "cost": "l2", "value": "before_contact"}]]
    assert verdicts(frame, {"env": "two_room", "sum": after, "is": "above"})["ours"]["effect"] == 50
    assert verdicts(frame, {"env": "two_room", "sum": before, "is": "above"})["ours"]["effect"] == 0


def test_correlations_of_weighted_pairs_are_scipys():
    from scipy import stats

    rng = np.random.default_rng(0)
    x, tau = rng.normal(size=60).round(1), rng.integers(1, 9, 60)
    weights = rng.integers(0, 3, (3, 60))
    for row, found in zip(weights, alignment.correlation(x, tau, weights.astype(float)), strict=True):
        i = np.repeat(np.arange(60), row)
        assert found == pytest.approx(stats.spearmanr(x[i], tau[i]).statistic)


@pytest.fixture(scope="module")
def p():
    return params.load(ROOT / "params.yaml", "desk")


def test_every_claim_of_the_ledger_can_be_decided(p, tmp_path):
    rows, pairs = everything(tmp_path, p)
    found = claims.run(LEDGER, rows, pairs, tmp_path, SETTINGS, p.train_seeds[0])
    assert json.loads((tmp_path / "claims.json").read_text()) == found
    epochs = {"two_room_epochs"}  # needs an epoch curve
    for entry in found:
        assert {"id", "claim", "place", "comparison", "paper", "ours"} <= set(entry)
        for protocol in ("paper", "ours"):
            assert {"verdict", "effect", "low", "high", "p"} <= set(entry[protocol])
            assert entry["id"] in epochs or entry[protocol]["verdict"] != "not run", entry["id"]
    by_id = {entry["id"]: entry["ours"]["verdict"] for entry in found}
    assert by_id["cube_gain"] == by_id["gap_to_lewm"] == by_id["calibrated"] == "reproduced"
    assert "reproduced" in claims.terminal(found)


def test_from_nothing_every_claim_is_not_run(tmp_path):
    found = claims.run(LEDGER, [], [], tmp_path, SETTINGS)
    assert {entry[protocol]["verdict"] for entry in found for protocol in ("paper", "ours")} == {"not run"}
    assert len(found) >= 25


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda c: c.pop("place"), "id, claim, place and tests are expected"),
        (lambda c: c["tests"][0].update({"env": "atari"}), "env 'atari' is not one of"),
        (lambda c: c["tests"][0].update({"is": "bigger"}), "is 'bigger' is not one of"),
        (lambda c: c["tests"][0]["sum"][0][1].update({"costs": "l2"}), "unknown key 'costs'"),
        (lambda c: c["tests"][0].update({"is": "near"}), "near needs a size"),
        (lambda c: c["tests"][0]["sum"][0][1].update({"value": "luck"}), "value 'luck'"),
    ],
)
def test_a_bad_ledger_is_named(tmp_path, spoil, expected):
    entry = json.loads(json.dumps(claim({"env": ENVS[0], "sum": GAIN, "is": "above"})))
    spoil(entry)
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump([entry]))
    with pytest.raises(UserError, match=f"claims.yaml: c: .*{expected}|claims.yaml: c: {expected}") as error:
        claims.read(path)
    assert "\n" not in str(error.value)


# Bands ----------------------------------------------------------------------------------------------------------------


def stats_of(tmp_path, success):
    frames = [outcomes(success), outcomes(np.zeros((1, 3, 50)), "random")]
    files = [write(tmp_path / f"{i}.parquet", frame) for i, frame in enumerate(frames)]
    return judge.run(files, tmp_path / "evidence", SETTINGS)


def test_bands_hold_their_own_results_and_refuse_others(tmp_path):
    success = (np.random.default_rng(0).random((3, 3, 50)) < 0.8).astype(float)
    stats = stats_of(tmp_path, success)
    path = tmp_path / "bands.yaml"
    bands.write(stats, path)
    results = bands.verify(stats, bands.read(path))
    assert [result for result, *_ in results] == ["pass", "pass"]
    worse = json.loads(json.dumps(stats))
    worse["cells"][1]["mean"] = 5.0
    assert sorted(result for result, *_ in bands.verify(worse, bands.read(path))) == ["FAIL", "pass"]
    assert [r for r, *_ in bands.verify({"cells": []}, bands.read(path))] == ["not run", "not run"]
    band = bands.read(path)["two_room/random/none/none/w1/epoch0"]
    assert (band["low"], band["high"]) == (0, 2)  # one episode of fifty


def test_a_bands_half_width_is_the_stated_rule(tmp_path):
    from scipy import stats as scipy_stats

    success = np.zeros((3, 3, 50))
    success[0, :, :20] = success[1, :, :25] = success[2, :, :30] = 1  # 40, 50, 60 %
    band = bands.bands(stats_of(tmp_path, success))["two_room/tdjepa/d_psi/icem/w1/epoch2"]
    half = scipy_stats.t.ppf(0.995, 2) * 10 * np.sqrt(2 / 3)
    assert (band["low"], band["high"]) == (max(0, round(50 - half, 1)), min(100, round(50 + half, 1)))


def test_verify_says_pass_or_fail_and_exits_with_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    stats = stats_of(tmp_path, (np.random.default_rng(0).random((3, 3, 50)) < 0.8).astype(float))
    place = tmp_path / "results/desk/evidence/stats.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(stats))
    assert cli.main(["verify", "--scale", "desk"]) == 2
    assert "no bands are committed" in capsys.readouterr().err
    assert cli.main(["verify", "--scale", "desk", "--write"]) == 0
    assert cli.main(["verify", "--scale", "desk"]) == 0
    assert "2 of 2 cells as expected" in capsys.readouterr().out
    stats["cells"][0]["mean"] = 50.0
    place.write_text(json.dumps(stats))
    assert cli.main(["verify", "--scale", "desk"]) == 1
    assert "FAIL" in capsys.readouterr().out
