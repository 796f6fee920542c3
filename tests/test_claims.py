"""The ledger of claims and the bands: checked input, known verdicts, the two protocols apart."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from conftest import ROOT
from synthetic import everything, outcomes, planned
from tdjepa.base.errors import UserError
from tdjepa.config.load import load
from tdjepa.config.records.base import ENVS
from tdjepa.config.records.evidence import Judge
from tdjepa.config.slices import evaluate_slice
from tdjepa.evidence import alignment, claims, effects, ledger, paired, rows
from tdjepa.evidence.columns import PLANNER
from tdjepa.evidence.effects import Effect, Evidence
from tdjepa.report import phrases

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
    return pd.concat([outcomes(a), outcomes(b, "lewm", "l2")], ignore_index=True)


@pytest.mark.parametrize(
    ("direction", "reproduced", "inconclusive", "contradicted"),
    [
        ("above", (1, 3), (-1, 3), (-3, -1)),
        ("below", (-3, -1), (-1, 3), (1, 3)),
        ("at_least", (14.2, 20), (14.1, 20), (5, 14.1)),
        ("at_most", (5, 14.2), (5, 14.3), (14.3, 20)),
        ("near", (10, 20), (-1, 20), (1, 3)),
    ],
)
def test_what_an_interval_says(direction, reproduced, inconclusive, contradicted):
    test = {"is": direction, **({"size": 14.2} if direction in ledger.SIZED else {})}
    for protocol in ("ours", "paper"):
        intervals = (reproduced, inconclusive, contradicted)
        found = [claims.verdict(Effect(sum(i) / 2, *i, None, n_train=2), test, protocol) for i in intervals]
        assert found == ["reproduced", "inconclusive", "contradicted"]


def test_without_rows_or_without_spread_nothing_is_claimed():
    assert claims.verdict(None, {"is": "above"}, "paper") == "not run"
    assert claims.verdict(Effect(5.0, None, None, None), {"is": "above"}, "paper") == "inconclusive"
    assert effects.student_interval(np.array([4.0, 4.0]), 0.95) == (None, None)
    assert effects.student_interval(np.array([4.0, 6.0]), 0.95) == pytest.approx((5 - 12.7062, 5 + 12.7062), abs=1e-3)
    assert effects.student_interval(np.array([100.0, 100.0, 100.0]), 0.95) == (None, None)  # no width of zero


@pytest.mark.parametrize("direction", ["above", "below"])
def test_one_training_decides_nothing_under_our_protocol(direction):
    """Every episode of every plan seed says the same, and yet another training might not."""
    frames = [two_methods(np.ones((n, 3, 40)), np.zeros((3, 3, 40))) for n in (1, 2)]
    found, two = (verdicts(frame, {"env": "two_room", "sum": GAIN, "is": direction}) for frame in frames)
    ours = found["ours"]
    assert (ours["verdict"], ours["note"], ours["n_train"], ours["n_plan"]) == ("inconclusive", "one training", 1, 3)
    assert (ours["effect"], ours["p"], ours["p_holm"]) == (100, None, None)
    assert ours["low"] > 0  # the interval is shown, for this training
    assert ", one training" in claims.terminal([found])
    assert phrases.effect_text(found["ours"], 1).endswith(", one training")  # in the table and on the page
    assert two["ours"]["verdict"] == {"above": "reproduced", "below": "contradicted"}[direction]
    assert "one training" not in claims.terminal([two])


def test_a_p_is_the_deciding_tests_and_only_of_a_difference():
    """Push-T is clear and contradicts, Two-Room is not clear: an interval below zero stands beside its own p."""
    rng = np.random.default_rng(3)
    clear = two_methods(np.zeros((3, 3, 40)), np.ones((3, 3, 40))).assign(env="push_t")
    frame = pd.concat([clear, two_methods(rng.random((3, 3, 40)) < 0.5, rng.random((3, 3, 40)) < 0.5)])
    tests = [{"env": env, "sum": GAIN, "is": "above"} for env in ("two_room", "push_t")]
    ours = verdicts(frame, *tests)["ours"]
    assert (ours["verdict"], ours["effect"]) == ("contradicted", -100)
    assert ours["p"] == ours["parts"][1]["p"] < 0.01 < ours["parts"][0]["p"]
    turned = [{**test, "is": "below"} for test in tests[1:]] + [{**tests[1], "is": "below", "env": "push_t"}]
    both = verdicts(frame, *turned)["ours"]
    assert (both["verdict"], both["p"]) == ("reproduced", max(part["p"] for part in both["parts"]))
    for sized in ({"is": "at_least", "size": -2}, {"is": "near", "size": 14.2}, {"is": "at_most", "size": 5}):
        found = verdicts(frame, {"env": "push_t", "sum": GAIN, **sized})
        assert (found["paper"]["p"], found["ours"]["p"], found["ours"]["p_holm"]) == (None, None, None)


def test_of_equal_verdicts_the_least_clear_decides_whatever_its_unit():
    """A correlation of 0.2 within 0.01 is far clearer than 10 points within 12."""
    rho, points = Effect(0.2, 0.19, 0.21, None), Effect(10.0, -2.0, 22.0, None)
    above, below = {"is": "above"}, {"is": "below"}
    assert claims.clearance(rho, above) == pytest.approx(20)
    assert claims.clearance(points, above) == pytest.approx(10 / 12) == -claims.clearance(points, below)
    assert claims.clearance(points, {"is": "at_least", "size": -2}) == pytest.approx(1)
    tests = [{**above, "sum": [[1, {"rank": "d_psi"}]]}, {**above, "sum": [[1, {"cost": "l2"}]]}]
    sure = Effect(10.0, 1.0, 19.0, 0.01, 3, 3)
    assert claims._decide(tests, [rho, sure], [rho, sure], "ours")["unit"] == "points"
    assert ledger.unit({"sum": [[1, {"rise": "d_psi"}]]}) == "d_ψ"


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
    rng = np.random.default_rng(0)
    rates = {"tdjepa": 0.3, "tdjepa_no_hinge": 0.6, "tdjepa_continued": 0.95}
    frame = pd.concat([outcomes(rng.random((3, 5, 40)) < rate, m) for m, rate in rates.items()], ignore_index=True)
    full = {"method": "tdjepa", "cost": "d_psi", "ours": "tdjepa_continued"}
    test = {"env": "two_room", "sum": [[1, full], [-1, {"method": "tdjepa_no_hinge", "cost": "d_psi"}]], "is": "above"}
    found = verdicts(frame, test)
    assert (found["paper"]["verdict"], found["ours"]["verdict"]) == ("contradicted", "reproduced")
    assert found["paper"]["effect"] < 0 < found["ours"]["effect"]
    ours = "(ours: tdjepa_continued d_psi - tdjepa_no_hinge d_psi > 0)"
    assert found["comparison"] == f"two_room: tdjepa d_psi - tdjepa_no_hinge d_psi > 0 {ours}"
    found = verdicts(frame[frame["method"] != "tdjepa_continued"], test)
    assert (found["paper"]["verdict"], found["ours"]["verdict"]) == ("contradicted", "not run")


def test_of_several_tests_the_worst_decides():
    good, bad = np.ones((2, 3, 40)), np.zeros((2, 3, 40))
    above, below = ({"env": "two_room", "sum": GAIN, "is": d} for d in ("above", "below"))
    elsewhere = {"env": "cube", "sum": GAIN, "is": "above"}
    frame = two_methods(good, bad)
    assert verdicts(frame, above)["ours"]["verdict"] == "reproduced"
    assert verdicts(frame, above, below)["ours"]["verdict"] == "contradicted"
    assert verdicts(frame, above, elsewhere)["ours"]["verdict"] == "not run"
    assert [p["verdict"] for p in verdicts(frame, above, elsewhere)["ours"]["parts"]] == ["reproduced", "not run"]


def test_one_of_several_tests_contradicts_a_claim_only_at_the_level_of_all():
    """The interval of the difference lies below zero at 95 %, but not at 98.75 %."""
    rng = np.random.default_rng(2)
    frame = two_methods(rng.random((3, 3, 50)) < 0.5, rng.random((3, 3, 50)) < 0.66)
    test = {"env": "two_room", "sum": GAIN, "is": "above"}
    alone, among = verdicts(frame, test)["ours"], verdicts(frame, *[test] * 4)["ours"]
    assert (alone["verdict"], alone["note"]) == ("contradicted", "")
    assert (among["verdict"], among["note"]) == ("inconclusive", "one of 4 tests")
    assert (among["low"], among["high"]) == (alone["low"], alone["high"])
    strict = claims.together(Evidence(frame, NO_PAIRS, 1, 200, 0.95), 4)
    assert strict.level == pytest.approx(0.9875)
    assert claims._effects(strict, test, 3072)[1].high > 0 > alone["high"]
    clear = two_methods(np.zeros((3, 3, 50)), np.ones((3, 3, 50)))
    assert verdicts(clear, *[test] * 4)["ours"]["verdict"] == "contradicted"


def test_holm_corrects_over_all_tests_of_all_claims():
    """A claim shows one p, picked among its parts': picked ones alone would count too few tests."""
    rng = np.random.default_rng(5)
    frames = [two_methods(rng.random((3, 3, 40)) < 0.6, rng.random((3, 3, 40)) < r) for r in (0.5, 0.4, 0.2)]
    frame = pd.concat([f.assign(env=env) for f, env in zip(frames, ENVS, strict=False)])
    tests = [{"env": env, "sum": GAIN, "is": "above"} for env in ENVS[:3]]
    sized = {**tests[0], "is": "at_least", "size": -2}
    ledger = [claim(*tests[:2], id="two"), claim(tests[2], id="one"), claim(sized, id="sized")]
    two, one, size = (e["ours"] for e in claims.judge(ledger, Evidence(frame, NO_PAIRS, 1, 200, 0.95), 3072))
    known = [*two["parts"], one]
    expected = paired.holm([part["p"] for part in known])
    assert [part["p_holm"] for part in known] == pytest.approx(list(expected), rel=1e-4)
    assert one["p_holm"] == pytest.approx(3 * one["p"], rel=1e-4)  # the smallest of three
    assert two["p_holm"] in {part["p_holm"] for part in two["parts"]}
    assert size["p_holm"] is None


