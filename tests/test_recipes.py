"""Success over CPU-minutes: from rows at the curve's epochs and from what trainings said of their time."""

import pytest

from conftest import ROOT
from synthetic import outcomes, write
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config.load import load
from tdjepa.config.slices import evaluate_slice
from tdjepa.evidence import judge
from tdjepa.steps.paths import path
from tdjepa.tools import recipes


@pytest.fixture
def p():
    smoke = load(ROOT / "params.yaml", "smoke")
    run = {"envs": ("two_room",), "methods_run": ("tdjepa", "lewm", "tdjepa_no_hinge"), "train_seeds": (3072, 3073)}
    return smoke.model_copy(update=run)


@pytest.fixture
def folder(p, tmp_path, monkeypatch):
    """Rows at both epochs, of the first training seed at the first; logs of all trainings but one method's."""
    monkeypatch.chdir(tmp_path)
    files = []
    for method, cost in (("tdjepa", "d_psi"), ("lewm", "l2")):
        for epoch, seeds, solved in ((1, (3072,), 0.0), (2, (3072, 3073), 1.0)):
            success = [[[solved] * 4] * (2 if epoch == 2 else 1)] * len(seeds)
            files.append(write(tmp_path / f"{method}_{epoch}.parquet", outcomes(success, method, cost, epoch, seeds)))
    judge.run(files, path("evidence", "smoke"), p.judge)
    for seed, seconds in ((3072, 120.0), (3073, 240.0)):
        log = tmp_path / path(f"log/train_two_room_tdjepa_{seed}.log", "smoke")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"  loss         0.3\n  seconds      999\n  cpu_seconds  {seconds:.4g}\n  folder       x\n")
    return tmp_path


def test_the_table_has_success_beside_the_minutes_until_then(p, folder):
    body = {row[1]: row[2:] for row in recipes.run(p).body if row}
    assert body["TD-JEPA, d_ψ"] == ["0.0 @ 1.5", "100.0 @ 3.0", "100.0 (2)"]  # the median of 2 and 4 minutes, by epoch
    assert body["LeWM, ℓ₂"] == ["0.0 @ –", "100.0 @ –", "100.0 (2)"]  # it said nothing of its time
    assert (folder / path("recipes/success_over_cpu.png", "smoke")).stat().st_size > 1000


def test_nothing_judged_is_one_clear_line(p, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"stats.json: nothing was judged yet; run snakemake judge_all"):
        recipes.run(p)


def test_the_docs_have_a_place_for_the_table(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs/recipes.md").read_text()
    assert text.index("<!-- recipes:desk -->") < text.index("<!-- /recipes:desk -->")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (tmp_path / "none.md").write_text("no marks")
    assert main(["recipes", "--scale", "smoke", "--docs", "none.md"]) == 2
    assert "none.md: has no place for the table" in capsys.readouterr().err


def test_every_method_has_a_curve_with_the_cost_it_plans_with():
    desk = load(ROOT / "params.yaml", "desk")
    early = [epoch for epoch in desk.evaluate.curve_epochs if epoch != desk.train.epochs]

    def curves(env, method, seed=desk.train_seeds[0]):
        found = {}
        for cell in evaluate_slice(desk, env, method, seed).cells:
            if cell.epoch != desk.train.epochs:
                assert cell.plan_seeds == desk.evaluate.plan_seeds[:1]
                found.setdefault(cell.cost, []).append(cell.epoch)
        return found

    assert curves("two_room", "tdjepa") == {"d_psi": early}
    assert curves("push_t", "tdjepa") == {"d_psi": early, "l2": early}
    assert curves("two_room", "lewm") == curves("push_t", "lewm") == {"l2": early}
    assert curves("two_room", "rc_aux") == {"rc_aux": early}
    assert curves("push_t", "tdjepa_no_hinge") == {"d_psi": early}  # an ablation has the published curve's cost only
    assert curves("two_room", "lewm", desk.train_seeds[1]) == {"l2": early}
