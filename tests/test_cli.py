"""The command line: instant help, clear errors with status 2, no stack trace for a user's mistake."""

import json
import re
import signal
import subprocess
import sys

import pytest

from children import LIMIT
from conftest import ROOT
from tdjepa.cli import main
from tdjepa.config.slices import collect_slice, slice_json


def run(*args, cwd=ROOT):
    command = [sys.executable, "-m", "tdjepa", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT)


def test_help_imports_nothing_heavy():
    code = "import sys; from tdjepa.cli import argument_parser; argument_parser(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "torch", "pandas", "pydantic", "yaml", "h5py"} & set(loaded)
    assert "collect" in run("--help").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("collect", "--env", "three_room"), "--env three_room: must be one of two_room, reacher, push_t, cube"),
        (("train", "--method", "../../etc"), "--method ../../etc: not among methods"),
        (("collect", "--scale", "huge"), "scale = 'huge': must be one of "),
        (("collect", "--slice", "{"), "--slice: not JSON"),
        (("collect", "--slice", "{}"), "--slice: env: missing"),
        (("collect", "--params", "absent.yaml"), "absent.yaml: No such file"),
        (("judge", "--rows", "absent.parquet"), "absent.parquet"),
        (("evaluate", "--sweep", "everything"), "--sweep everything: must be one of evaluate.sweeps: blend, gates,"),
        (("evaluate", "--method", "floors", "--sweep", "blend"), "--sweep blend: the floors do not plan"),
        (("landscape", "--out", "x.svg"), "--out x.svg: is written as .pdf and .png; name it x.pdf"),
        (("bench", "evaluate", "--size", "paper"), "--size: bench evaluate does not take it; leave it out"),
        (("diagnose", "--scale=smoke", "--checkpoint", "x"), "--checkpoint: 1 given; give 2, those of the epochs 1, 2"),
    ],
)
def test_mistakes_give_one_line_and_status_two(args, message, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(list(args)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert all(line.startswith("tdjepa: ") for line in said.splitlines())


@pytest.mark.parametrize(
    ("args", "meant"), [(("colect",), "collect"), (("train", "--sead", "3"), "--seed"), (("bench", "trian"), "train")]
)
def test_a_misspelt_word_comes_with_what_was_meant(args, meant, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(list(args))
    assert stopped.value.code == 2
    assert capsys.readouterr().err.strip().endswith(f"did you mean {meant}?")


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "tdjepa", "params", "--params", str(ROOT / "params.yaml"), "--scale", "smoke"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as told:
        told.stdout.close()  # as head does after its last line
        assert told.stderr.read() == ""
    assert told.returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize("verb", ["train", "picture", "landscape", "diagnose", "probe", "import"])
def test_only_evaluate_knows_the_floors(verb, capsys):
    needed = ["--from", "x", "--out", "y"] if verb == "import" else []
    assert main([verb, "--params", str(ROOT / "params.yaml"), "--scale", "smoke", "--method", "floors", *needed]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tdjepa: --method floors: not among methods: ")
    assert len(said.splitlines()) == 1


def test_a_readme_without_a_report_to_copy(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("<!-- summary:smoke -->\n<!-- /summary:smoke -->\n")
    command = ["summary", "--params", str(ROOT / "params.yaml"), "--scale", "smoke", "--readme", "README.md"]
    assert main(command) == 2
    missing = "tdjepa: results/smoke/report/summary.md: no such file; `tdjepa render --scale smoke` makes it"
    assert capsys.readouterr().err.startswith(missing)


def test_a_bad_parameter_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bad = (ROOT / "params.yaml").read_text().replace("lr: 2.0e-3", "lr: fast\n      rate: 3")
    (tmp_path / "params.yaml").write_text(bad)
    assert main(["params"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "tdjepa: params.yaml: train.lr = 'fast': input should be a valid number",
        "tdjepa: params.yaml: train.rate = 3: no such key; check the spelling against the comments in params.yaml",
    ]


def test_the_verbs_chain_at_a_shell(smoke, tmp_path, monkeypatch, capsys):
    """As a person would: in a folder with params.yaml, verb after verb, with nothing but --scale."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    for verb in ("collect", "mine", "train", "evaluate", "diagnose", "probe", "ceiling"):
        assert main([verb, "--scale", "smoke"]) == 0, verb
    assert main(["evaluate", "--method", "floors", "--scale", "smoke"]) == 0
    assert "success: the agent comes within 16 px" in capsys.readouterr().out
    rows = sorted(map(str, tmp_path.glob("results/smoke/rows/two_room/*.parquet")))
    assert main(["judge", "--rows", *rows, "--out", str(tmp_path / "evidence"), "--scale", "smoke"]) == 0
    stats = json.loads((tmp_path / "evidence/stats.json").read_text())
    assert {cell["method"] for cell in stats["cells"]} == {"tdjepa", "random", "zero", "replay", "simulator"}


def test_rows_can_be_judged_outside_the_project(smoke, data, trained, tmp_path):
    from test_evaluation import evaluate

    evaluate(smoke, data, trained, tmp_path / "r.parquet")
    result = run("judge", "--rows", "r.parquet", "--out", "here", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "CPU-seconds" not in result.stdout  # what jobs of the workflow say
    assert json.loads((tmp_path / "here/stats.json").read_text())["cells"]


def test_slices_reach_a_verb_as_json(smoke, tmp_path, capsys):
    text = slice_json(collect_slice(smoke, "two_room"))
    assert main(["collect", "--slice", text, "--out", str(tmp_path / "x.h5")]) == 0
    assert (tmp_path / "x.card.json").exists()
    assert re.search(r"^job: \d+\.\d CPU-seconds$", capsys.readouterr().out, re.MULTILINE)