def test_a_gap_between_strata_and_failures_by_phase():
    """Far starts: l2 wins everything; close starts: both do. All failures are after contact."""
    far = np.arange(40) % 2 == 1
    frame = two_methods(np.ones((2, 3, 40)), np.where(far, 0.0, 1.0) * np.ones((2, 3, 1)))
    frame["start_distance"] = np.where(frame["episode"] % 2 == 1, 100.0, 10.0)
    frame["contact"] = True
    terms = [[c * s, {**cell, "starts": name}] for name, s in (("far", 1), ("close", -1)) for c, cell in GAIN]
    found = verdicts(frame, {"env": "two_room", "sum": terms, "is": "above"})["ours"]
    assert (found["effect"], found["verdict"]) == (100, "reproduced")
    after, before = ([[1, {**GAIN[1][1], "value": f"{phase}_contact"}]] for phase in ("after", "before"))
    assert verdicts(frame, {"env": "two_room", "sum": after, "is": "above"})["ours"]["effect"] == 50
    found = verdicts(frame, {"env": "two_room", "sum": before, "is": "at_most", "size": 8})["ours"]
    assert (found["effect"], found["low"], found["verdict"]) == (0, 0, "inconclusive")
    assert found["high"] == pytest.approx(100 * (1 - 0.025 ** (1 / 40)), rel=1e-3)  # forty episodes cannot show less
    frame = outcomes(np.ones((3, 3, 50))).assign(contact=True)
    cell = {"method": "tdjepa", "cost": "d_psi"}
    full = {"env": "two_room", "sum": [[1, cell]], "is": "at_least", "size": 92}
    never = {"env": "two_room", "sum": [[1, {**cell, "value": "before_contact"}]], "is": "at_most", "size": 8}
    assert verdicts(frame, full)["ours"]["verdict"] == verdicts(frame, never)["ours"]["verdict"] == "reproduced"


