"""Locked evaluation: the oracle succeeds, floors are floors, an episode's outcome is its own, a kill costs nothing."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from children import LIMIT
from conftest import ROOT
from tdjepa.base.artefacts import write_card
from tdjepa.base.errors import UserError
from tdjepa.config.parse import parse
from tdjepa.config.records.planning import Design
from tdjepa.config.slices import TrainSlice, diagnose_slice, evaluate_slice, slice_json, train_slice
from tdjepa.mining import manifest
from tdjepa.model import checkpoint
from tdjepa.model.world_model import build
from tdjepa.planning.costs import trajectory_cost
from tdjepa.steps import evaluate as evaluation

COLUMNS = ["scale", "env", "method", "train_seed", "epoch", "solver", "cost"]
COLUMNS += ["w", "plan_seed", "episode", "start", "success", "trivial", "steps"]


def sliced(smoke, method="tdjepa", sweep="", **changes):
    p = smoke.model_copy(update={"evaluate": smoke.evaluate.model_copy(update=changes)})
    return evaluate_slice(p, "two_room", method, 3072, sweep)


def saved(trained, method):
    return {e: trained / method / f"epoch_{e:02d}.safetensors" for e in (1, 2)}


def evaluate(smoke, data, trained, out, method="tdjepa", sweep="", **changes):
    cfg = sliced(smoke, method, sweep, **changes)
    locked = data / "mined" / f"{cfg.evaluate.manifest}.json"
    return evaluation.run(cfg, data / "episodes.h5", locked, saved(trained, method), out)


def test_rows_have_the_columns_of_the_design_first(smoke, data, trained, tmp_path):
    table = evaluate(smoke, data, trained, tmp_path / "r.parquet")
    assert list(table.columns)[: len(COLUMNS)] == COLUMNS
    written = pd.read_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(written, table)
    assert table.success.dtype == table.trivial.dtype == bool
    cells = table[table.design == "main"].groupby(["cost", "epoch"]).size()
    n = smoke.evaluate.designs["main"].pairs
    assert cells.to_dict() == {("d_psi", 1): n, ("d_psi", 2): 2 * n, ("l2", 2): 2 * n, ("blend", 2): 2 * n}
    theirs = smoke.evaluate.designs["protocol"]
    cells = table[table.design == "protocol"].groupby(["cost", "epoch"]).size()
    assert cells.to_dict() == {(cost, 2): theirs.plan_seeds * theirs.pairs for cost in ("d_psi", "l2", "blend")}
    card = json.loads((tmp_path / "r.card.json").read_text())
    assert "16 px" in card["success_criterion"]
    assert card["code"] == table.code[0] == evaluation.version("two_room")
    assert (table.setting == "main").all()
    times = pd.read_csv(tmp_path / "r.times.csv")
    assert len(times) == table.plans.sum()
    assert (times.seconds > 0).all()
    assert "| tdjepa | 1 " in evaluation.shown(table, tmp_path / "r.times.csv")
    assert not list(tmp_path.glob(".*"))
    assert set(card["inputs"]) == {"episodes", "manifest", "epoch_1", "epoch_2"}


TWO_PAIRS = {"main": Design(pairs=2, plan_seeds=1)}


def test_an_episode_does_not_depend_on_which_others_are_evaluated(smoke, data, trained, tmp_path):
    every = evaluate(smoke, data, trained, tmp_path / "a.parquet", method="lewm")
    few = evaluate(smoke, data, trained, tmp_path / "b.parquet", method="lewm", designs=TWO_PAIRS, plan_seeds=(7,))
    key = ["design", "cost", "epoch", "plan_seed", "episode", "start"]
    both = few.merge(every, on=key, suffixes=("", "_every"))
    assert len(both) == len(few[few["epoch"] == 2]) == 2  # the curve of epoch 1 has the first plan seed of each
    for column in ("success", "steps", "final_distance"):
        assert (both[column] == both[f"{column}_every"]).all()


@pytest.mark.parametrize("method", ["lewm", "tdjepa", "rc_aux"])  # planned with l2, d_psi and RC-aux's cost
def test_batch_order_and_workers_change_nothing(method, smoke, data, trained):
    """Outcomes of all episodes together, one by one, backwards, and by two workers at once."""
    cfg = sliced(smoke, method)
    n = cfg.cells[0].pairs

    def play(which):
        locked = evaluation.Episodes(cfg, data / "episodes.h5", data / "mined/test.json")
        planner = evaluation.load_planners(cfg, saved(trained, method), locked)[0]
        policy = planner.policy(locked.goal_frames[which], 7, locked.entries[which])
        return locked.play(policy, which, cfg.cells[0].planner.history)

    every = play(slice(0, n))
    with ThreadPoolExecutor(2) as pool:
        workers = list(pool.map(play, [slice(k, k + 1) for k in reversed(range(n))]))[::-1]
    parts = {"one by one": workers, "in threes": [play(slice(k, k + 3)) for k in range(0, n, 3)]}
    for name, outcomes in parts.items():
        for column in ("success", "steps", "plans", "final"):
            np.testing.assert_array_equal(np.concatenate([o[column] for o in outcomes]), every[column], name)


def test_rc_aux_plans_with_its_own_head_and_without_the_factor_as_l2_does(smoke, data, trained, tmp_path):
    both = smoke.methods["rc_aux"].model_copy(update={"costs": ("rc_aux", "l2")})
    smoke = smoke.model_copy(update={"methods": {**smoke.methods, "rc_aux": both}})
    costs = smoke.evaluate.costs.model_copy(update={"rc_aux_lambda": 0.0})
    table = evaluate(smoke, data, trained, tmp_path / "r.parquet", method="rc_aux", costs=costs)
    last = table[table["epoch"] == 2].set_index("cost")
    for column in ("success", "steps", "final_distance"):
        assert last.loc["rc_aux", column].tolist() == last.loc["l2", column].tolist()

    cell = {cell.cost: cell for cell in sliced(smoke, "rc_aux").cells}
    model, _ = checkpoint.load(saved(trained, "rc_aux")[2])
    rng = torch.Generator().manual_seed(0)
    z, goal, z_hat = (torch.randn(*shape, 8, generator=rng) for shape in ((), (), (5, 4)))
    with torch.no_grad():
        with_factor, l2 = (trajectory_cost(model, cell[cost], goal)(z, z_hat) for cost in ("rc_aux", "l2"))
        reach = torch.stack([model.head.logit(z_hat[k], goal, torch.tensor(5 - k)) for k in range(5)]).sigmoid().amax(0)
    torch.testing.assert_close(with_factor, l2 * (1 - 0.35 * reach))
    assert (with_factor < l2).all()


def test_a_killed_evaluation_goes_on_where_it_stopped(smoke, data, trained, tmp_path):
    """SIGKILL after the third episode; the finished rows are those of a run in one go, to the byte."""
    cfg = sliced(smoke, "lewm")
    (tmp_path / "slice.json").write_text(slice_json(cfg))
    script = f"""
