"""The contract of Snakemake and DVC, at the smoke scale, counted by the jobs that really ran.

The DAG is run once; the tests then change copies of that folder. Its path holds a space, and so do theirs.
"""

import contextlib
import os
import signal
import subprocess

import psutil
import pytest
import yaml

from clone import METHODS, NOTHING, REPORT, ROOT, TRAIN, TRAININGS, Clone
from tdjepa.steps.registry import PHASES

pytestmark = pytest.mark.pipeline

RENDER = {"tables", "figures", "numbers", "paper"}
AFTER_TRAINING = {f"{verb}_{t}" for verb in ("evaluate", "diagnose", "probe") for t in TRAININGS} | REPORT
AFTER_TRAINING |= {"sweep_blend_two_room_tdjepa_3072"}
UNTRAINED = {"floors_two_room", "ceiling_two_room_1", "ceiling_two_room_2", "ladder_two_room"}
EVERYTHING = {"collect_two_room", "mine_two_room"} | UNTRAINED | TRAIN | AFTER_TRAINING
LEWM = {job for job in EVERYTHING if "lewm" in job} | {"ladder_two_room"} | REPORT  # the ladder has its recipe
UP_TO_DATE = "Data and pipelines are up to date."


def change_lewm(clone: Clone) -> None:
    """One training parameter of one method."""
    clone.change("scales.smoke.recipes", {"lewm": {"when": {"method": "lewm"}, "train": {"lr": 2e-3}}})


def settled(clone: Clone) -> None:
    """Neither manager finds anything to do."""
    assert clone.planned() == set()
    assert UP_TO_DATE in clone.dvc("status")


@pytest.fixture
def clone(first_run, folder, request):
    """A copy of the first run for one test."""
    return first_run[0].copy(folder / request.node.name)


@pytest.fixture(scope="module")
def changed_by_snakemake(first_run, folder):
    """The first run after one change of a parameter and `snakemake`. -> (clone, the jobs that ran)"""
    clone = first_run[0].copy(folder / "changed by snakemake")
    change_lewm(clone)
    with clone.executed() as jobs:
        clone.snakemake("all")
    return clone, jobs


@pytest.fixture(scope="module")
def remote(first_run, folder):
    """The first run pushed to a DVC remote."""
    clone, place = first_run[0].copy(folder / "pushed"), folder / "remote"
    clone.dvc("remote", "add", "--local", "--default", "store", str(place))
    clone.dvc("push")
    return clone.path, place


def pulled(remote, folder, links: str) -> Clone:
    """A fresh clone with pulled results."""
    origin, place = remote
    clone = Clone(folder / f"pulled {links}")
    subprocess.run(["git", "clone", "--quiet", str(origin), str(clone.path)], check=True)
    clone.dvc("config", "--local", "cache.type", links)
    clone.dvc("remote", "add", "--local", "--default", "store", str(place))
    clone.dvc("pull")
    checkpoint = next((clone.path / "results/smoke/train").rglob("*.safetensors"))
    assert (checkpoint.is_symlink(), checkpoint.stat().st_nlink > 1) == (links == "symlink", links == "hardlink")
    return clone


def test_the_run_says_what_it_will_do_and_what_came_out(first_run):
    _, said, jobs = first_run
    assert jobs == EVERYTHING
    assert f"scale smoke: {len(EVERYTHING)} jobs on 2 cores, about " in said
    assert said.index("scale smoke") < said.index("Job 1:")
    summary = said[said.index("\nMethod ") : said.index("Complete log")].splitlines()
    assert any(line.startswith("paper ") and "results/smoke/paper.pdf" in line for line in summary)
    assert any(line.startswith("page ") and "results/smoke/page/index.html" in line for line in summary)
    assert len(summary) <= 40


def test_second_run_does_nothing(clone):
    with clone.executed() as jobs:
        assert NOTHING in clone.snakemake("all")
        assert UP_TO_DATE in clone.dvc("repro")
    assert jobs == set()
    assert UP_TO_DATE in clone.dvc("status")


def test_another_scale_leaves_the_lock_of_the_others_alone_and_starts_none_of_them(first_run):
    clone, _, _ = first_run
    before, after = (yaml.safe_load((path / "dvc.lock").read_text())["stages"] for path in (ROOT, clone.path))
    assert before
    assert {name: content for name, content in after.items() if not name.endswith("@smoke")} == before
    assert {name for name in after if name.endswith("@smoke")} == {f"{phase}@smoke" for phase in PHASES}
    assert clone.dvc("stage", "list", "--name-only").split() == [f"{phase}@smoke" for phase in PHASES]


