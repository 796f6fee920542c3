"""How things are said in tables, captions and prose, and what is refused instead of rendered."""

import pytest

from conftest import ROOT
from synthetic import outcomes, write
from tdjepa.base.errors import UserError
from tdjepa.config import runs
from tdjepa.config.load import load, resolve
from tdjepa.config.records.base import ENVS
from tdjepa.config.yaml_file import read_yaml
from tdjepa.evidence import claims, judge
from tdjepa.report import captions, gather, inputs, numbers, pdf, phrases
from tdjepa.report import recipe_text as recipe
from tdjepa.report.page import build
from tdjepa.report.table import Strong, Table, latex


@pytest.fixture(scope="module")
def p():
    desk = load(ROOT / "params.yaml", "desk")
    return desk.model_copy(update={"envs": ("two_room",), "methods_run": ("tdjepa", "lewm")})


def test_bold_only_when_intervals_are_apart():
    numbers = ((99, 95, 100), (94, 90, 96), (50, 40, 60))
    best, near, far = (dict(zip(("mean", "low", "high"), of, strict=True)) for of in numbers)
    assert phrases.clear_winner([best, far, None]) is best
    assert phrases.clear_winner([best, near, far]) is None
    assert phrases.clear_winner([best, None]) is None


def test_a_method_plans_with_one_cost_unless_the_paper_deploys_another(p):
    planned = {m: [runs.planned_cost(p, env, m) for env in p.evaluate.protocol] for m in p.methods}
    assert set(planned["tdjepa"]) == {"d_psi", "l2"}
    assert planned["rc_aux"] == ["rc_aux"] * 4
    assert runs.planned_cost(p, "two_room", "nobody's") == runs.planned_cost(p, "nowhere", "tdjepa") == "l2"
    assert planned["lewm"] == planned["rc_aux_tdj"] == ["l2"] * 4


FEWER = "5 training seeds, 1 plan seed, 100 pairs"


def test_captions_say_who_has_fewer_seeds_and_whose_runs_the_other_rc_aux_has(p):
    sweep = p.evaluate.sweeps["reacher_protocol"]
    assert captions.swept_text(p, "reacher_protocol", "Others") == f"Others: at most {FEWER}."
    whole = sweep.model_copy(update={"pairs": p.evaluate.designs["main"].pairs})
    as_many = p.model_copy(update={"evaluate": p.evaluate.model_copy(update={"sweeps": {"all": whole}})})
    assert captions.swept_text(as_many, "all", "Others") == captions.swept_text(p, "no such", "Others") == ""
    authors = p.model_copy(update={"methods_run": (*p.methods_run, "rc_aux")})
    assert "RC-aux, its authors' version: 5 runs of theirs" in captions.key_text(authors)
    assert "runs of theirs" not in captions.key_text(p)


def test_the_recipe_in_words_is_the_parameters(p):
    """Exceptions are named where they are: an environment, a method, or one in the other."""
    raw = read_yaml(ROOT / "params.yaml")
    raw["scales"]["desk"]["train"] |= {"steps_per_epoch": 85, "lr": 0.002}
    raw["scales"]["desk"]["model"] |= {"latent": 32, "normalisation": "whitened"}
    raw["scales"]["desk"]["recipes"] = [
        {"when": {"env": "reacher"}, "train": {"steps_per_epoch": 180}},
        {"when": {"env": "reacher", "method": "tdjepa"}, "model": {"latent": 10}},
        {"when": {"env": "push_t"}, "train": {"lr": 0.0015}},
        {"when": {"method": "lewm"}, "train": {"step_factor": 2.5}, "model": {"predictor": {"dropout": 0.2}}},
    ]
    desk = resolve(raw, "desk").model_copy(update={"envs": ENVS, "methods_run": ("tdjepa", "lewm")})
    found = recipe.texts(desk)
    assert found["Latent"] == "32, for TD-JEPA in Reacher 10"
    assert found["Patch"] == "16"
    said = found["Recipe"].split("; ")
    assert "learning rate 0.002, in Push-T 0.0015 (0.00005)" in said
    assert "frames whitened (normalised as ImageNet's)" in said
    assert recipe.steps(desk, "tdjepa") == "85 (Two-Room, Push-T and OGB-Cube), 180 (Reacher) optimiser steps"
    assert recipe.steps(desk, "lewm").startswith("212 (Two-Room")
    assert "as TD-JEPA; LeWM: 2.5 times as many" in found["StepFactor"]
    assert found["DataOrigin"].endswith("carried about at random in 90 % of the episodes")
    assert "expectation" in found["TemporalPairs"]
    one = desk.model_copy(update={"envs": ("two_room",), "methods_run": ("lewm",)})
    assert "dropout 0.2 (0.1)" in recipe.texts(one)["Recipe"]
    assert "people" not in recipe.texts(one)["DataOrigin"]
    paper = load(ROOT / "params.yaml", "paper").model_copy(update={"envs": ("two_room", "cube")})
    assert recipe.texts(paper)["DataOrigin"] == "those of Two-Room and OGB-Cube are the released ones"
    assert recipe.texts(paper)["StepFactor"].endswith("LeWM, equal compute: 2 times as many")
    assert recipe.steps(paper, "lewm") == "every window once"
    assert recipe.texts(paper)["TemporalPairs"] == "so does ours at this scale"
    assert r"\newcommand{\Latent}{32, for TD-JEPA in Reacher 10}" in numbers.text(inputs.read(desk))