import os, signal
from pathlib import Path
from tdjepa.base.journal import Journal
from tdjepa.config.slices import EvaluateSlice
from tdjepa.steps import evaluate as evaluation
add = Journal.add
def add_three(self, key, value):
    add(self, key, value)
    if len(self.done) == 3:
        self.file.write(b'{{"key": [0, 7')  # torn: the kill hits while the fourth is written
        self.file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
Journal.add = add_three
cfg = EvaluateSlice.model_validate_json(Path({str(tmp_path / "slice.json")!r}).read_text())
evaluation.run(cfg, Path({str(data / "episodes.h5")!r}), Path({str(data / "mined/test.json")!r}),
    {{e: Path({str(trained / "lewm")!r}, f"epoch_0{{e}}.safetensors") for e in (1, 2)}},
    Path({str(tmp_path / "killed/r.parquet")!r}))
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    died = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=LIMIT)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert [path.name for path in (tmp_path / "killed").iterdir()] == [".r.parquet.journal"]

    played = []
    original = evaluation.Episodes.play
    for folder in ("killed", "whole"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluation.Episodes, "play", lambda *a, f=folder: played.append(f) or original(*a))
            evaluate(smoke, data, trained, tmp_path / folder / "r.parquet", method="lewm")
    assert played.count("whole") - played.count("killed") == 3
    for name in ("r.parquet", "r.card.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "killed/.r.parquet.journal").exists()


def test_a_sweep_is_only_data_and_is_never_taken_for_the_protocol(smoke, data, trained, tmp_path):
    from tdjepa.evidence import rows

    three = {"cost": ["d_psi", "l2"], "history": 3, "receding": 2}
    cells = {"ends": {"cost": "blend", "alpha": [0.0, 1.0]}, "three": three}
    sweep = smoke.evaluate.sweeps["blend"].model_copy(update={"cells": cells})
    table = evaluate(smoke, data, trained, tmp_path / "s.parquet", sweep="blend", sweeps={"blend": sweep})
    found = table.groupby(["cost", "alpha", "history"]).size()
    n = smoke.evaluate.designs["main"].pairs
    expected = {("blend", 0.0, 1): n, ("blend", 1.0, 1): n, ("d_psi", 0.1, 3): n, ("l2", 0.1, 3): n}
    assert found.to_dict() == expected
    assert (table.setting == "blend").all()
    main = evaluate(smoke, data, trained, tmp_path / "m.parquet")
    both = table[table.cost == "blend"].merge(main[main.epoch == 2], on=["design", "plan_seed", "episode", "start"])
    for alpha, cost in ((0.0, "d_psi"), (1.0, "l2")):  # the ends of the blend are the two costs, to the last bit
        same = both[(both.alpha_x == alpha) & (both.cost_y == cost)]
        assert len(same) == n
        assert (same.final_distance_x == same.final_distance_y).all()
    judged = rows.read([tmp_path / "s.parquet", tmp_path / "m.parquet"])
    assert judged.groupby("setting").size().to_dict() == {"blend": len(table), "main": len(main)}
    cells = judged.groupby(rows.CELL).setting.nunique()
    assert len(cells) == len(expected) + main.groupby(["design", "cost", "epoch"]).ngroups
    assert (cells == 1).all()  # no cell mixes the two


@pytest.mark.parametrize("solver", ["mppi", "gradient"])
def test_the_librarys_other_solvers_plan_too(smoke, data, trained, tmp_path, solver):
    cells = {"x": {"solver": solver, "refinements": 2, "cost": "d_psi", "candidates": 8, "elites": 4}}
    sweep = smoke.evaluate.sweeps["blend"].model_copy(update={"cells": cells, "pairs": 2})
    change = {"sweep": "blend", "sweeps": {"blend": sweep}}
    for name in ("a", "b"):
        table = evaluate(smoke, data, trained, tmp_path / name / "r.parquet", **change)
    assert (table.solver == solver).all()
    assert (tmp_path / "a/r.parquet").read_bytes() == (tmp_path / "b/r.parquet").read_bytes()


def test_replay_solves_everything_and_zero_only_what_is_trivial(smoke, data, tmp_path):
    cfg = evaluate_slice(smoke, "two_room", "floors", 0)
    table = evaluation.run_floors(cfg, data / "episodes.h5", data / "mined/test.json", tmp_path / "f.parquet")
    rate = table.groupby("method").success.mean()
    assert rate["replay"] == 1.0
    zero = table[table.method == "zero"]
    assert (zero.success == zero.trivial).all()
    assert (table[table.method == "replay"].steps <= 25).all()
    assert table[table.method == "random"].groupby("plan_seed").final_distance.sum().nunique() > 1


def refused(smoke, data, trained, tmp_path, match, method="tdjepa", checkpoints=None, locked=None, cfg=None):
    files = (data / "episodes.h5", locked or data / "mined/test.json", checkpoints or saved(trained, method))
    with pytest.raises(UserError, match=match) as error:
        evaluation.run(cfg or sliced(smoke, method), *files, tmp_path / "out" / "r.parquet")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_mistake_is_refused_before_anything_runs(smoke, data, trained, tmp_path):
    check = (smoke, data, trained, tmp_path)
    refused(*check, "was trained with method_name = 'lewm', expected 'tdjepa'", checkpoints=saved(trained, "lewm"))
    renamed = dict(zip((1, 2), reversed(saved(trained, "tdjepa").values()), strict=True))
    refused(*check, "was trained with epoch = 2, expected 1", checkpoints=renamed)
    refused(*check, "validation manifest, but evaluate.manifest = 'test'", locked=data / "mined/validation.json")
    entries = manifest_with(data, tmp_path, lambda m: m["entries"][0].__setitem__(1, 10_000))
    refused(*check, "points past the episode's", locked=entries)
    tampered = manifest_with(data, tmp_path, lambda m: (m["entries"].pop(), m["trivial"].pop()), rehash=False)
    refused(*check, "entries are not the locked ones", locked=tampered)


def manifest_with(data, tmp_path, change, rehash=True):
    found = json.loads((data / "mined/test.json").read_text())
    change(found)
    if rehash:
        found["sha256_of_lines"] = manifest.lines_sha256(found["entries"])
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(found))
    return path