def test_nothing_of_the_cache_is_in_git_and_all_of_the_report_is(first_run):
    tracked = first_run[0].run("git", "ls-files", "data", "results").splitlines()
    assert {path.split("/")[2] for path in tracked} == {"evidence", "report"}
    assert first_run[0].run("git", "status", "--porcelain") == ""


def test_changed_parameter_by_snakemake_and_a_checkout_of_the_commit_before(first_run, changed_by_snakemake, folder):
    clone, jobs = changed_by_snakemake
    assert jobs == LEWM
    before, after = first_run[0].artefacts("results/smoke/train"), clone.artefacts("results/smoke/train")
    assert {name for name in before if before[name] != after[name]} == {name for name in before if "lewm" in name}
    # DVC agrees; then to the commit before and back
    clone = clone.copy(folder / "history")
    with clone.executed() as jobs:
        clone.dvc("repro")
    assert jobs == set()
    settled(clone)
    clone.commit("changed")
    new = clone.artefacts()
    for commit, results in (("HEAD~1", first_run[0].artefacts()), ("-", new)):
        clone.run("git", "checkout", "--quiet", commit)
        clone.dvc("checkout")
        assert clone.artefacts() == results
        settled(clone)


def test_dvc_shows_what_changed(changed_by_snakemake, folder):
    clone = changed_by_snakemake[0].copy(folder / "shown by dvc")
    assert "scales.smoke.recipes" in clone.dvc("params", "diff")
    assert "two_room.lewm.l2" in clone.dvc("metrics", "diff", "--all")  # tiny trainings may fail and succeed alike
    assert "dvc_plots/index.html" in clone.dvc("plots", "diff")


def test_a_method_that_is_taken_out_leaves_nothing_and_comes_back_as_it_was(clone, first_run):
    tracked = ("train", "rows", "diagnostics")
    clone.change("scales.smoke.methods_run", METHODS[:2])
    assert clone.planned("evaluate_all") == set()
    assert "no job makes 22 files any more" in clone.snakemake("evaluate_all")
    left = clone.artefacts(*(f"results/smoke/{name}" for name in tracked))
    assert not [name for name in left if METHODS[2] in name]
    clone.change("scales.smoke.methods_run", METHODS)
    assert clone.planned() == set()
    assert clone.artefacts() == first_run[0].artefacts()


def test_touch_does_nothing(clone):
    for pattern in ("src/**/*", "paper/*", "params.yaml", "Snakefile", "workflow/**/*", "data/**/*", "results/**/*"):
        for path in clone.path.glob(pattern):
            path.touch()
    settled(clone)


def test_changed_source_reruns_its_consumers(clone):
    consumers = {
        "src/tdjepa/evidence/intervals.py": REPORT,
        "src/tdjepa/report/pdf.py": {"paper"},
        "src/tdjepa/report/page/page.css": {"page"},
        "src/tdjepa/report/captions.yaml": {"tables", "page", "paper"},
        "src/tdjepa/report/pipeline.py": {"figures", "page", "paper"},
        "paper/claims.yaml": {"claims", "page"} | RENDER,
        "paper/main.tex": {"paper"},
        "src/tdjepa/steps/train.py": TRAIN | AFTER_TRAINING | {"ladder_two_room"},  # which trains too
    }
    texts = {file: (clone.path / file).read_text() for file in consumers}
    for file, jobs in consumers.items():
        (clone.path / file).write_text(f"{texts[file]}\n")
        os.utime(clone.path / file, (1, 1))  # content decides, not the time
        assert clone.planned() == jobs
        (clone.path / file).write_text(texts[file])
    settled(clone)
    for file in consumers:
        (clone.path / file).write_text(f"{texts[file]}\n")
    said = clone.dvc("status")
    assert [file for file in consumers if file not in said] == []


def test_changed_or_lost_results_are_made_again(clone):
    stats = clone.path / "results/smoke/evidence/stats.json"
    text = stats.read_text()
    stats.write_text(text.replace("0", "1"))
    assert clone.planned() == REPORT - {"claims"}
    stats.write_text(text)
    assert clone.planned() == set()
    rows = ("rows/two_room/floors.parquet", {"floors_two_room"} | REPORT)
    for file, jobs in (("report/tables/main.md", {"tables", "paper"}), rows):
        (clone.path / "results/smoke" / file).unlink()
        assert clone.planned() == jobs
    assert "results/smoke/rows" in clone.dvc("status")


def test_records_of_snakemake_lost(clone):
    for path in (clone.path / ".snakemake/metadata").iterdir():
        path.unlink()
    settled(clone)
    change_lewm(clone)
    assert clone.planned() == LEWM


