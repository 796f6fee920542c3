"""`import tdjepa` for Python users: it costs nothing, and gives what the pipeline gives."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

import tdjepa
from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.slices import evaluate_slice
from tdjepa.data.store import Store
from tdjepa.steps import evaluate

TRAINING = "results/smoke/train/two_room/tdjepa/3072"


@pytest.fixture(scope="module")
def place(smoke, data, trained, tmp_path_factory):
    """A project folder with data, one training and its rows where a run would put them."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "params.yaml", folder)
    episodes, mined = folder / "data/smoke/episodes/two_room", folder / "data/smoke/mined/two_room"
    shutil.copytree(data, episodes, ignore=lambda *_: ["mined"])
    shutil.copytree(data / "mined", mined)
    shutil.copytree(trained / "tdjepa", folder / TRAINING)
    cfg = evaluate_slice(smoke, "two_room", "tdjepa", 3072)
    files = (episodes / "episodes.h5", mined / "test.json", evaluate.checkpoints(cfg, folder / TRAINING))
    evaluate.run(cfg, *files, folder / "results/smoke/rows/two_room/tdjepa_3072.parquet")
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)


def test_importing_it_imports_nothing_heavy():
    heavy = "{'torch', 'pandas', 'numpy', 'h5py', 'pydantic', 'yaml'}"
    code = f"import sys, tdjepa; assert not {heavy} & set(sys.modules); assert 'plan' in dir(tdjepa)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'plans'"):
        tdjepa.plans  # noqa: B018


@pytest.mark.usefixtures("here")
def test_a_planned_pair_ends_as_its_row_says():
    rows = tdjepa.rows("smoke")
    loaded = tdjepa.load(TRAINING)
    assert (loaded.env, loaded.method, loaded.seed, loaded.epoch) == ("two_room", "tdjepa", 3072, 2)
    of_cost = rows[(rows.cost == "l2") & (rows.epoch == 2) & (rows.plan_seed == rows.plan_seed.min())]
    for pair in range(3):
        done = tdjepa.plan(loaded, pair, cost="l2", plan_seed=int(rows.plan_seed.min()))
        row = of_cost[of_cost.design == "main"].set_index(["episode", "start"])
        key = evaluate.manifest.read_json("data/smoke/mined/two_room/test.json")["entries"][pair]
        assert (done.success, done.steps) == tuple(row.loc[tuple(key), ["success", "steps"]])
        assert len(done.frames) == len(done.states) == len(done.costs) == done.steps + 1 == len(done.actions) + 1


@pytest.mark.usefixtures("here")
def test_an_episode_between_two_states_of_ones_own():
    there = np.array([100.0, 60.0])
    done = tdjepa.plan(TRAINING, start=there, goal=there)
    assert done.success
    assert np.allclose(done.states[0], there)
    first, costs = done.imagined[0]
    assert first == 0
    assert costs[0] == pytest.approx(done.costs[0], abs=1e-6)


@pytest.mark.usefixtures("here")
def test_imagined_latents_have_the_shape_of_encoded_ones():
    data, loaded = Store("data/smoke/episodes/two_room/episodes.h5"), tdjepa.load(f"{TRAINING}/epoch_01.safetensors")
    z = loaded.encode(data.pixels[0:11:5])
    imagined = loaded.imagine(data.pixels[0], data.action[:10])
    assert (z.shape, imagined.shape) == ((3, 8), (2, 8))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: tdjepa.rows("desk"), "no rows of scale desk are here"),
        (lambda: tdjepa.load("results"), "holds no epoch_"),
        (lambda: tdjepa.load("absent.safetensors"), "absent.safetensors"),
        (lambda: tdjepa.plan(TRAINING, 99), "pair 99: must be 0 to"),
        (lambda: tdjepa.plan(TRAINING, cost="policy"), "cost 'policy': tdjepa is planned with"),
        (lambda: tdjepa.plan(TRAINING, start=np.zeros(2)), "give both states"),
    ],
)
def test_a_mistake_is_one_line(call, why):
    with pytest.raises(UserError, match=why) as caught:
        call()
    assert "\n" not in str(caught.value)