def test_the_summary_of_a_scale_that_was_never_run(p, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    gather.show(p)
    assert capsys.readouterr().out.count("not run") == 9 + 1  # rows of Two-Room, and the other environments in a line


def test_plain_text_becomes_latex():
    assert latex("d_ψ ± 5 % of a_b & ℓ₂ < {x}") == r"$d_\psi$ $\pm$ 5\,\% of a\_b \& $\ell_2$ $<$ \{x\}"
    table = Table("t", "c", ["a", "b"], [["x", Strong("1")], None, ["y|z", "2"]])
    assert r"x & \textbf{1} \\" in table.to_latex()
    assert "| x | **1** |\n| y\\|z | 2 |" in table.to_markdown()


@pytest.mark.parametrize("kind", ["pairs", "cards", "curves", "aliasing", "stats"])
def test_a_bad_input_is_named(p, tmp_path, kind):
    bad = tmp_path / "bad.file"
    bad.write_text("{}" if kind in ("cards", "aliasing", "stats") else "a,b\n1,2\n")
    given = {kind: bad if kind == "stats" else [bad]}
    with pytest.raises(UserError, match="bad.file: ") as error:
        getattr(inputs.read(p, **given), kind)  # pairs and curves are read when they are asked for
    assert "\n" not in str(error.value)
    assert inputs.read(p, stats=tmp_path / "absent.json").stats["cells"] == []


# Looking damages nothing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["judge", "claims", "render", "page"])
def test_without_rows_committed_results_are_left_alone(p, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    committed = tmp_path / "results/desk/evidence/claims.json"
    committed.parent.mkdir(parents=True)
    committed.write_text("[]")
    run = {
        "judge": lambda: judge.run([], committed.parent, p.judge),
        "claims": lambda: claims.run(ROOT / "paper/claims.yaml", [], [], committed.parent, p.judge),
        "render": lambda: gather.run(p),
        "page": lambda: build.run(p),
    }
    with pytest.raises(
        UserError, match="^no rows.* are here: run `make reproduce.* first; the committed results are lef"
    ):
        run[verb]()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [committed]
    assert committed.read_text() == "[]"


def test_a_destination_that_is_no_folder_is_refused(p, tmp_path, monkeypatch):
    rows = [write(tmp_path / "rows.parquet", outcomes([[[1.0]]]))]
    for out in (tmp_path / "stats.json", rows[0]):
        with pytest.raises(UserError, match=f"{out.name}: the name of a folder is expected"):
            judge.run(rows, out, p.judge)
        with pytest.raises(UserError, match=f"{out.name}: the name of a folder is expected"):
            claims.run(ROOT / "paper/claims.yaml", rows, [], out, p.judge)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_pdf_needs_tables_too(tmp_path):
    (tmp_path / "numbers.tex").write_text("")
    with pytest.raises(UserError, match=r"main\.tex: no such file; run `tdjepa render` first"):
        pdf._copy_inputs(ROOT / "paper", tmp_path, tmp_path)


def test_stored_claims_are_shown_by_theme(p, tmp_path, capsys):
    rows = [write(tmp_path / "rows.parquet", outcomes([[[1.0]]]))]
    claims.run(ROOT / "paper/claims.yaml", rows, [], tmp_path / "evidence", p.judge)
    claims.show(tmp_path / "evidence/claims.json")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Does it plan better?"
    assert lines[1].split()[:2] == ["–", "Two-Room:"]
    assert lines[-1].startswith("Margins, premises and primary claims: claims.yaml: ")
    with pytest.raises(UserError, match="claims.json: no such file: nothing was judged yet"):
        claims.show(tmp_path / "claims.json")
