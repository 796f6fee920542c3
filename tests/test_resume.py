"""A training that is killed at any moment and started again ends with the bytes of one that was left alone."""

import importlib
import itertools
import json
import os
import shutil
import signal
import sys
import threading

import numpy as np
import pytest

from children import Child
from conftest import ROOT
from tdjepa import cli
from tdjepa.base import snapshot
from tdjepa.base.errors import UserError
from tdjepa.config.load import resolve
from tdjepa.config.records.model import Health, Runtime
from tdjepa.config.slices import slice_json, train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.steps import health
from tdjepa.steps import train as training

RUNTIME = Runtime(snapshot_every=4, reader_workers=0, memory_mb=50)


@pytest.fixture(scope="module")
def job(smoke, data):
    """3 epochs of 10 steps, with dropout, accumulation, siblings, a restart and averaged weights. -> (slice, episodes, split)"""
    cfg = train_slice(smoke, "two_room", "tdjepa", 5)
    predictor = cfg.model.predictor.model_copy(update={"dropout": 0.1})
    model = cfg.model.model_copy(update={"predictor": predictor})
    train = cfg.train.model_copy(
        update={"epochs": 3, "steps_per_epoch": 10, "accumulate": 2, "batch": 4, "siblings": 2}
    )
    train = train.model_copy(update={"average": 0.9})
    update = {"train": train, "model": model, "method": cfg.method.model_copy(update={"restart": 1})}
    return cfg.model_copy(update=update), data / "episodes.h5", data / "mined/split.json"


@pytest.fixture(scope="module")
def undisturbed(job, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    training.run(*job, out, RUNTIME)
    return contents(out)


def contents(folder) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def status_of(tmp_path_factory):
    """status_of(function, *args): how it ends in a process of its own, and what it said."""
    said = tmp_path_factory.mktemp("said") / "said"
    return lambda function, *args: (Child(function, *args, said=said).wait(), said.read_text())


def dies_in_step(number: int, delay: float, *args) -> None:
    """Train in this process; be killed that many seconds into the number-th step from here (0: while it starts)."""
    rate, begun = training.learning_rate, itertools.count(1)

    def doom():
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()

    def learning_rate(*schedule):
        if next(begun) == number:
            doom()
        return rate(*schedule)

    if number == 0:
        doom()
    training.learning_rate = learning_rate
    training.run(*args)


def test_killed_at_ten_random_moments(job, undisturbed, tmp_path, status_of):
    """Counted in steps, not in seconds: as many steps are done between two kills on a slow machine as on a fast one."""
    rng, killed, reached = np.random.default_rng(4), 0, 0
    for _ in range(100):
        step, delay = int(rng.integers(0, 12)), rng.uniform(0.0, 0.1)
        status, said = status_of(dies_in_step, step, delay, *job, tmp_path, RUNTIME)
        assert status in (0, -signal.SIGKILL), said
        killed += status != 0
        reached = max(reached, position(tmp_path))
        if killed == 10:
            break
        if status == 0:  # done before its kill came: once more from the beginning
            assert contents(tmp_path) == undisturbed
            for path in tmp_path.iterdir():
                path.unlink()
    assert killed == 10
    assert reached > 0  # at least one kill came after a snapshot
    training.run(*job, tmp_path, RUNTIME)
    assert contents(tmp_path) == undisturbed


def position(out) -> int:
    from safetensors import safe_open

    path = out / ".running/snapshot.safetensors"
    if not path.exists():
        return 0
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()[snapshot.KEY])["step"]