def test_a_weighted_sum_may_leave_the_range_of_a_difference():
    """Ten points of failures after contact, sixty before: 10 - 4 * 60. In fifths the same, of failures: 10 - 0.8 * 70."""
    frame = outcomes(np.broadcast_to(np.arange(50) >= 35, (2, 3, 50)))
    frame["contact"] = frame["episode"] < 5
    cell = {"method": "tdjepa", "cost": "d_psi"}
    terms = [[c, {**cell, "value": v}] for c, v in ((1, "after_contact"), (-4, "before_contact"))]
    found = verdicts(frame, {"env": "two_room", "sum": terms, "is": "above"})["ours"]
    assert found["effect"] == pytest.approx(-230)
    (ledgers,) = (c["tests"][0]["sum"] for c in ledger.read(LEDGER) if c["id"] == "failures_after_contact")
    fifths = verdicts(frame, {"env": "two_room", "sum": ledgers, "is": "above"})["ours"]
    for k in ("effect", "low", "high"):
        assert fifths[k] == pytest.approx(found[k] / 5, rel=1e-4)
    assert -400 <= found["low"] < -230 < found["high"] < 0
    assert (found["verdict"], found["p"]) == ("contradicted", None)


def test_a_gap_may_be_held_against_another_environments():
    rng = np.random.default_rng(4)
    here = two_methods(rng.random((3, 3, 40)) < 0.9, rng.random((3, 3, 40)) < 0.1)
    frame = pd.concat([here, two_methods(*[np.ones((3, 3, 40))] * 2).assign(env="cube")])
    terms = GAIN + [[-c, {"env": "cube", **cell}] for c, cell in GAIN]
    found = verdicts(frame, {"env": "two_room", "sum": terms, "is": "above"})
    alone = verdicts(here, {"env": "two_room", "sum": GAIN, "is": "above"})
    assert found["ours"]["effect"] == pytest.approx(alone["ours"]["effect"])
    assert (found["paper"]["verdict"], found["ours"]["verdict"]) == ("reproduced", "reproduced")
    assert found["comparison"] == "two_room: tdjepa d_psi - lewm l2 - cube tdjepa d_psi + cube lewm l2 > 0"
    assert verdicts(here, {"env": "two_room", "sum": terms, "is": "above"})["ours"]["verdict"] == "not run"


