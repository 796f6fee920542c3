"""Groups of methods beside the run: asked for by name, then part of the report, and never trained again unasked."""

from pathlib import Path

import pytest

from clone import REPORT, Clone
from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.load import resolve
from tdjepa.config.yaml_file import read_yaml
from tdjepa.report import extra_tables, gather, inputs
from tdjepa.steps.paths import card, path
from tdjepa_workflow.files import Files, asked

NEW = "lewm_original"
TRAININGS = {f"two_room_{NEW}_{seed}" for seed in (3072, 3073)}
GROUP = {f"{step}_{training}" for step in ("train", "evaluate", "diagnose", "probe") for training in TRAININGS}


def test_a_group_is_asked_for_by_its_name_or_by_a_file_of_it(smoke):
    for words in (["extras"], ["--cores", "1", "results/smoke/rows/two_room/rc_aux_3072.parquet"]):
        assert asked(smoke, words) == ["extras"]
        assert "rc_aux" in Files(smoke, asked(smoke, words)).methods
    for words in ([], ["all"], ["results/smoke/rows/two_room/rc_aux_tdj_3072.parquet"], ["--config", "scale=extras_"]):
        assert asked(smoke, words) == []


def test_the_report_takes_what_lies_here_of_a_group(smoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known, files = path("rows", "smoke", env="two_room", method="rc_aux", seed=3072), Files(smoke)
    curve = path("curve", "smoke", env="two_room", method="lewm_original", seed=3072)  # trained, not planned yet
    before = files.rows()
    for file in (known, curve):
        Path(file).parent.mkdir(parents=True)
        Path(file).touch()
    assert files.rows() == before  # its card is missing: it is being written
    Path(card(known)).touch()
    assert set(files.rows()) - set(before) == {str(known)}
    assert str(curve) not in files.reported("curve")
    assert str(known) not in files.all("rows")
    found = gather.files(smoke)
    assert (found["rows"], found["curves"]) == ([Path(known)], [])


def test_a_table_of_a_group_says_how_to_run_it(smoke):
    assert extra_tables.split_leak(inputs.read(smoke)).body == [["not run: snakemake extras", "–", "–", "–", "–"]]


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"extras": ["dreamer"]}, "groups.extras: 'dreamer' is not defined under methods"),
        ({"Extras": ["lewm"]}, "groups.Extras"),
        ({"extras": "lewm"}, "groups.extras = 'lewm'"),
    ],
)
def test_bad_groups_are_refused(groups, said):
    raw = read_yaml(ROOT / "params.yaml") | {"groups": groups}
    with pytest.raises(UserError) as error:
        resolve(raw, "smoke")
    assert said in str(error.value)


def test_a_group_left_empty_is_none():
    raw = read_yaml(ROOT / "params.yaml")
    raw["scales"]["smoke"]["groups"] = dict.fromkeys(raw["groups"])
    assert resolve(raw, "smoke").groups == {}


@pytest.mark.pipeline
def test_a_group_is_run_when_asked_for_and_then_left_alone(first_run, folder):
    clone: Clone = first_run[0].copy(folder / "with a group")
    clone.change("scales.smoke.groups", {"extras": [NEW]})
    assert clone.planned() == {"tables", "figures", "numbers", "page", "paper"}  # whose slice is all of params.yaml
    with clone.executed() as jobs:
        clone.snakemake("extras")
    assert jobs == GROUP | REPORT
    assert clone.planned() == clone.planned("extras") == set()
    shown = clone.path / "results/smoke/report/summary.md"
    assert "LeWM, targets attached" in shown.read_text()
    # stale, and nobody asks for it: only what else is stale runs, and the report
    clone.change("scales.smoke.recipes", {"one": {"when": {"method": NEW}, "train": {"lr": 2e-3}}})
    assert clone.planned() == REPORT - {"judge", "claims"}
    assert clone.planned("extras") == GROUP | REPORT
    clone.change("scales.smoke.recipes", {})
    # gone: the report is made without it
    for file in clone.path.glob(f"results/smoke/rows/*/{NEW}*"):
        file.unlink()
    assert clone.planned() == REPORT
    with clone.executed() as jobs:
        clone.snakemake("all")
    assert jobs == REPORT
    assert "LeWM, targets attached" not in shown.read_text()
