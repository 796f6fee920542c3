"""Rows in, statistics out: bad files are named, every pattern of missing rows can be judged, the same bytes twice."""

import json
import re

import numpy as np
import pytest

from synthetic import PAIRS, outcomes, random_outcomes, rows_of, write
from tdjepa.base.errors import UserError
from tdjepa.config.records.evidence import Judge
from tdjepa.evidence import contact, judge, rows

SETTINGS = Judge(seed=1, bootstrap=300, level=0.95)


def test_rows_come_back_whatever_the_order_of_files_and_extra_columns(tmp_path):
    frame = outcomes(random_outcomes(0, (2, 3, 6)), pairs=PAIRS)
    whole = write(tmp_path / "whole.parquet", frame)
    halves = [write(tmp_path / f"{i}.parquet", frame.iloc[i::2].assign(extra=i)) for i in (1, 0)]
    assert rows.read(halves).equals(rows.read([whole]))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda f: f.drop(columns=["cost", "w"]), "missing columns cost, w"),
        (lambda f: f.assign(success=f["success"].astype(int)), "column success holds int64, but booleans"),
        (lambda f: f.assign(plan_seed=f["plan_seed"] * 1.0), "column plan_seed holds double, but whole numbers"),
        (lambda f: f.assign(w=1), "column w holds int64, but floating-point"),
        (lambda f: f.assign(w=float("nan")), "column w has empty values"),
        (lambda f: f.assign(env="atari"), "column env holds 'atari'"),
        (lambda f: f.iloc[:0], "no rows"),
        (lambda f: f.iloc[[0, 1, 0]], "the same row twice (env two_room, method tdjepa, solver icem"),
    ],
)
def test_a_bad_rows_file_is_named_in_one_line(tmp_path, spoil, expected):
    path = write(tmp_path / "bad.parquet", spoil(outcomes(np.ones((1, 2, 3)))))
    refused("^" + re.escape(f"{path}: {expected}"), path)


def refused(message, *files):
    with pytest.raises(UserError, match=message) as error:
        rows.read(files)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read_or_do_not_go_together_are_refused(tmp_path):
    (tmp_path / "text.parquet").write_text("not parquet")
    refused("text.parquet: not a readable parquet file", tmp_path / "text.parquet")
    refused("absent.parquet: no such file", tmp_path / "absent.parquet")
    frame = outcomes(np.ones((1, 1, 2)))
    a, b = write(tmp_path / "a.parquet", frame), write(tmp_path / "b.parquet", frame)
    refused("a.parquet and .*b.parquet: the same row twice", a, b)
    refused("several scales", a, write(tmp_path / "c.parquet", frame.assign(scale="desk", epoch=1)))


@pytest.mark.parametrize(
    ("column", "first", "second", "expected"),
    [
        ("manifest", "ab", "cd", "several manifests.*two_room.*manifest ab .*manifest cd"),
        ("refinements", 10, 30, "planned in several ways.*refinements 10 .*refinements 30"),
    ],
)
def test_mixed_manifests_and_mixed_protocols_are_refused(tmp_path, column, first, second, expected):
    frame = outcomes(np.ones((1, 2, 3)))
    half = frame["plan_seed"] == 7
    a = write(tmp_path / "a.parquet", frame[half].assign(**{column: first}))
    refused(expected, a, write(tmp_path / "b.parquet", frame[~half].assign(**{column: second})))
    rows.read([a, write(tmp_path / "c.parquet", frame[half].assign(**{column: second}, setting="sweep"))])


def test_a_misspelled_column_is_named_and_others_are_listed(tmp_path):
    frame = outcomes(np.ones((1, 1, 2))).assign(settings="blend", plan_time=1.0)
    refused("unknown column settings: setting is what", write(tmp_path / "a.parquet", frame))
    good = write(tmp_path / "b.parquet", frame.drop(columns="settings"))
    rows.read([good])
    assert rows.unused_columns([good]) == ["plan_time"]


def test_an_episode_without_a_row_or_a_phase_is_no_success():
    """Forty episodes, half of them fail after contact; a quarter of one run is lost, the phases of another's quarter too."""
    frame = outcomes(np.broadcast_to(np.arange(40) % 2 == 0, (2, 2, 40))).assign(contact=True)
    (whole,) = contact.phases(frame)
    assert (whole["before"], whole["after"], whole["after_std"], whole["n_missing"]) == (0, 20, 0, 0)
    quarter = (frame["train_seed"] == 3072) & (frame["episode"] < 10) & (frame["plan_seed"] == 7)
    unknown = frame.assign(contact=frame["contact"].astype(object).mask(quarter))
    for some in (frame[~quarter], unknown):
        (found,) = contact.phases(some)
        assert (found["after"], found["after_std"], found["n_missing"]) == (20, 0, 10)


