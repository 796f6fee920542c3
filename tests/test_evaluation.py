"""Locked evaluation: the oracle succeeds, floors are floors, and an episode's outcome is its own."""

import json

import pandas as pd
import pytest

from tdjepa import evaluation, params
from tdjepa.errors import UserError

COLUMNS = ["scale", "env", "method", "train_seed", "epoch", "solver", "cost"]
COLUMNS += ["w", "plan_seed", "episode", "start", "success", "trivial", "steps"]


def evaluate(smoke, data, trained, out, method="tdjepa", **changes):
    cfg = params.evaluate_slice(smoke, "two_room", method, 3072)
    cfg = cfg.model_copy(update={"evaluate": cfg.evaluate.model_copy(update=changes)})
    checkpoints = {e: trained / method / f"epoch_{e:02d}.safetensors" for e in (1, 2)}
    return evaluation.run(cfg, data / "episodes.h5", data / "mined/test.json", checkpoints, out)


def test_rows_have_the_columns_of_the_design_first(smoke, data, trained, tmp_path):
    table = evaluate(smoke, data, trained, tmp_path / "r.parquet")
    assert list(table.columns)[: len(COLUMNS)] == COLUMNS
    written = pd.read_parquet(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(written, table)
    assert table.success.dtype == table.trivial.dtype == bool
    cells = table.groupby(["cost", "epoch"]).size()
    n = smoke.evaluate.episodes
    assert cells.to_dict() == {("d_psi", 1): n, ("d_psi", 2): 2 * n, ("l2", 2): 2 * n, ("blend", 2): 2 * n}
    card = json.loads((tmp_path / "r.card.json").read_text())
    assert "16 px" in card["success_criterion"]
    assert set(card["inputs"]) == {"episodes", "manifest", "epoch_1", "epoch_2"}


def test_an_evaluation_repeats_to_the_byte(smoke, data, trained, tmp_path):
    for name in ("a", "b"):
        evaluate(smoke, data, trained, tmp_path / name / "r.parquet")
    assert (tmp_path / "a/r.parquet").read_bytes() == (tmp_path / "b/r.parquet").read_bytes()


def test_an_episode_does_not_depend_on_which_others_are_evaluated(smoke, data, trained, tmp_path):
    every = evaluate(smoke, data, trained, tmp_path / "a.parquet", method="lewm")
    few = evaluate(smoke, data, trained, tmp_path / "b.parquet", method="lewm", episodes=2, plan_seeds=(7,))
    key = ["cost", "plan_seed", "episode", "start"]
    both = few.merge(every, on=key, suffixes=("", "_every"))
    assert len(both) == len(few) == 2
    for column in ("success", "steps", "final_distance"):
        assert (both[column] == both[f"{column}_every"]).all()


def test_replay_solves_everything_and_zero_only_what_is_trivial(smoke, data, tmp_path):
    cfg = params.evaluate_slice(smoke, "two_room", "floors", 0)
    table = evaluation.run_floors(cfg, data / "episodes.h5", data / "mined/test.json", tmp_path / "f.parquet")
    rate = table.groupby("method").success.mean()
    assert rate["replay"] == 1.0
    zero = table[table.method == "zero"]
    assert (zero.success == zero.trivial).all()
    assert (table[table.method == "replay"].steps <= 25).all()
    assert table[table.method == "random"].groupby("plan_seed").final_distance.sum().nunique() > 1


def test_the_wrong_checkpoint_is_refused(smoke, data, trained, tmp_path):
    cfg = params.evaluate_slice(smoke, "two_room", "tdjepa", 3073)
    with pytest.raises(UserError, match="was trained with seed = 3072, expected 3073"):
        evaluation.run(
            cfg,
            data / "episodes.h5",
            data / "mined/test.json",
            {2: trained / "tdjepa/epoch_02.safetensors"},
            tmp_path / "r",
        )
    assert not list(tmp_path.iterdir())


def test_three_history_frames_plan_too(smoke, data, trained, tmp_path):
    """The published protocol plans from one frame; the corrected alternative passes frames and executed blocks on."""
    planner = smoke.evaluate.planner.model_copy(update={"history": 3, "receding": 1})
    table = evaluate(smoke, data, trained, tmp_path / "r.parquet", method="lewm", planner=planner, plan_seeds=(7,))
    assert (table[~table.success].plans == smoke.evaluate.budget // smoke.mine.frameskip).all()


def test_diagnosis_writes_every_pair(smoke, data, trained, tmp_path):
    from tdjepa.diagnostics import run

    for method in ("tdjepa", "lewm"):
        cfg = params.diagnose_slice(smoke, "two_room", method, 3072)
        files = (tmp_path / f"{method}.parquet", tmp_path / f"{method}.json")
        run.run(
            cfg, data / "episodes.h5", data / "mined/pairs.parquet", trained / method / "epoch_02.safetensors", *files
        )
        table = pd.read_parquet(files[0])
        assert len(table) == smoke.mine.pairs
        assert table.l2.ge(0).all()
        assert table.d_psi.notna().all() == (method == "tdjepa")
        assert json.loads(files[1].read_text())["ratio_one_patch"] > 0