def dies_at_rename(number: int, *args) -> None:
    """Train in this process and die at the number-th file that would get its final name."""
    rename, count = os.replace, iter(range(number))

    def replace(*names):
        if next(count, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(*names)

    os.replace = replace
    training.run(*args)


def test_killed_at_every_file_that_is_written(job, undisturbed, tmp_path, status_of):
    for number in range(1, 40):  # more renames in each attempt, so that it gets on: the last ones are in the delivery
        status, said = status_of(dies_at_rename, number, *job, tmp_path, RUNTIME)
        if status == 0:
            break
        assert status == -signal.SIGKILL, said
        for path in tmp_path.iterdir():  # the workflow removes what an unfinished job has delivered
            if path.is_file() and not path.name.startswith("."):
                path.unlink()
    else:
        pytest.fail("never finished")
    assert number > 5
    assert contents(tmp_path) == undisturbed


@pytest.mark.parametrize(("snapshot", "gather", "workers"), [(1, 1, 0), (1000, 7, 2), (1000, 1000, 0)])
def test_snapshots_gatherings_and_readers_change_nothing(job, undisturbed, tmp_path, snapshot, gather, workers):
    how = {"snapshot_every": snapshot, "gather_every": gather, "reader_workers": workers, "memory_mb": 80}
    training.run(*job, tmp_path, Runtime(**how))
    assert contents(tmp_path) == undisturbed


def test_health_is_judged_over_all_steps_however_often_it_is_stopped(job, tmp_path, monkeypatch):
    check, seen = training.check_health, []

    def checked(cfg, name, step, values, health, warm):
        check(cfg, name, step, values, health, warm)
        seen.append((step, health["steps"]))
        if len(seen) in (7, 15):
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "check_health", checked)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            training.run(*job, tmp_path, RUNTIME)
    training.run(*job, tmp_path, RUNTIME)
    assert seen[-1] == (30, 30)
    assert all(step == judged for step, judged in seen)


def command_line(job, out) -> list[str]:
    cfg, episodes, split = job
    argv = ["train", "--slice", slice_json(cfg), "--episodes", str(episodes), "--split", str(split)]
    return [*argv, "--out", str(out), "--snapshot-every", "1000", "--memory-mb", "50"]


def test_sigterm_saves_at_once_and_asks_to_be_run_again(job, undisturbed, tmp_path, status_of):
    argv = command_line(job, tmp_path)
    status, said = status_of(terminated_in_step, 14, argv)
    assert status == 75, said
    assert position(tmp_path) == 14  # not a multiple of anything: saved because of the signal
    assert [path.name for path in tmp_path.iterdir()] == [".running"]
    assert cli.main(argv) == 0
    assert contents(tmp_path) == undisturbed


def terminated_in_step(step: int, argv: list[str]) -> None:
    """The command line, with a SIGTERM to this process in the middle of that step."""
    rate, begun = training.learning_rate, itertools.count(1)

    def learning_rate(*schedule):
        if next(begun) == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return rate(*schedule)

    training.learning_rate = learning_rate
    sys.exit(cli.main(argv))


@pytest.mark.parametrize(
    ("module", "name", "sent", "expected"),
    [(training, "Store", "SIGTERM", 75), (shutil, "copyfile", "SIGTERM", 75), (training, "Store", "SIGINT", 130)],
    ids=["before the first step", "in the delivery", "by Ctrl-C"],
)
def test_told_to_stop_outside_the_steps(job, undisturbed, tmp_path, status_of, module, name, sent, expected):
    """The workflow starts a training again that ends with 75, whatever it was at when SIGTERM came; Ctrl-C is meant."""
    argv = command_line(job, tmp_path)
    status, said = status_of(told_to_stop_in, module.__name__, name, signal.Signals[sent], argv)
    assert status == expected, said
    assert "tdjepa: stopped; nothing half-written is left, the same command starts again, or goes on where" in said
    assert not [path for path in tmp_path.rglob("*") if ".part" in path.name]
    assert cli.main(argv) == 0
    assert contents(tmp_path) == undisturbed