def some_files(folder):
    frames = [
        outcomes(random_outcomes(1, (2, 3, 30), 0.7)),
        outcomes(random_outcomes(2, (2, 3, 30), 0.5), "lewm", "l2"),
    ]
    frames.append(outcomes(random_outcomes(3, (1, 3, 30), 0.2), "random"))
    return [write(folder / f"{i}.parquet", frame) for i, frame in enumerate(frames)]


def test_judge_writes_what_the_design_promises(tmp_path):
    found = judge.run(some_files(tmp_path), tmp_path / "out", SETTINGS)
    assert json.loads((tmp_path / "out/stats.json").read_text()) == found
    assert len(found["cells"]) == len(found["comparisons"]) == 3
    wanted = "env method solver cost w epoch mean std low high interval n_train_seeds n_plan_seeds n_episodes"
    assert all(set(wanted.split()) <= set(cell) for cell in found["cells"])
    wanted = "env a b difference low high t p_t p_permutation"
    assert all(set(wanted.split()) <= set(comparison) for comparison in found["comparisons"])
    assert not any({"p_mcnemar", "p_holm"} & set(comparison) for comparison in found["comparisons"])
    ids = {cell["id"] for cell in found["cells"]}
    assert {c[side] for c in found["comparisons"] for side in "ab"} == ids
    assert "two_room/tdjepa/d_psi/icem/w1/epoch2" in ids
    by_method = {cell["method"]: cell for cell in found["cells"]}
    excess = by_method["lewm"]["mean"] - by_method["random"]["mean"]
    assert by_method["lewm"]["excess_over_random"] == pytest.approx(excess, abs=1e-3)
    lines = (tmp_path / "out/cells.csv").read_text().splitlines()
    assert lines[0].startswith("id,env,method,solver,cost,w,epoch,mean,std,low,high")
    assert len(lines) == 4
    means = {(c["env"], c["method"], c["cost"]): c["mean"] for c in found["cells"]}
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    assert means == {(e, m, c): mean for e, of in metrics.items() for m, by in of.items() for c, mean in by.items()}


def test_metrics_are_of_the_protocol_and_the_last_epoch():
    cell = {"env": "e", "method": "m", "cost": "l2", "design": "main", "setting": "main"}
    last = {**cell, "epoch": 10, "mean": 3.0}
    cells = [last, {**last, "epoch": 2, "mean": 1.0}, {**last, "mean": 9.0, "setting": "blend"}]
    cells.append({**last, "mean": 8.0, "design": "protocol"})
    assert judge.metrics({"cells": cells}) == {"e": {"m": {"l2": 3.0}}}


