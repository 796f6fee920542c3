"""Bands of expected results: the stated rule, all of them together, and what `tdjepa verify` says."""

import json

import numpy as np
import pytest
from scipy import stats as scipy_stats

from conftest import ROOT
from synthetic import outcomes, write
from tdjepa import cli
from tdjepa.base.errors import UserError
from tdjepa.config.records.evidence import Judge
from tdjepa.evidence import bands, judge

SETTINGS = Judge(seed=1, bootstrap=200, level=0.95)


def stats_of(tmp_path, success):
    frames = [outcomes(success), outcomes(np.zeros((1, 3, 50)), "random")]
    files = [write(tmp_path / f"{i}.parquet", frame) for i, frame in enumerate(frames)]
    return judge.run(files, tmp_path / "evidence", SETTINGS)


def test_bands_hold_their_own_results_and_refuse_others(tmp_path):
    success = (np.random.default_rng(0).random((3, 3, 50)) < 0.8).astype(float)
    stats = stats_of(tmp_path, success)
    bands.write(stats, tmp_path / "bands.yaml")
    expected = bands.read(tmp_path / "bands.yaml")
    assert [result for result, *_ in bands.verify(stats, expected)] == ["pass", "pass"]
    stats["cells"][1]["mean"] = 5.0
    assert sorted(result for result, *_ in bands.verify(stats, expected)) == ["FAIL", "pass"]
    assert [result for result, *_ in bands.verify({"cells": []}, expected)] == ["not run", "not run"]
    band = expected["two_room/random/none/none/w1/epoch0"]
    assert (band["low"], band["high"]) == (0, 2)  # one episode of fifty


def test_a_bands_half_width_is_the_stated_rule(tmp_path):
    success = np.zeros((3, 3, 50))
    success[0, :, :20] = success[1, :, :25] = success[2, :, :30] = 1  # 40, 50, 60 %
    band = bands.bands(stats_of(tmp_path, success))["two_room/tdjepa/d_psi/icem/w1/epoch2"]
    half = scipy_stats.t.ppf(0.995, 2) * 10 * np.sqrt(2 / 3)
    assert (band["low"], band["high"]) == (max(0, round(50 - half, 1)), min(100, round(50 + half, 1)))


def made_up_cell(method, env="cube", std=10.0):
    key = {"id": f"{env}/{method}", "env": env, "method": method, "setting": "main", "epoch": 10}
    return key | {"mean": 50.0, "n_train_seeds": 3, "std_train_seeds": std, "n_episodes": 50}


def test_all_bands_hold_together_and_leaky_trainings_are_not_pooled():
    """A new run of four cells on the same footing: some band is missed in at most one of a hundred runs."""
    cells = [made_up_cell(m) for m in ("lewm", "tdjepa", "rc_aux")] + [made_up_cell("tdjepa_leaky", std=40.0)]
    found = bands.bands({"cells": [*cells, made_up_cell("random", std=None)]})
    half = scipy_stats.t.ppf(1 - 0.01 / 4 / 2, 6) * 10 * np.sqrt(2 / 3)
    same = {(band["low"], band["high"]) for name, band in found.items() if name != "cube/random"}
    assert same == {(round(50 - half, 1), round(50 + half, 1))}
    rng, level, runs = np.random.default_rng(0), bands.simultaneous(40), 2000
    t = scipy_stats.t.ppf((1 + level) / 2, 80)
    trainings = rng.normal(size=(runs, 2, 40, 3))
    s = np.sqrt(trainings[:, 0].var(2, ddof=1).mean(1, keepdims=True))
    outside = np.abs(np.subtract(*trainings.mean(3).swapaxes(0, 1))) > t * s * np.sqrt(2 / 3)
    assert 0.002 < outside.any(1).mean() <= 0.015


def test_a_cell_without_a_band_is_named_and_is_no_pass():
    old, new = made_up_cell("lewm"), made_up_cell("new_method")
    sweep, early = {**new, "id": "sweep", "setting": "blend"}, {**new, "id": "early", "epoch": 5}
    results = bands.verify({"cells": [old, new, sweep, early]}, bands.bands({"cells": [old]}))
    assert [(result, name) for result, name, *_ in results] == [("pass", "cube/lewm"), ("no band", "cube/new_method")]
    text = bands.report(results).splitlines()
    assert text[1].split() == ["no", "band", "cube/new_method", "50.0"]
    assert text[2] == "1 of 2 cells as expected, 1 without a band"


def test_methods_on_request_are_expected_where_they_were_run(smoke):
    expected = {f"two_room/{m}/l2/cem/w1/epoch2": {} for m in ("lewm", "lewm_original")}
    assert list(bands.of_run(expected, smoke, {"cells": []})) == ["two_room/lewm/l2/cem/w1/epoch2"]
    assert bands.of_run(expected, smoke, {"cells": [{"method": "lewm_original"}]}) == expected


def test_verify_says_pass_or_fail_and_exits_with_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    stats = stats_of(tmp_path, (np.random.default_rng(0).random((3, 3, 50)) < 0.8).astype(float))
    place = tmp_path / "results/desk/evidence/stats.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(stats))
    assert cli.main(["verify", "--scale", "desk"]) == 2
    assert "nothing of scale desk was run here; `make reproduce SCALE=desk` runs it" in capsys.readouterr().err
    write(tmp_path / "results/desk/rows/two_room/floors.parquet", outcomes(np.ones((1, 1, 2)), "random"))
    assert cli.main(["verify", "--scale", "desk"]) == 2
    assert "no bands are committed" in capsys.readouterr().err
    assert cli.main(["verify", "--scale", "desk", "--write"]) == 0
    assert cli.main(["verify", "--scale", "desk"]) == 0
    assert "2 of 2 cells as expected" in capsys.readouterr().out
    stats["cells"][0]["mean"] = 50.0
    place.write_text(json.dumps(stats))
    assert cli.main(["verify", "--scale", "desk"]) == 1
    assert "FAIL" in capsys.readouterr().out
    stats["cells"].append({**stats["cells"][1], "id": "two_room/another", "method": "another"})
    stats["cells"][0]["mean"] = 0.0
    place.write_text(json.dumps(stats))
    assert cli.main(["verify", "--scale", "desk"]) == 1
    assert "2 of 3 cells as expected, 1 without a band" in capsys.readouterr().out


def test_a_scale_with_checksums_and_no_bands_is_compared_byte_for_byte(monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError, match="no bands are committed.*`tdjepa verify --bytes --scale smoke`"):
        bands.read(ROOT / "workflow/bands/smoke.yaml")
