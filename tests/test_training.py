"""Training: the same parameters give the same bytes, the schedule is as described, bad input stops before work starts."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch

from tdjepa.base.errors import UserError
from tdjepa.config.slices import train_slice
from tdjepa.data.store import Store
from tdjepa.model import checkpoint
from tdjepa.model.normalisation import whitening
from tdjepa.steps import train as training


def test_two_trainings_are_byte_equal_and_other_seeds_are_not(smoke, data, trained, tmp_path):
    for seed in (3072, 3073):
        cfg = train_slice(smoke, "two_room", "tdjepa", seed)
        training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path / str(seed))
    for name in ("epoch_01.safetensors", "epoch_02.safetensors", "epoch_02.card.json", "curve.csv"):
        assert (tmp_path / "3072" / name).read_bytes() == (trained / "tdjepa" / name).read_bytes()
    last = "epoch_02.safetensors"
    assert (tmp_path / "3073" / last).read_bytes() != (trained / "tdjepa" / last).read_bytes()


def test_the_loss_falls(smoke, data, tmp_path):
    cfg = train_slice(smoke, "two_room", "tdjepa", 1)
    longer = cfg.model_copy(update={"train": cfg.train.model_copy(update={"steps_per_epoch": 60, "lr": 3e-3})})
    training.run(longer, data / "episodes.h5", data / "mined/split.json", tmp_path)
    curve = list(csv.DictReader((tmp_path / "curve.csv").read_text().splitlines()))
    assert float(curve[1]["loss"]) < float(curve[0]["loss"])
    assert list(curve[0]) == [
        *("epoch", "step", "lr", "loss", "one_step", "rollout", "temporal", "sigreg"),
        *("grad_norm", "latent_std", "effective_rank"),
    ]


def test_every_window_is_seen_once_before_any_is_seen_twice(smoke):
    batch = smoke.train.model_copy(update={"batch": 3})
    order = training.batches(np.arange(10), 7, batch, np.random.default_rng(0)).ravel()
    assert sorted(order[:10]) == list(range(10))
    assert len(set(order[10:20])) == 10
    assert len(order) == 21


def test_siblings_stand_side_by_side(smoke):
    episode = np.repeat([3, 5, 8], [7, 9, 2])
    batch = smoke.train.model_copy(update={"batch": 6, "siblings": 3})
    order = training.batches(episode, 8, batch, np.random.default_rng(0))
    families = episode[order].reshape(-1, 3)
    assert (families == families[:, :1]).all()
    assert set(order.ravel()) == set(range(16))  # two windows are no family
    assert len(set(order.ravel()[:15])) == 15  # two of the first seven, all three of nine, then another pass
    with pytest.raises(UserError, match="siblings = 3: no training episode has so many windows"):
        training.batches(np.arange(4), 1, batch, np.random.default_rng(0))


def test_the_average_is_what_is_saved(smoke, data, tmp_path):
    """With a decay that forgets all but the last steps it is near the plain weights, and not equal to them."""
    plain = train_slice(smoke, "two_room", "lewm", 1)
    for name, decay in (("plain", 0.0), ("average", 0.2)):
        cfg = plain.model_copy(update={"train": plain.train.model_copy(update={"average": decay})})
        training.run(cfg, data / "episodes.h5", data / "mined/split.json", tmp_path / name)
    assert (tmp_path / "plain/curve.csv").read_bytes() == (tmp_path / "average/curve.csv").read_bytes()
    a, b, first = (
        checkpoint.load(tmp_path / place / f"epoch_{epoch:02d}.safetensors")[0].predictor.enter.weight
        for place, epoch in (("plain", 2), ("average", 2), ("plain", 1))
    )
    assert 0 < (a - b).abs().max() < 0.3 * (a - first).abs().max()


def test_normalisation_comes_from_training_episodes_alone(smoke, data, trained):
    store, parts = Store(data / "episodes.h5"), json.loads((data / "mined/split.json").read_text())
    model, _ = checkpoint.load(trained / "lewm/epoch_02.safetensors")
    episode = np.repeat(np.arange(store.episodes), store.length)
    mean = np.nanmean(store.action[np.isin(episode, parts["train"])].astype(float), 0)
    torch.testing.assert_close(model.action_mean[:2].double(), torch.from_numpy(mean), atol=1e-6, rtol=0)
    assert torch.equal(model.standardise(torch.full((10,), torch.nan)), torch.zeros(10))


def test_bad_input_stops_before_training(smoke, data, tmp_path):
    cfg = train_slice(smoke, "two_room", "tdjepa", 1)

    def attempt(episodes=data / "episodes.h5", split=data / "mined/split.json", cfg=cfg):
        training.run(cfg, episodes, split, tmp_path / "out")

    shutil.copy(data / "episodes.h5", tmp_path / "episodes.h5")
    with pytest.raises(UserError, match=r"card episodes\.card\.json is missing"):
        attempt(episodes=tmp_path / "episodes.h5")
    shutil.copy(data / "episodes.card.json", tmp_path / "episodes.card.json")
    with open(tmp_path / "episodes.h5", "r+b") as file:
        file.seek(-100, 2)
        file.write(b"x")
    with pytest.raises(UserError, match="is not the card's"):
        attempt(episodes=tmp_path / "episodes.h5")
    with pytest.raises(UserError, match=r"train\.device = 'cuda'"):
        attempt(cfg=cfg.model_copy(update={"train": cfg.train.model_copy(update={"device": "cuda"})}))
    assert not (tmp_path / "out").exists()


def test_a_loss_that_is_not_finite_says_what_to_change(smoke, data, tmp_path):
    cfg = train_slice(smoke, "two_room", "tdjepa", 1)
    train = cfg.train.model_copy(update={"lr": 1e18, "warmup": 0.0, "steps_per_epoch": 20})
    wild = cfg.model_copy(update={"train": train})
    with pytest.raises(UserError, match=r"loss is not finite \(.* at step .*lower train\.lr \(now 1e\+18\)"):
        training.run(wild, data / "episodes.h5", data / "mined/split.json", tmp_path)


def test_checkpoints_that_do_not_fit_are_refused(trained, tmp_path):
    source = trained / "tdjepa/epoch_02.safetensors"
    for name in (source.name, "epoch_02.card.json"):
        shutil.copy(source.parent / name, tmp_path / name)
    with open(tmp_path / source.name, "r+b") as file:
        file.seek(-8, 2)
        file.write(b"12345678")
    with pytest.raises(UserError, match=r"epoch_02\.safetensors: sha256 .* is not the card's"):
        checkpoint.load(tmp_path / source.name)


def test_whitening_makes_colours_uncorrelated_and_brings_a_rare_one_out():
    colours = np.repeat([[255.0, 255, 255], [143, 163, 184], [78, 126, 255]], [960, 37, 3], 0)  # table, block, agent
    colours = (colours - colours.mean(0)) / colours.std(0)
    white = colours @ whitening(colours)
    values = np.linalg.eigvalsh(white.T @ white / len(white))
    np.testing.assert_allclose(values[1:], 1.0, atol=1e-6)  # three colours span a plane: one direction stays empty
    power = (white**2).sum(1)
    assert power[-3:].sum() > 0.9 * power[960:-3].sum()
    assert (colours[-3:] ** 2).sum() < 0.2 * (colours[960:-3] ** 2).sum()
