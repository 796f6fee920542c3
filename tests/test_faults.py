"""Whatever happens to a run, the next one ends with the same bytes, and a person is told in one line what went wrong.

Elsewhere: trainings and downloads that are killed (test_resume.py, test_fetch.py), whole runs that are killed
(test_workflow.py), two runs at once and parameters that change meanwhile (test_determinism.py).
"""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time

import pytest

from children import LIMIT, Child
from clone import REPORT, Clone
from tdjepa.base import snapshot
from tdjepa.base.artefacts import publish, write_text
from tdjepa.base.errors import UserError
from tdjepa.base.journal import Journal
from tdjepa.base.streams import stream
from tdjepa.cli import main
from tdjepa.config.slices import collect_slice, slice_json, train_slice
from tdjepa.steps import train as training
from tdjepa_workflow import announce

TRAINED = ["--method", "lewm"]
LATENTS = "results/smoke/diagnostics/two_room/lewm_3072"
VERBS = {  # verb -> its arguments, what it makes, how often it is killed
    "collect": (["collect"], ["data/smoke/episodes"], 3),
    "mine": (["mine"], ["data/smoke/mined"], 2),
    "train": (["train", *TRAINED], ["results/smoke/train/two_room/lewm"], 3),
    "evaluate": (["evaluate", *TRAINED, "--times", "times.csv"], ["results/smoke/rows/two_room/lewm_3072.*"], 4),
    "diagnose": (["diagnose", *TRAINED], [f"{LATENTS}_pairs.*", f"{LATENTS}_aliasing.json"], 2),
    "probe": (["probe", *TRAINED], [f"{LATENTS}_probe.json"], 1),
    "judge": (["judge"], ["results/smoke/evidence/stats.json", "results/smoke/evidence/cells.csv"], 2),
    "tables": (["render", "--only", "tables"], ["results/smoke/report/tables"], 2),
    "figures": (["render", "--only", "figures"], ["results/smoke/report/figures"], 3),
    "page": (["page", "--times", "workflow/expected_seconds.yaml"], ["results/smoke/page"], 2),
    "paper": (["paper"], ["results/smoke/paper.pdf"], 2),
}


def test_enough_kills():
    assert sum(kills for *_, kills in VERBS.values()) >= 20


@pytest.fixture(scope="module")
def place(small_run):
    """A copy of the small run for the verbs at a shell: each leaves it as it found it."""
    clone = small_run.copy(small_run.path.parent / "verbs")
    warm_up(clone)
    return clone


def warm_up(clone: Clone) -> None:
    """The server of the children has loaded everything before anything is timed."""
    assert Child(os.getpid, said=clone.path / "said").wait() == 0


def made(clone: Clone, patterns: list[str]) -> dict[str, bytes]:
    """The files of a verb with their contents, temporaries included."""
    roots = [path for pattern in patterns for path in clone.path.glob(pattern)]
    found = [path for root in roots for path in ([root] if root.is_file() else root.rglob("*"))]
    hidden = [path for root in roots for path in root.parent.glob(".*.part*")]
    files = {path for path in (*found, *hidden) if path.is_file()}
    return {str(path.relative_to(clone.path)): path.read_bytes() for path in sorted(files)}


