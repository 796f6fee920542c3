"""What the tests share, made once: the project's folder, one tiny data set, one tiny training, one run of the pipeline."""

import os
import shutil
import threading
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch: results depend on the thread count

import pytest
from tqdm import tqdm

# Its own lock is a semaphore that forks share: one that is killed while it holds it would stop every later bar.
tqdm.set_lock(threading.RLock())
tqdm.monitor_interval = 0  # no thread: forks are made here

ROOT = Path(__file__).resolve().parent.parent
# what tests start runs the code of this folder, like the tests themselves (pyproject.toml: pythonpath)
os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / name) for name in ("src", "workflow"))


def pytest_sessionfinish(session):
    """Where everything can be installed (.ci/run), a skipped test is a failure: nothing may go untested unseen."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("TDJEPA_NO_SKIPS") and reporter.stats.get("skipped"):
        reporter.write_line("skipped tests count as failures here (TDJEPA_NO_SKIPS); pytest -rs names them", red=True)
        session.exitstatus = 1


@pytest.fixture(scope="session")
def smoke():
    from tdjepa.config.load import load

    return load(ROOT / "params.yaml", "smoke")


@pytest.fixture(scope="session")
def data(smoke, tmp_path_factory):
    """A collected and mined smoke data set. -> folder with episodes.h5, its card, and mined/"""
    from tdjepa.config.slices import collect_slice, mine_slice
    from tdjepa.steps import collect, mine

    folder = tmp_path_factory.mktemp("data")
    collect.run(collect_slice(smoke, "two_room"), folder / "episodes.h5")
    mine.run(mine_slice(smoke, "two_room"), folder / "episodes.h5", folder / "mined")
    return folder


@pytest.fixture(scope="session")
def trained(smoke, data, tmp_path_factory):
    """All methods, trained for a few steps. -> folder with <method>/epoch_XX.safetensors"""
    from tdjepa.config.runs import widened
    from tdjepa.config.slices import train_slice
    from tdjepa.steps import train as training

    folder = tmp_path_factory.mktemp("train")
    for method in widened(smoke).methods_run:
        cfg = train_slice(smoke, "two_room", method, 3072)
        frozen = cfg.method.backbone
        backbone = folder / frozen / f"epoch_{cfg.train.epochs:02d}.safetensors" if frozen else None
        training.run(cfg, data / "episodes.h5", data / "mined/split.json", folder / method, backbone=backbone)
    return folder


@pytest.fixture(scope="session")
def small_run(tmp_path_factory):
    """A clone in which two methods were run from nothing to the paper, on four cores; not to be changed: `copy` it.

    Every shell word could go wrong here: the folder's name and a method's label hold quotes, spaces and commands.
    """
    from clone import Clone

    folder = tmp_path_factory.mktemp("""a b;'c"$(touch owned)""")
    clone = Clone.of_project(folder / "small run")
    clone.change("scale", "smoke")
    clone.change("scales.smoke.methods_run", ["tdjepa", "lewm"])
    clone.change("scales.smoke.train_seeds", [3072])
    clone.change("methods.tdjepa.label", """T'D"; touch owned; `touch owned` {x} <script>alert(1)</script> & ~""")
    clone.run("git", "init", "--quiet")
    clone.run("snakemake", "--cores", "4", "all")
    return clone


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("a path with spaces ")


@pytest.fixture(scope="session")
def first_run(folder):
    """A clone in which Snakemake has run everything on two cores, committed to DVC and Git. -> (clone, what was said, jobs)"""
    from clone import Clone

    clone = Clone.of_project(folder / "first run")
    clone.reduce_smoke()
    shutil.copy(ROOT / "dvc.lock", clone.path)  # entries of another scale, which stay
    ignored = clone.path / ".gitignore"
    ignored.write_text(ignored.read_text().replace("/results/smoke/\n", ""))  # as it is with the other scales
    clone.run("git", "init", "--quiet")
    with clone.executed() as jobs:
        said = clone.snakemake("all")
    clone.dvc("commit", "--force")
    clone.commit("run")
    return clone, said, jobs


@pytest.fixture
def serve(monkeypatch):
    """serve(mirror) -> base URL of a server on localhost; every server ends with the test."""
    from released_files import serving

    monkeypatch.setenv("no_proxy", "*")
    with serving() as start:
        yield start
