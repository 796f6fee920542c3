"""What a scale costs: every GPU job of the pipeline counted, and work that grows with what is asked for."""

import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config import runs
from tdjepa.config.load import load
from tdjepa.config.params import Params
from tdjepa.config.slices import train_slice
from tdjepa.tools import cost
from tdjepa.tools import time_spent as spent
from tdjepa_workflow import files as phases


def flop(p: Params, kind: str) -> float:
    return sum(job.flop for job in cost.jobs(p) if job.kind == kind)


def test_the_jobs_are_those_of_the_pipeline(smoke):
    files, jobs = phases.Files(smoke), cost.jobs(smoke)
    swept = [job.name.split("/") for job in jobs if job.kind == "sweep"]
    assert [files.one("sweep", sweep=s, env=e, method=m, seed=n) for s, e, m, n in swept] == files.all("sweep") != []
    for kind in ("train", "evaluate"):
        assert [job.name for job in jobs if job.kind == kind] == ["/".join(map(str, t)) for t in runs.trainings(smoke)]


def test_work_grows_with_epochs_seeds_and_episodes(smoke):
    longer = smoke.train.model_copy(update={"epochs": 2 * smoke.train.epochs})
    assert flop(smoke.model_copy(update={"train": longer}), "train") == 2 * flop(smoke, "train")
    twice = {name: d.model_copy(update={"pairs": 2 * d.pairs}) for name, d in smoke.evaluate.designs.items()}
    more = smoke.evaluate.model_copy(update={"designs": twice, "curve_pairs": 2 * smoke.evaluate.curve_pairs})
    assert flop(smoke.model_copy(update={"evaluate": more}), "evaluate") == 2 * flop(smoke, "evaluate")
    one = smoke.model_copy(update={"train_seeds": smoke.train_seeds[:1]})
    assert flop(one, "train") == flop(smoke, "train") / 2


def test_the_paper_scale_takes_every_window_of_the_released_data():
    p = load(ROOT / "params.yaml", "paper")
    cfg = train_slice(p, "two_room", "lewm", 3072)
    window = cost.flop_of_a_window(cfg, 224)
    windows = 0.8 * (920_809 - 10_000 * (4 * 5 - 1))  # a window takes 20 rows
    assert cost.training_flop(p, cfg) == pytest.approx(10 * windows * window, rel=1e-3)
    # ViT-tiny at 224 px is known to take 2.5 GFLOP forward with 196 patches of 16 px; ours has 256 of 14 px, and four frames
    assert window == pytest.approx(3 * 4 * 2.5e9 * 257 / 197, rel=0.2)


@pytest.mark.parametrize("flag", ["--train-tflops", "--plan-tflops", "--peak-tflops"])
@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf"])
def test_a_rate_that_is_not_positive_is_refused(flag, rate, capsys):
    assert main(["cost", "--params", str(ROOT / "params.yaml"), "--scale", "smoke", f"{flag}={rate}"]) == 2
    assert f"{flag} {rate}: must be a positive number" in capsys.readouterr().err


def test_a_step_is_timed_when_asked(smoke, capsys):
    cfg = train_slice(smoke, *runs.trainings(smoke)[0])
    seconds, flop, peak = cost.measured_window(smoke, cfg, rounds=1)
    assert 0 < flop / seconds < peak  # no step is faster than its products
    cost.run(smoke, 30, 5, 312, measure=True)
    assert "a window of tdjepa takes" in capsys.readouterr().out
    cost.run(smoke, 30, 5)
    assert "measured" not in capsys.readouterr().out


def test_the_readme_shows_what_is_printed(capsys):
    assert main(["cost", "--params", str(ROOT / "params.yaml"), "--scale", "paper"]) == 0
    assert capsys.readouterr().out in (ROOT / "README.md").read_text()


def test_what_a_run_took_is_read_from_its_jobs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("benchmarks", "logs"):
        (tmp_path / "results/desk" / folder).mkdir(parents=True)
    for name, wall, said in (("train_a", 90, "job: 60.0 CPU-seconds"), ("train_b", 30, "killed"), ("judge", 6, "")):
        (tmp_path / f"results/desk/benchmarks/{name}.tsv").write_text(f"s\th:m:s\n{wall}\t0:00:00\n")
        (tmp_path / f"results/desk/logs/{name}.log").write_text(f"loss 1\n{said}\n")
    spent.run("desk")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["judge", "1", "0.1", "–", "judge,", "6", "s"]
    assert lines[2] == ["train", "2", "2.0", "1.0", "(1)", "train_a,", "90", "s"]
    assert lines[3][:4] == ["all", "3", "2.1", "1.0"]
    (tmp_path / "results/desk/benchmarks/judge.tsv").write_text("s\nnothing\n")
    with pytest.raises(UserError, match=r"judge\.tsv: is no benchmark file"):
        spent.run("desk")
    with pytest.raises(UserError, match="results/smoke/benchmarks: holds no times"):
        spent.run("smoke")
