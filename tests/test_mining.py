"""Splits do not leak, manifests are locked, windows and pairs stay inside episodes."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdjepa.base.artefacts import sha256_of_input
from tdjepa.base.errors import UserError
from tdjepa.data.store import Store
from tdjepa.envs.base import make, solved
from tdjepa.mining import demands, manifest, pairs, split, windows

SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
# of the authors' 50 validation pairs in 10,000 episodes of 201 rows, as released for Reacher and OGB-Cube
PUBLISHED = "4801bf86803a3cad4da81f161c05584aa302716072f9ac4f969fb4d533332084"


@given(episodes=st.integers(10, 500), seed=st.integers(0, 2**31))
@settings(max_examples=50, deadline=None)
def test_every_episode_is_in_exactly_one_part(episodes, seed):
    parts = split.split(episodes, SHARES, seed)
    assert sorted(e for part in parts.values() for e in part) == list(range(episodes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["test"].append(p["train"][0]), "is in both train and test .* leaks"),
        (lambda p: p["validation"].clear(), "validation part is empty"),
        (lambda p: p["train"].append(1000), "episode 1000 of the train part is not among the 40"),
        (lambda p: p.pop("test"), "has parts train, validation"),
    ],
)
def test_an_edited_split_is_refused(tmp_path, change, message):
    parts = split.split(40, SHARES, 0)
    change(parts)
    (tmp_path / "split.json").write_text(json.dumps(parts))
    with pytest.raises(UserError, match=message):
        split.read(tmp_path / "split.json", 40)


def read(data, path):
    episodes = data / "episodes.h5"
    return manifest.read(path, "two_room", Store(episodes).length, 25, sha256_of_input(episodes))


def test_manifests_come_from_their_own_part_and_stay_inside_episodes(data, smoke):
    store, parts = Store(data / "episodes.h5"), json.loads((data / "mined/split.json").read_text())
    for part in ("validation", "test"):
        locked = read(data, data / f"mined/{part}.json")
        assert set(locked["entries"][:, 0]) <= set(parts[part])
        assert len(locked["entries"]) == getattr(smoke.mine, f"{part}_goals")
        goals = store.state[store.row(locked["entries"][:, 0], locked["entries"][:, 1] + 25)]
        starts = store.state[store.row(locked["entries"][:, 0], locked["entries"][:, 1])]
        assert np.array_equal(locked["trivial"], np.linalg.norm(goals - starts, axis=1) < 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["entries"][0].__setitem__(1, 10_000), "not the locked ones"),
        (lambda m: m.update(relock([[0, 10_000]])), r"start 10000 of episode 0 .* points past the episode's \d+ rows"),
        (lambda m: m.update(relock([[77, 0]])), "episode 77 does not exist"),
        (lambda m: m.update(data_sha256="0"), "drawn from other data"),
        (lambda m: m.update(env="cube"), "is for cube with goal offset 25, expected two_room"),
        (lambda m: m.pop("entries"), "not a manifest: entries missing"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(data, tmp_path, change, message):
    locked = json.loads((data / "mined/test.json").read_text())
    change(locked)
    (tmp_path / "test.json").write_text(json.dumps(locked))
    with pytest.raises(UserError, match=message):
        read(data, tmp_path / "test.json")


def relock(entries):
    return {"entries": entries, "trivial": [False], "sha256_of_lines": manifest.lines_sha256(np.array(entries))}


def test_a_manifest_says_how_hard_its_pairs_are(data):
    """By hand from the states; of all pairs and by the kind of demonstration."""
    locked, store = json.loads((data / "mined/test.json").read_text()), Store(data / "episodes.h5")
    rows = store.row(*np.array(locked["entries"]).T)
    way, x = np.linalg.norm(store.state[rows + 25] - store.state[rows], axis=1), store.state[:, 0] < 112
    asked = locked["demands"]["all"]
    assert asked["agent (px)"]["median"] == pytest.approx(np.median(way), rel=1e-3)
    assert asked["through the door"] == pytest.approx((x[rows] != x[rows + 25]).mean(), rel=1e-3)
    by_kind = demands.summary({"far": np.array([1.0, 3.0, 9.0])}, np.array(["a", "b", "a"]))
    assert {kind: of["far"]["median"] for kind, of in by_kind.items()} == {"all": 3, "a": 5, "b": 3}
    assert demands.said({"agent (px)": {"median": 41.3, "from": 12, "to": 70.4}, "needs contact": 0.474}) == (
        "agent (px) 41 [12, 70], needs contact 47 %"
    )


def test_pairs_of_push_t_need_contact_exactly_if_the_agent_alone_cannot_solve_them():
    rng, env = np.random.default_rng(0), make("push_t")
    starts = rng.uniform(0, 400, (300, 10))
    goals = starts + rng.normal(0, 1, (300, 10)) * ([90] * 2 + [12] * 2 + [0.3] + [0] * 5)
    best = starts.copy()
    best[:, :2] = goals[:, :2]  # the agent is where it should be, the block has not moved
    assert np.array_equal(env.demands(starts, goals)["needs contact"], ~solved(env, best, goals))


def test_more_is_asked_for_than_there_is():
    with pytest.raises(UserError, match="100 goals are asked for, but only 3"):
        manifest.draw(np.zeros((3, 2), int), 100, 0)
    with pytest.raises(UserError, match="part is empty"):
        split.split(4, SHARES, 0)


def test_trivial_pairs_can_be_excluded(smoke, data, tmp_path):
    from tdjepa.config.slices import MineSlice
    from tdjepa.steps import mine

    cfg = MineSlice(env="two_room", mine=smoke.mine.model_copy(update={"exclude_trivial": True}))
    mine.run(cfg, data / "episodes.h5", tmp_path)
    assert not any(json.loads((tmp_path / "test.json").read_text())["trivial"])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(2, 8), st.integers(1, 5), st.booleans())
@settings(max_examples=100, deadline=None)
def test_windows_are_exactly_those_that_fit(lengths, window, frameskip, published):
    lengths, ends = np.array(lengths), "after_last_block" if published else "at_last_frame"
    offsets, last = np.cumsum(lengths) - lengths, window * frameskip - 1 if published else (window - 1) * frameskip
    expected = [o + s for o, n in zip(offsets, lengths, strict=True) for s in range(n) if s + last < n]
    refused = contextlib.nullcontext() if expected else pytest.raises(UserError, match=f"spans {last + 1} rows")
    with refused:
        assert windows.starts(lengths, offsets, np.arange(len(lengths)), window, frameskip, ends).tolist() == expected


def test_gathered_windows_hold_the_right_rows():
    pixels = np.arange(100, dtype=np.uint8).reshape(100, 1, 1, 1)
    action = np.stack([np.arange(100), -np.arange(100)], 1).astype(np.float32)
    frames, blocks = windows.gather(pixels, action, np.array([3, 40]), 4, 5)
    assert frames[..., 0, 0, 0].tolist() == [[3, 8, 13, 18], [40, 45, 50, 55]]
    assert blocks.shape == (2, 3, 10)
    assert blocks[1, 2].tolist() == [50, -50, 51, -51, 52, -52, 53, -53, 54, -54]


@pytest.mark.parametrize("order", ["start_first", "gap_first"])
def test_pairs_lie_inside_their_episode_and_know_their_stratum(order):
    lengths = np.array([30, 80, 26, 101])
    table = pairs.draw(lengths, np.array([0, 1, 3]), 2000, 25, 10, 25, np.random.default_rng(0), order)
    assert (table.j - table.i == table.tau).all()
    assert set(table.tau) == set(range(1, 26))
    assert set(table.episode) == {0, 1, 3}
    assert (table.to_end == lengths[table.episode] - 1 - table.j).all()
    assert ((table.i >= 0) & (table.to_end >= 0)).all()
    assert (table.near == (table.to_end <= 10)).all()
    assert (table.far == (table.to_end >= 25)).all()


def test_the_published_draw_of_pairs_gives_the_published_strata():
    """On episodes as long as Push-T's, 125 rows on average: the authors' thousand pairs have 19.5 % near the end, with a mean
    gap of 9.21. The other draw has fewer and longer ones there."""
    lengths, episodes = np.random.default_rng(0).normal(125, 40, 5000).astype(int).clip(49, 246), np.arange(5000)

    def near(order):
        table = pairs.draw(lengths, episodes, 100_000, 25, 10, 25, np.random.default_rng(1), order)
        return table.near.mean(), table.tau[table.near].mean(), table.tau[table.near].std()

    share, gap, spread = near("start_first")
    assert 0.195 <= share <= 0.21
    assert abs(gap - 9.21) < 2 * spread / 195**0.5  # two standard errors of the authors' mean
    share, gap, _ = near("gap_first")
    assert share < 0.13
    assert gap > 13


def test_the_published_manifests_of_a_whole_file(smoke):
    """One draw from all episodes for validation and test; the curves' is another, which leaves out the last row."""
    mine = smoke.mine.model_copy(update={"manifest_draw": "all_episodes", "validation_goals": 50, "test_goals": 200})
    parts, lengths = split.split(10_000, SHARES, 0), np.full(10_000, 201)
    found = manifest.draw_all(mine, parts, lambda episodes: manifest.valid_rows(lengths, np.array(episodes), 25))
    assert manifest.lines_sha256(found["validation"]) == PUBLISHED
    assert len(found["test"]) == 200
    assert not set(map(tuple, found["validation"])) & set(map(tuple, found["test"]))
    rows = np.random.default_rng(3072).choice(10_000 * 176 - 1, 50, replace=False)
    assert found["curves"].tolist() == np.stack(np.divmod(rows, 176), 1).tolist()


def test_the_manifest_of_the_curves_is_held_out_too(data, smoke):
    parts, curves = json.loads((data / "mined/split.json").read_text()), read(data, data / "mined/curves.json")
    assert set(curves["entries"][:, 0]) <= set(parts["test"])
    assert len(curves["entries"]) == smoke.mine.validation_goals