def test_a_sweep_is_told_from_the_protocol_and_one_epoch_from_itself():
    """The protocol's cells have an alpha too; without an epoch curve nothing can be said of epochs."""
    main = outcomes(np.ones((3, 3, 40)), cost="blend", alpha=0.1)
    sweep = [outcomes(np.full((2, 1, 40), a > 0), cost="blend", setting="blend", alpha=a) for a in (0.0, 0.1)]
    frame = pd.concat([main, *sweep], ignore_index=True)
    cell = {"method": "tdjepa", "cost": "blend"}
    terms = [[c, {**cell, "alpha": a, "setting": "blend"}] for c, a in ((1, 0.1), (-1, 0.0))]
    found = verdicts(frame, {"env": "two_room", "sum": terms, "is": "above"})
    assert (found["ours"]["effect"], found["ours"]["n_train"], found["ours"]["n_plan"]) == (100, 2, 1)
    assert found["paper"]["note"] == "one plan seed"
    evidence = Evidence(pd.concat(sweep), NO_PAIRS, 1, 200, 0.95)
    assert evidence.cell("two_room", cell) is None  # which alpha?
    epochs = {"env": "two_room", "sum": [[1, cell], [-1, {**cell, "share": 0.4}]], "is": "above"}
    assert verdicts(main, epochs)["ours"]["verdict"] == "not run"
    early = outcomes(np.zeros((3, 3, 40)), cost="blend", epoch=1, alpha=0.1)
    assert verdicts(pd.concat([main, early]), epochs)["ours"]["verdict"] == "reproduced"


@pytest.mark.parametrize(
    ("curve", "first"), [([2, 5, 10], 2), (range(1, 11), 2), ([1, 2], 1), ([5, 10], 5), ([10], None)], ids=str
)
def test_the_first_epochs_are_the_first_fifth_or_the_first_there_is(curve, first):
    (test,) = next(c["tests"] for c in ledger.read(LEDGER) if c["id"] == "two_room_epochs")
    frame = pd.concat([outcomes(np.ones((1, 1, 4)), epoch=epoch) for epoch in curve])
    evidence = Evidence(frame, NO_PAIRS, 1, 200, 0.95)
    (_, last), (_, early) = test["sum"]
    found = evidence.cell("two_room", early)
    assert (evidence.cell("two_room", last).epoch, found and found.epoch) == (max(curve), first)


@pytest.fixture(scope="module")
def p():
    return load(ROOT / "params.yaml", "desk")