def test_only_the_locked_manifest_is_taken(smoke, data, trained, tmp_path):
    found = json.loads((data / "mined/test.json").read_text())["sha256_of_lines"]
    cfg = sliced(smoke, "lewm", locked={"two_room": "ab" * 32})
    with pytest.raises(UserError, match="evaluate.locked.two_room is abab"):
        evaluation.Episodes(cfg, data / "episodes.h5", data / "mined/test.json")
    cfg = sliced(smoke, "lewm", locked={"two_room": found})
    assert evaluation.Episodes(cfg, data / "episodes.h5", data / "mined/test.json").sha256 == found


def test_a_checkpoint_of_another_environment_is_refused(smoke, data, trained):
    cfg = sliced(smoke, "lewm").model_copy(update={"env": "push_t"})
    locked = evaluation.Episodes(sliced(smoke, "lewm"), data / "episodes.h5", data / "mined/test.json")
    with pytest.raises(UserError, match="was trained with env = 'two_room', expected 'push_t'"):
        evaluation.load_planners(cfg, saved(trained, "lewm"), locked)


def changed(change):
    """A checkpoint whose tensors and facts about itself were changed, with a card that fits."""

    def make_it(source, out):
        with safe_open(source, "pt") as file:
            tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
        change(tensors, metadata)
        save_file(tensors, out, metadata)
        write_card(out, "train", {})

    return make_it


