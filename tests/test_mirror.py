"""`tdjepa mirror`: what it serves is fetched, converted and imported as the released files would be."""

import socket
import sys

import numpy as np
import pytest

from conftest import ROOT
from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError
from tdjepa.config.load import resolve
from tdjepa.config.origin import of_scale
from tdjepa.config.overlay import merge
from tdjepa.config.slices import collect_slice, fetch_slice, train_slice
from tdjepa.config.yaml_file import read_yaml
from tdjepa.data.store import Store
from tdjepa.envs.base import make
from tdjepa.model import checkpoint
from tdjepa.model.released import run_import
from tdjepa.steps import fetch
from tdjepa.tools import mirror

RAW = read_yaml(ROOT / "params.yaml")
# what may differ from the scale paper: how much is done, never what
AMOUNTS = ("episodes", "goals", "pairs", "epochs", "epoch", "steps_per_epoch", "batch", "seeds", "envs", "minutes")
AMOUNTS += ("candidates", "elites", "refinements", "frames", "bootstrap", "snapshot_every", "gather_every", "restart")
AMOUNTS += ("far_offsets",)  # the small episodes are too short for the others


def test_the_rehearsal_differs_from_the_paper_scale_in_amounts_alone():
    paper, rehearsal = ({leaf.key: leaf.value for leaf in of_scale(RAW, scale)} for scale in ("paper", "rehearsal"))
    differ = {key for key in paper.keys() | rehearsal.keys() if paper.get(key) != rehearsal.get(key)}
    amounts = {key for key in differ if key.endswith(AMOUNTS) or ".ceiling_" in key or "sweeps.far_" in key}
    assert differ - amounts == {"fetch.mirrors", "train.precision", "runtime.gpu"}
    assert rehearsal["train.precision"] == "bf16"  # what `auto` is on a GPU


def small(*envs):
    """The rehearsal with three short episodes of 28 px, and a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    size = {env: {"episodes": 3, "max_steps": 30, "image_size": 28} for env in envs}
    changes = {"envs": list(envs), "collect": size, "fetch": {"mirrors": [address]}}
    changes["evaluate"] = {"sweeps": {f"far_{offset}": {"envs": []} for offset in (50, 75, 100)}}
    return merge(RAW, {"scales": {"rehearsal": changes}})


@pytest.mark.parametrize("env", ["two_room", "reacher", "push_t", "cube"])
def test_the_served_files_become_episodes_that_the_simulator_can_go_on_from(env, tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    raw = small(env)
    p, hub = resolve(raw, "rehearsal"), tmp_path / "hub"
    mirror.run(p, hub)
    before = {path: path.stat().st_mtime_ns for path in hub.rglob("*") if path.name != "params.yaml"}
    mirror.run(p, hub)  # what is there is kept
    assert {path: path.stat().st_mtime_ns for path in before} == before
    known = resolve(merge(raw, read_json(hub / "params.yaml")), "rehearsal")  # the checksums
    with mirror.serving(hub, p.fetch.mirrors[0]):
        how = {"mirrors": p.fetch.mirrors, "cache": tmp_path / "released"}
        card = fetch.run(fetch_slice(known, env), tmp_path / "episodes.h5", **how)
    assert card["checksum"] == "known before"
    assert card["renderer_difference"]["max"] <= 1  # the frames show the states, up to the rounding of float32
    data, demos = Store(tmp_path / "episodes.h5"), make(env).demonstrations(collect_slice(p, env))
    assert np.array_equal(data.length, demos.length)
    assert np.array_equal(data.action, demos.action, equal_nan=True)
    world, steps = make(env), 5
    world.restore(data.state[data.offset])
    for t in range(steps):
        world.step(data.action[data.offset + t])
    assert world.distance(demos.state[data.offset + steps]).max() < 0.2  # of what counts as reached
    cfg, weights = train_slice(p, env, "lewm", 0), hub / mirror.RELEASED[env].repo / "resolve/main"
    run_import(cfg, weights, None, tmp_path / "episodes.h5", tmp_path / "epoch_02.safetensors")
    model, about = checkpoint.load(tmp_path / "epoch_02.safetensors", checkpoint.of(cfg, 2))
    assert (about["image_size"], about["block"]) == (28, 5 * world.action_dim)
    assert np.allclose(model.action_mean, np.tile(np.nanmean(demos.action, 0), 5), atol=1e-6)


def test_the_server_lives_as_long_as_the_command(tmp_path):
    p, hub = resolve(small("two_room"), "rehearsal"), tmp_path / "hub"
    address = p.fetch.mirrors[0]
    ask = f"import sys, urllib.request as u; sys.exit(len(u.urlopen('{address}/params.yaml').read()) % 100)"
    assert mirror.run(p, hub, [sys.executable, "-c", ask]) == (hub / "params.yaml").stat().st_size % 100
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))
    with (
        mirror.serving(hub, address),
        pytest.raises(UserError, match=r"cannot be served there \(Address already in use\)"),
    ):
        mirror.run(p, hub, ["true"])
    with pytest.raises(UserError, match="a mirror of one's own is http"), mirror.serving(hub, "https://hub.test"):
        pass