def told_to_stop_in(module: str, name: str, sent: int, argv: list[str]) -> None:
    """The command line, with a signal to this process when it first calls that function."""
    module = importlib.import_module(module)
    function = getattr(module, name)

    def interrupted(*args):
        os.kill(os.getpid(), sent)
        return function(*args)

    setattr(module, name, interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell have it ignored
    sys.exit(cli.main(argv))


def test_a_damaged_snapshot_and_one_of_other_parameters_are_not_continued(job, undisturbed, tmp_path, status_of):
    cfg, *files = job
    other = cfg.model_copy(update={"train": cfg.train.model_copy(update={"lr": 5e-3})})
    status_of(dies_at_rename, 3, other, *files, tmp_path / "other", RUNTIME)
    assert position(tmp_path / "other") > 0
    (tmp_path / "damaged/.running").mkdir(parents=True)
    (tmp_path / "damaged/.running/snapshot.safetensors").write_bytes(b"half a file")
    for out in (tmp_path / "other", tmp_path / "damaged"):
        training.run(*job, out, RUNTIME)
        assert contents(out) == undisturbed


def test_the_shipped_limits_stop_a_collapse_and_let_sigreg_pass(smoke, data, tmp_path):
    """Without SIGReg and with targets that follow, a constant latent predicts itself; with it, the same training is healthy."""
    raw = read_yaml(ROOT / "params.yaml")
    assert "health" not in str(raw["scales"])  # every scale takes the limits that are tested here
    method = {"label": "targets that follow", "window": 4, "head": "none", "costs": ["l2"]}
    one_step = {"one_step": {"weight": 1.0, "targets": "attached"}}
    sigreg = {"sigreg": {"weight": 1.5, "directions": 16, "knots": 17}}  # at 8 windows as 0.09 at the published 128
    raw["methods"] |= {"doomed": {**method, "terms": one_step}, "saved": {**method, "terms": one_step | sigreg}}
    p = resolve(raw, "smoke")

    def train(name):
        cfg = train_slice(p, "two_room", name, 1)
        cfg = cfg.model_copy(update={"train": cfg.train.model_copy(update={"steps_per_epoch": 60, "lr": 2e-2})})
        return training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path / name)

    with pytest.raises(UserError, match=r"latents have collapsed \(std .*\) at step .*terms\.sigreg \(now 0\)"):
        train("doomed")
    assert not (tmp_path / "doomed/curve.csv").exists()
    last = train("saved")
    assert last["latent_std"] > 2 * p.train.health.min_std
    assert last["effective_rank"] > 1.2 * p.train.health.min_rank


def test_latents_are_not_judged_before_the_warm_up_is_over(smoke):
    cfg, values = train_slice(smoke, "two_room", "lewm", 1), {"loss": 1.0, "grad_norm": 1.0}
    narrow, running = values | {"latent_std": 0.01, "effective_rank": 3.0}, {}
    for step in range(1, 70):
        health.check_health(cfg, "x", step, narrow, running, 70)
    with pytest.raises(UserError, match="collapsed .* at step 70"):
        health.check_health(cfg, "x", 70, narrow, running, 70)


def test_gradients_that_stay_huge_stop_the_training(smoke, data, tmp_path):
    cfg = train_slice(smoke, "two_room", "lewm", 1)
    one_step = cfg.method.terms.one_step.model_copy(update={"weight": 1e9})
    terms = cfg.method.terms.model_copy(update={"one_step": one_step})
    update = {"method": cfg.method.model_copy(update={"terms": terms})}
    wild = cfg.model_copy(update=update | {"train": cfg.train.model_copy(update={"steps_per_epoch": 60})})
    with pytest.raises(UserError, match=r"gradient's norm is .*, at most 1000 is healthy at step 50; lower train\.lr"):
        training.run(wild, data / "episodes.h5", data / "mined/split.json", tmp_path)


def test_health_of_known_latents():
    import torch

    z = torch.randn(4000, 1, 8, generator=torch.Generator().manual_seed(0))
    healthy = {name: float(value) for name, value in health.latent_health(z).items()}
    assert healthy["latent_std"] == pytest.approx(1, abs=0.03)
    assert healthy["effective_rank"] == pytest.approx(8, abs=0.1)
    line = health.latent_health(z[..., :1] * torch.ones(8))  # all on one axis
    assert float(line["effective_rank"]) == pytest.approx(1, abs=1e-4)
    limits = Health(min_std=0.05, min_rank=1.2, max_grad_norm=1e3)
    collapsed = [("effective_rank", 1.0, "collapsed"), ("latent_std", 0.01, "collapsed")]
    for name, value, why in (*collapsed, ("grad_norm", 2e3, "norm")):
        assert why in health.judged(healthy | {"grad_norm": 3.0, name: value}, limits)
    assert health.judged(healthy | {"grad_norm": 3.0}, limits) is None
    assert health.diverged({"loss": 1.0, "grad_norm": float("inf")}).startswith("grad_norm is not finite")
