"""Episodes on disk: reproducible bytes, true cards, clear about damage (also: test_chunked.py, test_bad_data.py)."""

import json
import shutil

import h5py
import numpy as np
import pytest

from tdjepa.base.errors import UserError
from tdjepa.config.slices import collect_slice
from tdjepa.data import card
from tdjepa.data.store import Store
from tdjepa.envs.base import make
from tdjepa.steps import collect


def test_two_collections_are_byte_equal_and_other_seeds_are_not(smoke, data, tmp_path):
    cfg = collect_slice(smoke, "two_room")
    collect.run(cfg, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == (data / "episodes.h5").read_bytes()
    other = collect.run(cfg.model_copy(update={"seed": 1}), tmp_path / "other.h5")
    assert other["sha256"] != json.loads((data / "episodes.card.json").read_text())["sha256"]


def test_more_episodes_begin_with_the_same_ones(smoke):
    cfg = collect_slice(smoke, "two_room")
    few = make("two_room").demonstrations(cfg.model_copy(update={"data": cfg.data.model_copy(update={"episodes": 5})}))
    many = make("two_room").demonstrations(cfg)
    assert np.array_equal(few.length, many.length[:5])
    assert np.array_equal(few.state, many.state[: few.length.sum()])


def test_the_card_counts_what_is_in_the_file(smoke, data):
    store, facts = Store(data / "episodes.h5"), json.loads((data / "episodes.card.json").read_text())
    assert facts["episodes"] == store.episodes == smoke.collect.two_room.episodes
    assert facts["rows"] == len(store.pixels) == len(store.action)
    assert facts["length_min"] == store.length.min() >= smoke.collect.min_length
    assert np.allclose(facts["action_std"], np.nanstd(store.action, 0), atol=1e-6)
    assert 0 < facts["trivial_share"] < 0.5
    assert np.isnan(store.action[store.offset + store.length - 1]).all()


def test_autocorrelation_does_not_cross_episodes():
    rng = np.random.default_rng(0)
    episodes = [np.repeat(rng.normal(size=(1, 1)), 50, 0) for _ in range(400)]  # constant inside, unrelated between
    actions = np.concatenate([np.vstack([e, [[np.nan]]]) for e in episodes])
    assert card.autocorrelation(actions, 1) == pytest.approx(1.0, abs=1e-6)
    assert card.autocorrelation(actions, 5) == pytest.approx(1.0, abs=1e-6)
    white = np.where(np.isnan(actions), np.nan, rng.normal(size=actions.shape))
    assert abs(card.autocorrelation(white, 1)) < 0.03


def test_the_contact_sheet_shows_the_frames(data, tmp_path):
    from PIL import Image

    from tdjepa.tools import contact_sheet as sheet

    sheet.run(data / "episodes.h5", tmp_path / "sheet.png", rows=3, columns=4)
    picture, store = np.asarray(Image.open(tmp_path / "sheet.png")), Store(data / "episodes.h5")
    assert picture.shape == (3 * 34 + 2, 4 * 34 + 2, 3)
    assert np.array_equal(picture[2:34, 2:34], store.pixels[0])
    assert np.array_equal(picture[-34:-2, -34:-2], store.pixels[-1])


def test_columns_that_disagree_and_rows_outside_an_episode(data, tmp_path):
    shutil.copy(data / "episodes.h5", tmp_path)
    with h5py.File(tmp_path / "episodes.h5", "a") as file:
        file["ep_len"][0] += 1
    with pytest.raises(UserError, match="do not add up"):
        Store(tmp_path / "episodes.h5")
    store = Store(data / "episodes.h5")
    with pytest.raises(UserError, match=f"step {store.length[2]} of episode 2 .* has {store.length[2]} rows"):
        store.row([2], [store.length[2]])
    with pytest.raises(UserError, match="episode 99 .* does not exist"):
        store.row([99], [0])