def of_another(size=32, block=10, scale="smoke"):
    """A whole checkpoint of the same method, environment and seed with other frames or action blocks, or of another scale."""

    def make_it(source, out):
        cfg = parse(TrainSlice, {**checkpoint.load(source)[1]["train"], "scale": scale}, str(source))
        checkpoint.save(out, build(cfg.model, cfg.method.head, size, block, cfg.seed), cfg, size, 2, {})

    return make_it


@pytest.mark.parametrize(
    ("make_it", "match"),
    [
        (changed(lambda t, _: t.pop("action_mean")), "lacks tensor action_mean; it is not a checkpoint of this"),
        (changed(lambda t, _: t.update(extra=torch.zeros(1))), "has the unknown tensor extra; it is not"),
        (changed(lambda t, _: t.update(action_mean=torch.zeros(3))), r"mean has the shape \(3,\), expected \(10,\)"),
        (changed(lambda _, about: about.clear()), "says nothing about its training, so it is not one of ours"),
        (changed(lambda _, about: about.update(tdjepa='{"epoch": 2}')), "says nothing about its training"),
        (of_another(scale="desk"), "was trained with scale = 'desk', expected 'smoke'"),
        (of_another(size=64), r"was trained on 64-px frames, but .*episodes\.h5 has 32 px"),
        (of_another(block=15), "was trained on action blocks of 15 numbers, expected 5 x 2"),
    ],
    ids=["tensor less", "tensor more", "another shape", "nobody's", "half a description", "scale", "frames", "blocks"],
)
def test_a_checkpoint_that_does_not_fit_is_refused(smoke, data, trained, tmp_path, make_it, match):
    saved_at = saved(trained, "lewm")
    made = tmp_path / "epoch_02.safetensors"
    make_it(saved_at[2], made)
    refused(smoke, data, trained, tmp_path, match, method="lewm", checkpoints=saved_at | {2: made})