def remove(clone: Clone, patterns: list[str]) -> None:
    for pattern in patterns:
        for path in list(clone.path.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def attempt(clone: Clone, argv: list[str], limit: int | None = None) -> Child:
    """The verb in a child process; what it says is in the file `said`."""
    return Child(verb_in, clone.path, argv, said=clone.path / "said", file_limit=limit)


def verb_in(folder, argv: list[str]) -> None:
    os.chdir(folder)
    sys.exit(main(argv))


def finished(clone: Clone, argv: list[str]) -> float:
    """Run the verb to its end; -> seconds."""
    clock = time.perf_counter()
    child = attempt(clone, argv)
    assert child.wait() == 0, child.said.read_text()
    return time.perf_counter() - clock


@pytest.mark.pipeline
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_random_moments(verb, place):
    argv, patterns, wanted = VERBS[verb]
    whole = made(place, patterns)
    assert whole
    remove(place, patterns)
    seconds = finished(place, argv)
    assert made(place, patterns) == whole
    rng, kills = stream(7, "kills", verb), 0
    remove(place, patterns)
    for _ in range(20 * wanted):
        child = attempt(place, argv)
        killed = not child.ended_within(rng.uniform(0, 0.9) * seconds)
        child.kill()
        kills += killed
        left = {name: content for name, content in made(place, patterns).items() if "/." not in name}
        assert left == {name: whole[name] for name in left}  # nothing half under a final name
        if not killed:
            assert child.wait() == 0, child.said.read_text()
            seconds *= 0.8  # a machine that has become faster is killed in time too
            remove(place, patterns)
        if kills == wanted:
            break
    assert kills == wanted
    finished(place, argv)
    assert made(place, patterns) == whole  # and no temporary of the dead is left


@pytest.mark.pipeline
@pytest.mark.parametrize("verb", ["mine", "diagnose", "judge", "tables", "figures", "page", "paper"])
def test_no_room_for_what_a_verb_makes(verb, place):
    """collect, train and evaluate are in test_artefacts.py."""
    argv, patterns, _ = VERBS[verb]
    whole = made(place, patterns)
    remove(place, patterns)
    child = attempt(place, argv, limit=1000)
    status, said = child.wait(), child.said.read_text()
    assert status == 2, said
    assert "no space left to write it (the disk or a quota is full)" in said
    assert f"tdjepa: {('data', 'results')[verb != 'mine']}/smoke/" in said
    assert "Traceback" not in said
    assert not [name for name in made(place, patterns) if ".part" in name]
    remove(place, [*patterns, "results/smoke/paper.log"])
    finished(place, argv)
    assert made(place, patterns) == whole


@contextlib.contextmanager
def small_disk(folder, size: int):
    """A disk of that many bytes at `folder` where this user may mount one, else a limit on the size of a file."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
    mounted = shutil.which("mount") and not subprocess.run(command, capture_output=True).returncode
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if not mounted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        if mounted:
            subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_full(tmp_path, smoke, capsys):
    folder = tmp_path / "small"
    with small_disk(folder, 64 << 10):
        argv = ["collect", "--slice", slice_json(collect_slice(smoke, "two_room"))]
        assert main([*argv, "--out", str(folder / "a/episodes.h5")]) == 2
        said = capsys.readouterr().err
        assert f"tdjepa: {folder}/a/episodes.h5: no space left to write it (the disk or a quota is full)" in said
        assert len(said.splitlines()) == 1
        assert not [path for path in folder.rglob("*") if path.is_file()]
        journal = Journal(folder / ".rows.journal", {"a": 1})

        def fill():
            for k in range(100):
                journal.add((k,), {"x": "x" * 1000})

        with pytest.raises(UserError, match=r"\.rows\.journal: no space left"):
            fill()
        with contextlib.suppress(OSError):
            journal.file.close()
        again = Journal(folder / ".rows.journal", {"a": 1})  # what was written is whole
        assert again.done
        assert all(value == {"x": "x" * 1000} for value in again.done.values())
        again.finish()


def without_privileges(command: list[str]) -> list[str]:
    """As a user whom permissions hold back: root is not."""
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command] if os.geteuid() == 0 else command


def test_results_that_may_not_be_written(tmp_path, smoke):
    folder = tmp_path / "results"
    folder.mkdir()
    folder.chmod(0o555)
    argv = ["collect", "--slice", slice_json(collect_slice(smoke, "two_room"))]
    for out in (folder / "episodes.h5", folder / "deeper/episodes.h5"):
        command = without_privileges([sys.executable, "-m", "tdjepa", *argv, "--out", str(out)])
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 2, done.stderr
        expected = f"tdjepa: {out}: cannot be written (Permission denied); make its folder writable"
        assert done.stderr.startswith(expected)
        assert len(done.stderr.splitlines()) == 1
    assert not list(folder.iterdir())


@pytest.mark.pipeline
def test_records_that_may_not_be_written(small_run):
    clone = small_run.copy(small_run.path.parent / "read only")
    records = clone.path / "results/smoke/provenance"
    (records / "judge.json").unlink()
    records.chmod(0o555)
    said = clone.run(*without_privileges(["snakemake", "--cores", "1", "all"]), status=2)
    assert "tdjepa: results/smoke/provenance: cannot be written (Permission denied)" in said
    assert "Traceback" not in said
    assert not list((clone.path / ".snakemake/locks").glob("*"))


@pytest.mark.parametrize("name", [".", ".snakemake"])
def test_a_project_that_may_not_be_written(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    folder.chmod(0o555)
    code = "from types import SimpleNamespace as N; from tdjepa_workflow.locks import hold; "
    code += "hold(N(output_settings=N(dryrun=False)))"
    command = without_privileges([sys.executable, "-c", code])
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"tdjepa: {name}: cannot be written (Permission denied)")
    assert len(done.stderr.splitlines()) == 1


def test_names_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file/x", tmp_path / "folder", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match="cannot be written"):
            write_text(path, "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_one_writer_does_not_sweep_away_another(tmp_path):
    with publish(tmp_path / "x.txt") as first:
        first.write_text("first")
        write_text(tmp_path / "x.txt", "second")
    assert (tmp_path / "x.txt").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


def test_two_at_once_in_one_folder(tmp_path, smoke, data):
    first = Journal(tmp_path / "j", {"a": 1})
    first.add((1, 7), {"x": [0.1 + 0.2]})
    with pytest.raises(UserError, match="another process is writing this journal"):
        Journal(tmp_path / "j", {"a": 1})
    first.file.close()
    assert Journal(tmp_path / "j", {"a": 1}).done == {(1, 7): {"x": [0.1 + 0.2]}}
    assert Journal(tmp_path / "j", {"a": 2}).done == {}  # of another job
    held = snapshot.Lock(tmp_path / "out")
    cfg = train_slice(smoke, "two_room", "lewm", 3072)
    with pytest.raises(UserError, match=r"out: another process is training into this folder"):
        training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path / "out")
    del held
    training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path / "out")
    assert (tmp_path / "out/curve.csv").exists()


def test_a_damaged_journal_is_used_up_to_the_damage(tmp_path):
    journal = Journal(tmp_path / "j", {"a": 1})
    for k in range(4):
        journal.add((k,), {"x": k})
    journal.file.close()
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    for damage in (b"\xff\xfe\n", b"{}\n", b"[]\n", b"null\n", b'{"key": 3, "value": 1}\n'):
        (tmp_path / "j").write_bytes(b"".join([*lines[:3], damage, *lines[4:]]))
        again = Journal(tmp_path / "j", {"a": 1})
        assert again.done == {(0,): {"x": 0}, (1,): {"x": 1}}
        again.file.close()
        assert (tmp_path / "j").read_bytes() == b"".join(lines[:3])


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "stopped"),
    [
        ("import time; print('begun', flush=True); time.sleep(60)", 124, True),
        ("import signal; signal.signal(15, signal.SIG_IGN); print('begun', flush=True); signal.pause()", 137, True),
        ("print('begun'); exit(75)", 75, False),
        ("import os; print('begun', flush=True); os.kill(os.getpid(), 9)", 137, False),
    ],
    ids=["hangs", "is deaf", "ends", "is killed"],
)
def test_a_job_ends_at_its_time_limit(code, status, stopped, tmp_path):
    """`stopped` jobs get two seconds and one of grace, the others all the time they want."""
    prefix = announce.job_prefix(str(tmp_path), (2 if stopped else 600) / 60, grace=1).replace("{{", "{")
    command = f'{prefix.replace("}}", "}")} python -c "$CODE" >log 2>&1'
    environment = os.environ | {"CODE": code, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, timeout=LIMIT)
    assert done.returncode == status
    assert ("tdjepa: stopped after 0.0333333 minutes, the time limit" in (tmp_path / "log").read_text()) == stopped


def test_no_time_limit_if_none_is_wanted(tmp_path):
    assert "timeout" not in announce.job_prefix(str(tmp_path), 0)


def test_a_job_that_is_told_to_stop_leaves_nothing(tmp_path):
    code = """
import os, signal, sys
from tdjepa import cli
from tdjepa.base import artefacts
def verb(call):
    with artefacts.publish(sys.argv[1]) as temporary:
        temporary.write_text("half")
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
cli.verbs.params = verb
sys.exit(cli.main(["params"]))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 130, done.stderr
    assert "tdjepa: stopped; nothing half-written is left" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.pipeline
def test_a_job_that_hangs_is_stopped_and_its_log_shown(small_run):
    clone = small_run.copy(small_run.path.parent / "hangs")
    source = clone.path / "src/tdjepa/steps/mine.py"
    hang = 'import time\nprint("reading the episodes", flush=True)\ntime.sleep(3600)\n'
    source.write_text(hang + source.read_text())
    clone.change("scales.smoke.runtime.job_minutes", 0.2)
    said = clone.snakemake("mine_all", status=1)
    shown = said[said.index("Logfile results/smoke/logs/mine_two_room.log:") :]
    assert "reading the episodes\ntdjepa: stopped; nothing half-written is left" in shown
    assert "tdjepa: stopped after 0.2 minutes, the time limit of a job" in shown
    assert not (clone.path / "data/smoke/mined/two_room/split.json").exists()


@pytest.mark.pipeline
def test_clocks_that_jump(small_run):
    """Time stamps of 2100 and of 1980, on sources, data and results: content decides."""
    clone = small_run.copy(small_run.path.parent / "clocks")
    future, past = 4102444800, 315532800
    source = clone.path / "src/tdjepa/evidence/intervals.py"
    for of_sources, of_results in ((future, past), (past, future)):
        for when, folders in ((of_sources, ("src", "paper", "workflow")), (of_results, ("data", "results"))):
            for path in (path for folder in folders for path in (clone.path / folder).rglob("*") if path.is_file()):
                os.utime(path, (when, when))
        assert clone.planned() == set()
        text = source.read_text()
        source.write_text(f"{text}\n")
        os.utime(source, (of_sources, of_sources))
        assert clone.planned() == REPORT
        source.write_text(text)
    before = clone.artefacts("results/smoke/evidence")
    stats = clone.path / "results/smoke/evidence/stats.json"
    stats.write_text(stats.read_text().replace("0", "1"))
    os.utime(stats, (future, future))
    clone.snakemake("judge_all")
    assert clone.artefacts("results/smoke/evidence") == before
    assert clone.planned("judge_all") == set()


@pytest.mark.pipeline
def test_a_damaged_object_in_the_cache(small_run):
    """DVC checks out a flipped bit without a word; the next step does not take it, and its job runs again."""
    clone = small_run.copy(small_run.path.parent / "cache")
    clone.dvc("commit", "--force")
    checkpoint = clone.path / "results/smoke/train/two_room/lewm/3072/epoch_02.safetensors"
    whole = checkpoint.read_bytes()
    (held,) = [path for path in (clone.path / ".dvc/cache").rglob("*") if path.is_file() and path.read_bytes() == whole]
    held.chmod(0o644)
    held.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    held.chmod(0o444)  # as DVC leaves it, and then trusts it
    checkpoint.unlink()
    clone.dvc("checkout")
    child = attempt(clone, ["evaluate", *TRAINED, "--times", "times.csv"])
    assert child.wait() == 2
    assert "epoch_02.safetensors: sha256" in child.said.read_text()
    assert "train_two_room_lewm_3072" in clone.planned()
    clone.snakemake("train_all")
    assert checkpoint.read_bytes() == whole
