"""What the four environments share: exact replay, independent copies, equal files, a distance that agrees with success."""

import json

import numpy as np
import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.records.base import ENVS
from tdjepa.config.records.data import CubeData, PushTData, PushTKind, ReacherData, TwoRoomData
from tdjepa.config.slices import CollectSlice, collect_slice
from tdjepa.data.store import Store
from tdjepa.envs import gl
from tdjepa.envs.base import make
from tdjepa.steps import collect
from tdjepa.tools import floors

NEEDS_GL = pytest.mark.skipif(gl.BACKEND == "disable", reason=f"no OpenGL here; {gl.INSTALL}")
ON_GL = ("reacher", "cube")


def mixed(noise=(0.05, 0.2), **shares):
    """Kinds of demonstrations of Push-T, each named by its policy."""
    return {name: PushTKind(policy=name, share=share, noise=noise) for name, share in shares.items()}


SMALL = {"image_size": 32, "max_steps": 60, "episodes": 6}
DATA = {
    "two_room": TwoRoomData(**SMALL, action_noise=2.0),
    "reacher": ReacherData(**SMALL),
    "push_t": PushTData(
        **{**SMALL, "max_steps": 120}, kinds=mixed(expert=0.5, wander=0.25, weak=0.25), target_share=0.5
    ),
    "cube": CubeData(**{**SMALL, "max_steps": 100, "episodes": 3}, carry_share=0.5, carry_steps=10, action_noise=0.1),
}


@pytest.fixture(scope="module", params=["two_room", "push_t", *(pytest.param(e, marks=NEEDS_GL) for e in ON_GL)])
def collected(request, tmp_path_factory):
    """A small data set of each environment. -> its slice, its file, and 60 rows that 25 more follow in their episode"""
    path = tmp_path_factory.mktemp(request.param) / "episodes.h5"
    cfg = CollectSlice(env=request.param, seed=7, min_length=26, goal_offset=25, data=DATA[request.param])
    collect.run(cfg, path)
    store = Store(path)
    starts = np.concatenate([store.offset[e] + np.arange(store.length[e] - 25) for e in range(store.episodes)])
    return cfg, store, np.random.default_rng(0).choice(starts, 60)


def test_logged_actions_replay_the_logged_states_and_frames_and_reach_every_goal(collected):
    cfg, store, rows = collected
    env = make(cfg.env)
    env.restore(store.state[rows])
    for t in range(25):
        if t % 4 == 0:
            np.testing.assert_array_equal(env.render(store.image_size), store.pixels[rows + t])
        env.step(store.action[rows + t])
        np.testing.assert_array_equal(env.state, store.state[rows + t + 1])
    assert env.success(store.state[rows + 25]).all()
    if cfg.env == "push_t":  # contact is what is hard to replay
        pushed = np.abs(store.state[rows + 25, 2:4] - store.state[rows, 2:4]).max(1) > 1
        assert pushed.sum() >= len(rows) // 4


def test_a_copy_does_not_depend_on_the_others(collected):
    cfg, store, rows = collected
    env, rows = make(cfg.env), rows[:8]
    env.restore(store.state[rows])
    env.step(store.action[rows])
    together, frames = env.state, env.render(32)
    for i in reversed(range(len(rows))):
        env.restore(store.state[rows[i : i + 1]])
        env.step(store.action[rows[i : i + 1]])
        np.testing.assert_array_equal(env.state[0], together[i])
        np.testing.assert_array_equal(env.render(32)[0], frames[i])


def test_two_collections_are_byte_equal_and_the_seed_matters(collected, tmp_path):
    cfg, store, _ = collected
    np.random.seed(1)  # noqa: NPY002  OGBench draws from numpy's global state; nothing of it may reach the data
    collect.run(cfg, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == store.path.read_bytes()
    few = cfg.data.model_copy(update={"episodes": 1})
    other = make(cfg.env).demonstrations(cfg.model_copy(update={"seed": 8, "data": few}))
    assert not np.array_equal(other.state[0], store.state[0])
    # nor does it matter how many are collected
    first = make(cfg.env).demonstrations(cfg.model_copy(update={"data": few}))
    np.testing.assert_array_equal(first.state, store.state[: len(first.state)])


@pytest.mark.parametrize("name", ENVS)
def test_a_distance_below_one_is_success(smoke, name):
    """States of one short demonstration, each judged against the one some steps later: all sides of the tolerance."""
    cfg = collect_slice(smoke, name)
    cfg = cfg.model_copy(update={"data": cfg.data.model_copy(update={"episodes": 2, "max_steps": 40})})
    env = make(name)
    states = env.demonstrations(cfg).state
    near = far = 0
    for gap in (0, 1, 3, 10, 25):
        start, goal = states[: len(states) - gap], states[gap:]
        env.restore(start)
        distance, success = env.distance(goal), env.success(goal)
        clear = np.abs(distance - 1) > 1e-6
        np.testing.assert_array_equal((distance < 1)[clear], success[clear])
        near, far = near + success.sum(), far + (~success).sum()
    assert near > 40
    assert far > 10


@pytest.mark.parametrize(("name", "start", "end"), [("reacher", 2, 8), ("push_t", 5, 10), ("cube", 17, 73)])
def test_a_distance_looks_at_what_the_task_is_about(name, start, end):
    """Velocities, solver state, the arm: nothing that success does not judge."""
    env = make(name)
    goals = np.random.default_rng(0).uniform(0, 1, (5, env.state.shape[1]))
    env.restore(goals.copy())
    goals[:, start:end] += 100
    assert (env.distance(goals) == 0).all()


def test_the_table_of_all_test_pairs_counts_all_of_them(smoke, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, source in (("episodes", data), ("mined", data / "mined")):
        (tmp_path / "data/smoke" / folder).mkdir(parents=True)
        (tmp_path / "data/smoke" / folder / "two_room").symlink_to(source)
    table = floors.run(smoke, ("two_room",))
    text = {row[0]: row[1] for row in table.body}
    locked = json.loads((data / "mined/test.json").read_text())
    assert text["Replay of the log"] == "100.0"
    assert text["Test pairs: solved at the start"] == text["Zero action"] == f"{100 * np.mean(locked['trivial']):.1f}"
    assert f"{smoke.mine.test_goals} test pairs" in table.caption
    assert smoke.mine.test_goals > smoke.evaluate.designs["main"].pairs
    with pytest.raises(UserError, match=r"cube/test\.json: no such file"):
        floors.run(smoke, ("cube",))


def test_the_committed_table_has_all_four_and_an_exact_replay():
    text = (ROOT / "docs/environments.md").read_text()
    table = text.split("<!-- floors:desk -->")[1].split("<!-- /floors:desk -->")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    rows = {name: cells for name, *cells in lines}
    assert rows["Replay of the log"] == ["100.0"] * 4
    assert len(rows["Random actions"]) == 4
