"""A part of a scale: some of its jobs, none of them changed, with a report of its own."""

import pytest

from clone import NOTHING, REPORT, Clone
from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config import runs
from tdjepa.config.load import load, resolve
from tdjepa.config.part import choose, place, text
from tdjepa.config.yaml_file import read_yaml
from tdjepa.steps.registry import STEPS
from tdjepa_workflow.files import Files
from tdjepa_workflow.sources import slice_of

WORDS = {"envs": "push_t", "methods": "lewm,tdjepa", "seeds": 3073}


@pytest.fixture(scope="module")
def paper():
    return load(ROOT / "params.yaml", "paper")


def test_a_part_is_some_jobs_of_the_scale_unchanged(paper):
    chosen = choose(paper, WORDS)
    assert runs.trainings(chosen) == [("push_t", "tdjepa", 3073), ("push_t", "lewm", 3073)]
    for name, step in STEPS.items():
        if step.jobs in ("once", "released", "generated") or not step.gives:
            continue
        jobs = runs.jobs(chosen, step.jobs)
        assert [job for job in jobs if job not in runs.jobs(paper, step.jobs)] == []
        assert {job["env"] for job in jobs} <= {"push_t"}
        for job in jobs:  # 3073 is not the first seed here either, which alone has epoch curves
            assert slice_of(chosen, name, job) == slice_of(paper, name, job)
    assert {job["sweep"] for job in runs.jobs(chosen, "sweeps")} == {"gates", "solvers"}


def test_only_the_report_of_a_part_lies_elsewhere(paper):
    chosen, whole = Files(choose(paper, WORDS)), Files(paper)
    for phase, files in chosen.phases().items():
        elsewhere = [file for file in files if file not in whole.phases()[phase]]
        assert (elsewhere == files) == (phase in ("judge", "render", "page", "paper"))
        assert all(file.startswith("results/paper/parts/push_t-tdjepa-lewm-3073/") for file in elsewhere)
    assert chosen.known() == whole.known()  # nothing of the scale is taken for a leftover


def test_words_in_any_order_and_form_name_the_same_part(paper):
    wanted = choose(paper, WORDS)
    assert choose(paper, {"seeds": [3073], "methods": ["tdjepa", "lewm", "lewm"], "envs": ("push_t",)}) == wanted
    assert text(wanted) == "envs=push_t methods=tdjepa,lewm seeds=3073"
    whole = {"envs": ",".join(reversed(paper.envs)), "methods": list(paper.methods_run), "seeds": "3074, 3073,3072"}
    assert choose(paper, whole) == choose(paper, {}) == paper
    assert (text(paper), place(paper)) == ("", "paper")
    assert runs.trainings(choose(paper, {"methods": "rc_aux", "envs": "cube"}))[0] == ("cube", "rc_aux", 3072)
    many = choose(paper, {"methods": runs.widened(paper).methods_run, "seeds": [3072, 3073]})
    assert len(place(many).rsplit("/", 1)[1]) < 120


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"envs": "push"}, "envs = 'push': 'push' must be of scale paper: two_room, reacher, push_t, cube"),
        ({"methods": "lewm,tdjeppa"}, "'tdjeppa' must be of scale paper: .*; did you mean 'tdjepa'\\?"),
        ({"seeds": 3075}, "'3075' must be of scale paper: 3072, 3073, 3074; did you mean"),
        ({"envs": ""}, "envs = '': '' must be"),
        (
            {"envs": "cube", "methods": "tdjepa_no_hinge"},
            "no such training at scale paper; tdjepa_no_hinge runs in push_t",
        ),
    ],
)
def test_bad_names_are_one_line(paper, words, said):
    with pytest.raises(UserError, match=said) as error:
        choose(paper, words)
    assert "\n" not in str(error.value)


def test_a_part_is_no_parameter():
    raw = read_yaml(ROOT / "params.yaml")
    raw["scales"]["smoke"]["part"] = {"envs": ["two_room"]}
    with pytest.raises(UserError, match="part: no such key; a part of a scale is named on the command line"):
        resolve(raw, "smoke")


def test_its_cost_is_asked_for_in_the_same_words(capsys):
    asked = ["cost", "--params", str(ROOT / "params.yaml"), "--scale", "smoke"]
    assert main([*asked, "--methods", "lewm,tdjepa", "--seeds", "3072"]) == 0
    head, _, train, *rest = capsys.readouterr().out.splitlines()
    assert head.startswith("scale smoke, the part methods=tdjepa,lewm seeds=3072, assuming")
    assert train.split()[:2] == ["train", "2"]
    assert not any("extras" in line for line in rest)
    assert main([*asked, "--envs", "cube"]) == 2
    assert "--envs = 'cube': 'cube' must be of scale smoke: two_room" in capsys.readouterr().err


@pytest.mark.pipeline
def test_a_part_leaves_the_committed_report_alone_and_the_whole_takes_it_over(first_run, folder):
    whole: Clone = first_run[0]
    whole.run("git", "clone", "--quiet", ".", str(folder / "part"))
    clone, part = Clone(folder / "part"), ("all", "--config", "methods=lewm", "seeds=3073")
    with clone.executed() as made:
        said = clone.snakemake(*part)
    trained = {f"{step}_two_room_lewm_3073" for step in ("train", "evaluate", "diagnose", "probe")}
    once = {f"{step}_two_room" for step in ("collect", "mine", "floors", "ladder")}
    assert made == trained | once | {"ceiling_two_room_1", "ceiling_two_room_2"} | REPORT
    assert "its report is made in results/smoke/parts/lewm-3073; that of the whole scale stays as it is" in said
    assert clone.run("git", "status", "--porcelain") == ""
    report = clone.path / "results/smoke/parts/lewm-3073"
    summary = (report / "report/summary.md").read_text()
    assert "Only the part methods=lewm seeds=3073 was asked for." in summary
    assert "| TD-JEPA | d_ψ | not run" in summary
    assert (report / "paper.pdf").exists()
    assert (report / "page/index.html").exists()
    assert NOTHING in clone.snakemake(*part)
    with clone.executed() as rest:
        said = clone.snakemake("all")
    assert rest == (first_run[2] - made) | REPORT
    assert "set aside" not in said
    theirs = {name: text for name, text in clone.artefacts().items() if "/parts/" not in name}
    assert theirs.keys() == whole.artefacts().keys()
    same = {name for name in theirs if name.endswith((".parquet", ".safetensors", "stats.json", ".tex"))}
    same -= {
        name for name in same if name.endswith(("numbers.tex", "claims.tex"))
    }  # they name the commit of the ledger
    assert [name for name in same if theirs[name] != whole.artefacts()[name]] == []
