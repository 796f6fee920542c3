"""The recipe search: trials are overlays, finished ones stay finished, test pairs are never read, bad grids stop at once."""

import json
import shutil
from collections import Counter

import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config import trials
from tdjepa.config.load import load
from tdjepa.config.slices import train_slice
from tdjepa.tools import search, search_text

GRID = """
methods: [lewm, tdjepa]
trials:
  as_is: {envs: [two_room], methods: [lewm]}
  heavy: {like: as_is, methods: [lewm], terms: {sigreg: {weight: 0.2}}, collect: {episodes: 44}, planner: {refinements: 1}}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the parameters, a grid, and a page with a place for the tables."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "page.md").write_text("<!-- search:smoke -->\n<!-- /search:smoke -->\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def grid_of(place, text):
    (place / "grid.yaml").write_text(text)
    return trials.read(place / "grid.yaml")


def test_a_search_runs_what_is_missing_and_writes_its_tables(place, smoke, monkeypatch):
    call = ["recipes", "search", "--scale", "smoke", "--grid", "grid.yaml", "--jobs", "2", "--docs", "page.md"]
    assert main(call) == 0
    folder = place / "results/smoke/recipes/trials/two_room/lewm"
    found = {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}
    assert set(found) == {"as_is_3072", "heavy_3072"}
    pairs = smoke.mine.validation_goals
    assert all(result["success"]["l2"]["all"][1] == pairs and result["steps"] == 12 for result in found.values())
    assert found["heavy_3072"]["planner"] == "icem 24 x 1"
    page = (place / "page.md").read_text()
    assert "collect.episodes 44, terms.sigreg.weight 0.2, planner.refinements 1" in page
    assert (place / "results/smoke/recipes/search.png").stat().st_size > 1000

    validation = [json.loads(file.read_text()) for file in place.rglob("validation.json")]
    rows = [json.loads(file.read_text()) for file in place.rglob("rows.card.json")]
    assert {card["manifest"] for card in rows} == {locked["sha256_of_lines"][:16] for locked in validation}

    # finished: nothing is run; without its result: trained already, so only planned again; with other parameters: all of it
    steps, run = [], search.Search.step
    monkeypatch.setattr(
        search.Search, "step", lambda self, verb, *a, **k: steps.append(verb) or run(self, verb, *a, **k)
    )
    assert main(call) == 0
    assert steps == []
    (folder / "as_is_3072.json").unlink()
    assert main(call) == 0
    assert steps == ["evaluate"]
    (place / "grid.yaml").write_text(GRID.replace("0.2", "0.3"))
    assert main(["recipes", "trials", "--scale", "smoke", "--grid", "grid.yaml", "--docs", "page.md"]) == 0
    assert "heavy †" in (place / "page.md").read_text()
    assert main(call) == 0
    assert steps[1:] == ["train", "evaluate"]
    assert "†" not in (place / "page.md").read_text().split("Bold:")[0]


def test_a_trial_is_what_a_recipe_would_give(place, smoke):
    grid = grid_of(place, GRID.replace("like: as_is, methods: [lewm]", "envs: [two_room]"))
    jobs = {(job.trial, job.train.method_name): job for job in trials.jobs(smoke, grid, "grid.yaml")}
    assert list(jobs) == [("as_is", "lewm"), ("heavy", "lewm"), ("heavy", "tdjepa")]
    assert jobs["as_is", "lewm"].train == train_slice(smoke, "two_room", "lewm", 3072)
    heavy = jobs["heavy", "tdjepa"]
    assert heavy.train.method.terms.sigreg.weight == 0.2
    assert heavy.collect.data.episodes == 44
    assert [cell.cost for cell in heavy.evaluate.cells] == ["d_psi", "l2"]
    assert (heavy.evaluate.evaluate.manifest, heavy.evaluate.evaluate.locked) == ("validation", {})
    assert jobs["as_is", "lewm"].key != jobs["heavy", "lewm"].key


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("terms: {sigreg: {weight", "terms: {sigrag: {weight"),
            r"heavy.*terms.sigrag = .*no such key; did you mean 'sigreg'",
        ),
        (("episodes: 44", "episode: 44"), r"heavy \(two_room/lewm\): collect.episode = 44: no such key"),
        (
            ("refinements: 1", "refinement: 1"),
            r"trials.heavy.planner.refinement: no such key; did you mean 'refinements'",
        ),
        (
            ("methods: [lewm, tdjepa]", "methods: [lewm, tdjeppa]"),
            r"'tdjeppa' is not defined under methods; did you mean",
        ),
        (("like: as_is", "like: as_iss"), r"heavy.like = 'as_iss': is not defined there"),
        (("weight: 0.2", "weight: -1"), r"sigreg.weight = -1: input should be greater than 0"),
        (("trials:", "trails:"), r"grid.yaml: trials: a mapping of named trials is expected"),
    ],
)
def test_a_bad_grid_is_one_line_before_anything_runs(place, smoke, change, why):
    with pytest.raises(UserError, match=why):
        trials.jobs(smoke, grid_of(place, GRID.replace(*change)), "grid.yaml")


def test_a_failed_trial_is_named_and_the_others_go_on(place, capsys):
    (place / "grid.yaml").write_text(GRID.replace("weight: 0.2", "weight: 0.2}}, model: {encoder: {patch: 15"))
    assert main(["recipes", "search", "--scale", "smoke", "--grid", "grid.yaml"]) == 2
    assert "two_room/lewm/heavy_3072: train ended with status 2: model.encoder.patch = 15" in capsys.readouterr().err
    assert [file.stem for file in place.rglob("trials/**/*.json")] == ["as_is_3072"]


def test_policies_are_tried_on_one_training_of_their_backbone(place, monkeypatch):
    steps, run = [], search.Search.step
    monkeypatch.setattr(
        search.Search,
        "step",
        lambda self, verb, cfg, *a, **k: steps.append((verb, cfg)) or run(self, verb, cfg, *a, **k),
    )
    grid = "methods: [gcbc, gc_idm]\ntrials: {as_is: {envs: [two_room]}, fast: {like: as_is, train: {lr: 2.0e-3}}}\n"
    (place / "grid.yaml").write_text(grid)
    assert main(["recipes", "search", "--scale", "smoke", "--grid", "grid.yaml"]) == 0
    trained = [cfg.method_name for verb, cfg in steps if verb == "train"]
    assert sorted(trained) == ["gc_idm", "gc_idm", "gcbc", "gcbc", "lewm"]
    found = json.loads((place / "results/smoke/recipes/trials/two_room/gcbc/fast_3072.json").read_text())
    assert set(found["success"]) == {"policy"}


def test_the_literature_is_tuned_at_equal_effort():
    p, file = load(ROOT / "params.yaml", "desk"), "workflow/search/literature.yaml"
    wanted = trials.jobs(p, trials.read(ROOT / file), file)
    assert set(Counter((job.train.env, job.train.method_name) for job in wanted).values()) == {3}
    slices = {job.train.model_dump_json() for job in wanted}
    assert len(slices) == len(wanted) == 60  # no two trials are the same


def test_a_committed_grid_can_be_read_and_its_results_are_shown(smoke, monkeypatch):
    monkeypatch.chdir(ROOT)
    for scale in ("smoke", "desk"):
        p, grid = load("params.yaml", scale), trials.read(f"workflow/search/{scale}.yaml")
        wanted = trials.jobs(p, grid, "grid")
        methods = {job.train.method_name for job in wanted}
        per_method = {m: {(j.train.env, j.trial) for j in wanted if j.train.method_name == m} for m in methods}
        assert all(
            len(per_method[m]) >= len(per_method["tdjepa"]) for m in grid.methods
        )  # baselines as long as TD-JEPA
        search_text.markdown(p, search_text.gather(scale, wanted), wanted)
    assert "RC-aux" in search_text.earlier(ROOT / "workflow/search/earlier.yaml")