def test_judge_gives_the_same_bytes_and_floors_change_nothing(tmp_path):
    files = some_files(tmp_path)
    judge.run(files, tmp_path / "a", SETTINGS)
    judge.run(files[::-1], tmp_path / "b", SETTINGS)
    for name in ("stats.json", "cells.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    alone = judge.run(files[:1], tmp_path / "c", SETTINGS)["cells"][0]
    with_floor = next(c for c in judge.run(files[::2], tmp_path / "d", SETTINGS)["cells"] if c["method"] == "tdjepa")
    assert (alone["low"], alone["high"]) == (with_floor["low"], with_floor["high"])
    assert alone["excess_over_random"] is None
    among = next(c for c in judge.run(files, tmp_path / "e", SETTINGS)["cells"] if c["method"] == "tdjepa")
    assert among["high"] - among["low"] < alone["high"] - alone["low"]  # two trainings learn from another method's


def test_stats_hold_no_nan(tmp_path):
    judge.run([write(tmp_path / "one.parquet", outcomes([[[1.0]]]))], tmp_path / "one", SETTINGS)
    assert json.loads((tmp_path / "one/stats.json").read_text())["cells"][0]["std"] is None
    assert "NaN" not in (tmp_path / "one/stats.json").read_text()


def test_an_epoch_curve_and_a_sweep_are_compared_with_the_protocol_only(tmp_path):
    files = some_files(tmp_path)
    curve = [outcomes(random_outcomes(9 + e, (1, 1, 30), 0.3), epoch=e, plan_seeds=[7]) for e in range(2)]
    sweep = [outcomes(random_outcomes(5, (1, 1, 30)), cost="blend", setting="blend", alpha=a) for a in (0.0, 0.5)]
    more = [write(tmp_path / f"more_{i}.parquet", frame) for i, frame in enumerate([*curve, *sweep])]
    alone, among = (judge.run(f, tmp_path / "out", SETTINGS) for f in (files, files + more))
    assert len(among["comparisons"]) == len(alone["comparisons"]) + 2 * 2 + 1 + 2 * 4 + 1
    assert "two_room/tdjepa/blend/icem/w1/epoch2/blend/alpha0.5" in {c["id"] for c in among["cells"]}


def test_settings_that_no_column_shows_stay_apart():
    success = random_outcomes(0, (1, 2, 5))
    frames = [outcomes(success, setting="corrected", planner=planner) for planner in ("abcdefgh", "x")]
    ids = [cell["id"] for cell in judge.judge(rows_of(*frames), SETTINGS)["cells"]]
    assert [name.split("/")[-1] for name in ids] == ["abcdef", "x"]


def test_cells_say_what_is_missing_and_hold_the_rate_of_each_seed():
    success = random_outcomes(1, (2, 3, 4))
    success[1, 2, 3] = np.nan
    (cell,) = judge.judge(outcomes(success, plan_seeds=[7, 11, 13]), SETTINGS)["cells"]
    assert cell["n_missing"] == 1
    assert cell["rates"][0] == pytest.approx(100 * success[0].mean(1), abs=1e-3)
    assert (cell["train_seeds"], len(cell["plan_seeds"])) == ([3072, 3073], 3)


def test_missing_and_single_trainings_are_named(tmp_path, capsys):
    frames = [
        outcomes(random_outcomes(i, (n, 1, 9)), m, c) for i, (m, c, n) in enumerate((("a", "l2", 3), ("a", "d_psi", 2)))
    ]
    frames.append(outcomes(random_outcomes(5, (1, 1, 9)), "b", "l2"))
    files = [write(tmp_path / f"{i}.parquet", frame) for i, frame in enumerate(frames)]
    stats = judge.run(files, tmp_path / "out", SETTINGS)
    found = {cell["id"].split("/", 1)[1]: judge.incomplete(cell) for cell in stats["cells"]}
    assert found["a/l2/icem/w1/epoch2"] == []
    assert found["a/d_psi/icem/w1/epoch2"] == ["trainings 3074 are missing, which other cells of a have"]
    assert "a single training" in found["b/l2/icem/w1/epoch2"][0]
    by_name = {(c["a"].split("/")[1], c["b"].split("/")[1]): c["n_train_seeds"] for c in stats["comparisons"]}
    assert by_name == {("a", "a"): 2, ("a", "b"): 1}


def test_rounding_keeps_small_p_values():
    rounded = {"p": 1.23457e-20, "x": [None, 0.0], "n": 3}
    assert judge.rounded({"p": 1.23456789e-20, "x": [float("nan"), -0.0], "n": 3}) == rounded


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(15))
def test_any_pattern_of_missing_rows_can_be_judged(seed):
    rng, frames = np.random.default_rng(seed), []
    for method, cost in [("tdjepa", "d_psi"), ("tdjepa", "l2"), ("lewm", "l2"), ("random", "none")]:
        t, p, e = 1 if cost == "none" else rng.integers(1, 4), rng.integers(1, 4), rng.integers(1, 7)
        success = (rng.random((t, p, e)) < rng.choice([0, 0.5, 1])).astype(float)
        success[rng.random(success.shape) < rng.choice([0, 0.6])] = np.nan
        success[0, 0, 0] = 1
        seeds = {"train_seeds": rng.choice(5, t, replace=False), "plan_seeds": rng.choice(4, p, replace=False)}
        frames.append(outcomes(success, method, cost, pairs=[(i // 2, i) for i in range(e)], **seeds))
    found = judge.judge(rows_of(*frames), SETTINGS)
    json.dumps(found, allow_nan=False)
    assert all(0 <= c["low"] <= c["mean"] <= c["high"] <= 100 for c in found["cells"])
    assert all(-100 <= c["low"] <= c["difference"] <= c["high"] <= 100 for c in found["comparisons"])
