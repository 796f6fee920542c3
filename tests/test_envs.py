"""What the four environments share: a distance that agrees with success, and the table of all test pairs."""

import json

import numpy as np
import pytest

from conftest import ROOT
from tdjepa.base.errors import UserError
from tdjepa.config.records.base import ENVS
from tdjepa.config.slices import collect_slice
from tdjepa.envs.base import make
from tdjepa.tools import floors


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


@pytest.mark.parametrize(
    ("name", "noise"), [("reacher", slice(2, 8)), ("push_t", slice(5, 10)), ("cube", slice(17, 73))]
)
def test_a_distance_looks_at_what_the_task_is_about(name, noise):
    """Velocities, solver state, the arm: nothing that success does not judge."""
    env = make(name)
    states = np.random.default_rng(0).uniform(0, 1, (5, env.state.shape[1]))
    env.restore(states)
    goals = states.copy()
    goals[:, noise] += 100
    assert (env.distance(goals) == 0).all()


def test_the_table_of_all_test_pairs_counts_all_of_them(smoke, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source, place in (("episodes.h5", "episodes/two_room"), ("episodes.card.json", "episodes/two_room")):
        (tmp_path / "data/smoke" / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data/smoke" / place / source).symlink_to(data / source)
    (tmp_path / "data/smoke/mined").mkdir()
    (tmp_path / "data/smoke/mined/two_room").symlink_to(data / "mined")
    table = floors.run(smoke, ("two_room",))
    text = {row[0]: row[1] for row in table.body}
    locked = json.loads((data / "mined/test.json").read_text())
    assert text["Replay of the log"] == "100.0"
    assert text["Test pairs: solved at the start"] == text["Zero action"] == f"{100 * np.mean(locked['trivial']):.1f}"
    assert f"{smoke.mine.test_goals} test pairs" in table.caption
    assert smoke.mine.test_goals > smoke.evaluate.episodes
    with pytest.raises(UserError, match=r"cube/test\.json: no such file"):
        floors.run(smoke, ("cube",))


def test_the_committed_table_has_all_four_and_an_exact_replay():
    text = (ROOT / "docs/environments.md").read_text()
    table = text.split("<!-- floors:desk -->")[1].split("<!-- /floors:desk -->")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    rows = {name: cells for name, *cells in lines}
    assert rows["Replay of the log"] == ["100.0"] * 4
    assert len(rows["Random actions"]) == 4