@pytest.mark.parametrize(
    ("method", "cost", "match"),
    [
        ("lewm", "d_psi", "without a temporal head; plan with l2"),
        ("lewm", "soft_gate", "without a temporal head; plan with l2"),
        ("tdjepa", "hard_gate", "two_room has no contact geometry"),
        ("tdjepa", "rc_aux", "no head for reachability"),
    ],
)
def test_a_cost_that_cannot_be_given_is_refused(smoke, data, trained, tmp_path, method, cost, match):
    cell = sliced(smoke, method).cells[0].model_copy(update={"cost": cost})
    cfg = sliced(smoke, method).model_copy(update={"cells": (cell,)})
    refused(smoke, data, trained, tmp_path, match, method, cfg=cfg)


def test_a_design_decides_how_much_is_planned_and_nothing_else(smoke, data, trained, tmp_path):
    """The pairs and plan seeds that two designs share come out alike, and no training is made again for one of them."""
    found = evaluate(smoke, data, trained, tmp_path / "a.parquet", method="lewm")
    key = ["plan_seed", "episode", "start", "epoch"]
    main, theirs = (found[found.design == name].set_index(key).sort_index() for name in ("main", "protocol"))
    shared = main.index.intersection(theirs.index)
    assert len(shared) == 2 * smoke.evaluate.designs["protocol"].pairs
    pd.testing.assert_frame_equal(main.loc[shared].drop(columns="design"), theirs.loc[shared].drop(columns="design"))
    few = smoke.methods["lewm"].model_copy(update={"train_seeds": 1})
    p = smoke.model_copy(update={"methods": {**smoke.methods, "lewm": few}})
    assert train_slice(p, "two_room", "lewm", 3072) == train_slice(smoke, "two_room", "lewm", 3072)
    later = evaluate_slice(smoke, "two_room", "lewm", smoke.train_seeds[1])
    assert {cell.design for cell in later.cells} == {"main"}
    alone = smoke.evaluate.model_copy(update={"designs": {"main": smoke.evaluate.designs["main"]}})
    assert evaluate_slice(smoke.model_copy(update={"evaluate": alone}), "two_room", "lewm", 3073) == later


def test_three_history_frames_plan_too(smoke, data, trained, tmp_path):
    """The published protocol plans from one frame; the corrected alternative passes frames and executed blocks on."""
    planner = smoke.evaluate.planner.model_copy(update={"history": 3, "receding": 1})
    table = evaluate(smoke, data, trained, tmp_path / "r.parquet", method="lewm", planner=planner, plan_seeds=(7,))
    assert (table[~table.success].plans == smoke.evaluate.budget // smoke.mine.frameskip).all()


def test_diagnosis_writes_every_pair(smoke, data, trained, tmp_path):
    from tdjepa.steps import diagnose as run

    for method in ("tdjepa", "lewm"):
        cfg = diagnose_slice(smoke, "two_room", method, 3072)
        files = (tmp_path / f"{method}.parquet", tmp_path / f"{method}.json")
        checkpoints = [trained / method / f"epoch_0{epoch}.safetensors" for epoch in cfg.epochs]
        run.run(cfg, data / "episodes.h5", data / "mined/pairs.parquet", checkpoints, *files)
        table = pd.read_parquet(files[0])
        assert table.groupby("epoch").size().to_dict() == {1: smoke.mine.pairs, 2: smoke.mine.pairs}
        assert not np.allclose(*(table[table.epoch == epoch].l2 for epoch in (1, 2)))
        assert table.l2.ge(0).all()
        assert table.d_psi.notna().all() == (method == "tdjepa")
        assert json.loads(files[1].read_text())["ratio_one_patch"] > 0
    with pytest.raises(UserError, match="was trained with epoch = 2, expected 1"):
        run.run(cfg, data / "episodes.h5", data / "mined/pairs.parquet", checkpoints[::-1], *files)