def test_every_claim_of_the_ledger_can_be_decided(p, tmp_path):
    found = claims.run(LEDGER, *everything(tmp_path, p), tmp_path / "evidence", SETTINGS, p.train_seeds[0])
    assert json.loads((tmp_path / "evidence/claims.json").read_text()) == found
    for entry in found:
        assert {"id", "claim", "place", "comparison", "paper", "ours"} <= set(entry)
        for found_so in (entry["paper"], entry["ours"]):
            assert {"verdict", "effect", "low", "high", "p"} <= set(found_so)
            assert found_so["verdict"] != "not run", entry["id"]
    by_id = {entry["id"]: entry["ours"]["verdict"] for entry in found}
    assert by_id["cube_gain"] == by_id["gap_to_lewm"] == by_id["calibrated"] == "reproduced"
    assert "reproduced" in claims.terminal(found)
    notes = {e["id"]: {part["note"] for part in [e["ours"], *e["ours"]["parts"]]} for e in found}
    single = {name for name, said in notes.items() if "one training" in said}
    assert {name: by_id[name] for name in single} == {"two_room_epochs": "inconclusive"}  # its curve is of one here
    units = {entry["id"]: entry["unit"] for entry in found if entry["unit"] != "points"}
    assert units["calibrated"] == "d_ψ"
    assert set(units.values()) == {"ρ", "d_ψ"}


def test_made_up_rows_say_how_they_were_planned_as_real_ones_do(p, monkeypatch):
    """Or a test would find a sweep's cell where a run finds the protocol's."""
    from tdjepa.steps import evaluate as evaluation

    monkeypatch.setattr(evaluation, "version", lambda _: "")
    locked = SimpleNamespace(entries=np.array([[1, 0], [2, 0]]), goals=np.zeros((2, 10)), sha256="ab" * 32)
    locked.data = SimpleNamespace(kind=None)
    outcome = {"success": [True, False], "trivial": False, "steps": 10, "plans": 1, "final": np.zeros((2, 10))}
    for sweep in ("", "blend", "solvers"):
        cfg = evaluate_slice(p, "push_t", "tdjepa", 3072, sweep)
        for cell in cfg.cells:
            key = {"epoch": cell.epoch, "solver": cell.solver, "cost": cell.cost, "w": cell.w}
            (first, _) = evaluation.rows(cfg, locked, key, outcome, "", cell).to_dict("records")
            assert {name: first[name] for name in planned(cell)} == planned(cell)
            assert set(PLANNER) <= set(planned(cell))


def test_from_nothing_every_claim_is_not_run_and_those_against_a_number_are_marked():
    found = claims.judge(ledger.read(LEDGER), Evidence(rows.read([]), NO_PAIRS, 1, 200, 0.95), 0)
    marked = {"cube_gain_size", "two_room_full", "failures_after_contact", "never_before_contact"}
    assert {entry["id"] for entry in found if entry["absolute"]} == marked
    assert {entry[protocol]["verdict"] for entry in found for protocol in ("paper", "ours")} == {"not run"}
    assert len(found) >= 25


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda c: c.pop("place"), "id, claim, place and tests are expected"),
        (lambda c: c.update({"absolute": "yes"}), "absolute is true or left out, found 'yes'"),
        (lambda c: c["tests"][0].update({"env": "atari"}), "env 'atari' is not one of"),
        (lambda c: c["tests"][0].update({"is": "bigger"}), "is 'bigger' is not one of"),
        (lambda c: c["tests"][0]["sum"][0][1].update({"costs": "l2"}), "unknown key 'costs'"),
        (lambda c: c["tests"][0].update({"is": "near"}), "a size belongs to at_least, at_most, near"),
        (lambda c: c["tests"][0].update({"size": 2}), "a size belongs to at_least, at_most, near"),
        (lambda c: c["tests"][0]["sum"][0][1].update({"alpha": 0.1}), "alpha needs a setting"),
        (lambda c: c["tests"][0]["sum"][0][1].update({"env": "atari"}), "env 'atari' is not one of"),
        (lambda c: c["tests"][0]["sum"][0][1].update({"value": "luck"}), "value 'luck'"),
    ],
)
def test_a_bad_ledger_is_named(tmp_path, spoil, expected):
    entry = json.loads(json.dumps(claim({"env": ENVS[0], "sum": GAIN, "is": "above"})))
    spoil(entry)
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump([entry]))
    with pytest.raises(UserError, match=f"claims.yaml: c: .*{expected}") as error:
        ledger.read(tmp_path / "claims.yaml")
    assert "\n" not in str(error.value)