def test_pulled_copies(remote, folder):
    clone = pulled(remote, folder, "copy")
    settled(clone)
    change_lewm(clone)
    assert clone.planned() == LEWM


def test_pulled_hardlinks_and_changed_parameter_by_dvc(changed_by_snakemake, remote, folder):
    clone = pulled(remote, folder, "hardlink")
    settled(clone)
    change_lewm(clone)
    with clone.executed() as jobs:
        clone.dvc("repro")
    assert jobs == LEWM
    assert clone.artefacts() == changed_by_snakemake[0].artefacts()
    settled(clone)


def test_pulled_symlinks_and_stale_results(remote, folder):
    """DVC's unprotect gives results new time stamps before their stage runs: they must not pass for new results."""
    clone = pulled(remote, folder, "symlink")
    settled(clone)
    change_lewm(clone)
    with clone.executed() as jobs:
        clone.dvc("repro", "train")
    trainings = {job for job in LEWM if job.startswith("train")}
    assert jobs == trainings
    clone.dvc("unprotect", "results/smoke/rows", "results/smoke/diagnostics")
    assert clone.planned() == LEWM - trainings


TRAINING = "results/smoke/train/two_room/lewm/3073"
COMMAND = ["snakemake", "--cores", "1", "train_all"]


def interrupt(clone: Clone, signal_them) -> int:
    """Remove a training, start the command, and do that to it between the first epoch and the last. -> its exit status

    The training stands still from the look at its epochs to the signal, so that it cannot be over in between.
    """
    training = clone.path / TRAINING
    first, last = (training / f".running/epoch_0{epoch}.safetensors" for epoch in (1, 2))
    for _ in range(5):  # on a busy machine the training may be over before the look
        for path in training.iterdir():
            path.unlink()
        reached = False
        with clone.running(*COMMAND, until=first.exists) as run, contextlib.suppress(psutil.NoSuchProcess):
            for process in training_processes(run):
                process.suspend()
                reached = first.exists() and not last.exists()
                if reached:
                    signal_them(run, process)
                process.resume()
        if reached:
            return run.returncode
    pytest.fail("the training was over before each signal")


def training_processes(run) -> list[psutil.Process]:
    """The Python that trains, if it is still there; the shells and `timeout` around it name it too."""
    below = psutil.Process(run.pid).children(recursive=True)
    return [p for p in below if "python" in p.name() and "train" in p.cmdline()]


def test_killed_in_mid_training(clone, first_run):
    whole = first_run[0].artefacts()
    interrupt(clone, lambda run, _: os.killpg(run.pid, signal.SIGKILL))
    left = clone.artefacts("results/smoke/train")
    assert left == {name: content for name, content in whole.items() if name in left}  # nothing half under a final name
    assert not any(name.startswith(TRAINING) for name in left)
    with clone.executed() as jobs:
        said = clone.run(*COMMAND)
    assert "An earlier run was killed" in said
    assert jobs == {"train_two_room_lewm_3073"}
    assert clone.artefacts() == whole
    settled(clone)


def test_preempted_training_is_started_again(clone, first_run):
    """SIGTERM to the training alone, as a cluster sends it: it saves itself and its job goes on, in the same run."""
    assert interrupt(clone, lambda _, training: training.terminate()) == 0
    log = clone.path / "results/smoke/logs/train_two_room_lewm_3073.log"
    assert "stopped by SIGTERM after step" in log.read_text()
    assert clone.artefacts() == first_run[0].artefacts()
    settled(clone)


def test_bad_parameters(clone):
    clone.change("scales.smoke.train.lr", "fast")
    clone.change("scales.smoke.train.bacth", 3)
    for said in (clone.snakemake("all", status=2), clone.dvc("repro", status=255)):
        assert "tdjepa: params.yaml: train.lr = 'fast': " in said
        assert "tdjepa: params.yaml: train.bacth = 3: no such key" in said
        assert "Traceback" not in said
    assert not list((clone.path / ".snakemake/locks").glob("*"))
    (clone.path / "params.yaml").write_text("scale: smoke\ntrain: [\n")
    said = clone.snakemake("all", status=2)
    assert "tdjepa: params.yaml: not YAML: " in said
    assert "line 3" in said


def test_pictures_are_drawn_for_who_asks_and_are_part_of_nothing(clone):
    clone.snakemake("pictures")
    drawn = {path.name for path in (clone.path / "results/smoke/pictures/two_room").iterdir()}
    episodes = {f"tdjepa_3072_d_psi_{pair}.gif" for pair in range(3)}
    assert drawn >= episodes | {"tdjepa_3072_landscape.pdf", "tdjepa_3072_landscape.png"}
    settled(clone)
