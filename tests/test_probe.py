"""What the diagnostics of a model's limits claim: the probe reads what is there, the ceiling's planner knows the simulator."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config.records.base import ENVS
from tdjepa.config.slices import ceiling_slice, collect_slice, ladder_slice, probe_slice
from tdjepa.data.store import Store
from tdjepa.envs.base import make
from tdjepa.evidence import rows as evaluation_rows
from tdjepa.mining import split
from tdjepa.planning import mpc
from tdjepa.steps import candidates, ceiling, ladder, probe


class Seer:
    """A world model that sees the agent's place (as its own code) and knows how Two-Room moves it, walls apart."""

    def __init__(self, data, mixed):
        self.place = {frame.tobytes(): state for frame, state in zip(data.pixels, data.state, strict=True)}
        self.mixed = mixed  # (2, D)

    def encode(self, frames):
        places = np.stack([self.place[frame.numpy().tobytes()] for frame in frames])
        return torch.from_numpy(places[:, :2] @ self.mixed)

    standardise = staticmethod(lambda blocks: blocks)
    action_encoder = staticmethod(lambda blocks: blocks)

    def rollout(self, z, c):
        """Stands still for ever."""
        return z.expand(-1, c.shape[1], -1)


def test_the_probe_reads_a_linear_code_and_sees_where_prediction_fails(smoke, data):
    store, code = Store(data / "episodes.h5"), np.random.default_rng(0).normal(size=(2, 6))
    parts = {k: np.asarray(v) for k, v in split.read(data / "mined/split.json", store.episodes).items()}
    arguments = (store, probe.QUANTITIES["two_room"], parts["train"], parts["validation"], 5, 3)
    (found,) = probe.probe(Seer(store, code), *arguments, stream(0, "probe"), n=128)
    assert max(found["linear"], found["kernel"]) < 1.0
    # a model that predicts no motion is wrong by exactly the motion, as far as the probe reads places exactly
    assert np.allclose(found["ahead"], found["still"], atol=1.0)
    assert found["still"][2] > found["still"][0] > 1.0
    (blind,) = probe.probe(Seer(store, 0 * code), *arguments, stream(0, "probe"), n=128)
    assert (blind["linear"], blind["kernel"]) == pytest.approx((blind["mean"],) * 2, rel=0.3)


def test_the_probe_is_least_squares_with_an_intercept():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(500, 4)) * [1, 1, 1, 1e-6] + 3
    y = z @ rng.normal(size=(4, 2)) + 7
    assert probe.error(probe.fit(z, y)(z), y) < 0.02


def test_the_kernel_reads_what_is_bent_and_a_line_does_not():
    angle = np.random.default_rng(2).uniform(-1, 1, (400, 1))
    z, y = np.hstack([np.cos(3 * angle), np.sin(3 * angle)]), angle  # nearly a whole circle
    assert probe.error(probe.fit_kernel(z[:300], y[:300])(z[300:]), y[300:]) < 0.15
    assert probe.error(probe.fit(z[:300], y[:300])(z[300:]), y[300:]) > 0.2


@pytest.mark.parametrize("method", ["tdjepa", "lewm"])
def test_a_probe_of_a_training_is_written_and_the_same_twice(smoke, data, trained, tmp_path, method):
    inputs = (probe_slice(smoke, "two_room", method, 3072), data / "episodes.h5", data / "mined/split.json")
    for name in ("a", "b"):
        probe.run(*inputs, trained / method / "epoch_02.safetensors", tmp_path / f"{name}.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    (agent,) = json.loads((tmp_path / "a.json").read_text())["quantities"]
    assert (agent["quantity"], agent["unit"], len(agent["ahead"])) == ("agent", "px", smoke.evaluate.planner.horizon)
    with pytest.raises(UserError, match="was trained with epoch = 1, expected 2"):
        probe.run(*inputs, trained / method / "epoch_01.safetensors", tmp_path / "c.json")


@pytest.mark.parametrize("name", ENVS)
def test_quantities_are_where_the_environment_has_them(name, smoke):
    """A state with one quantity moved by a unit differs in that quantity and in no other; and cost and success agree."""
    demos = make(name).demonstrations(collect_few(smoke, name))
    states = demos.state[:5].astype(np.float64)
    assert all(np.isfinite(read(states)).all() for read in probe.QUANTITIES[name].values())
    places = {"two_room": {"agent": 0}, "reacher": {"shoulder": 0, "wrist": 1}}
    places |= {"push_t": {"agent": 1, "block": 3, "angle": 4}, "cube": {"cube": 15, "effector": 62}}
    for moved, at in places[name].items():
        other = states.copy()
        other[:, at] += 0.01
        changed = [q for (q, _), read in probe.QUANTITIES[name].items() if not np.allclose(read(states), read(other))]
        assert changed == [moved]
    if name == "cube":  # as the environment itself names them
        from tdjepa.envs.cube import CUBE, EFFECTOR

        for quantity, at in (("cube", CUBE), ("effector", EFFECTOR)):
            assert np.array_equal(states[:, at] * 100, probe.QUANTITIES[name][quantity, "cm"](states))
    env = make(name)
    env.restore(states)
    goals = np.repeat(states[2:3], len(states), 0)
    at_goal, distance = env.success(goals), ceiling.DISTANCE[name](states, states[2])
    assert distance[2] == 0
    assert (np.where(at_goal, distance < 3, distance >= 1)).all()


def test_angles_are_compared_around_the_circle():
    state = np.zeros((1, 10))
    assert ceiling.push_t(state, np.eye(10)[4] * (2 * np.pi - np.pi / 18)) == pytest.approx(0.25)
    goal = np.array([12.0, 0, 16.0, 0, 2 * np.pi - np.pi / 9, 0, 0, 0, 0, 0])
    assert ceiling.push_t(state, goal) == pytest.approx(1.0 + 1.0)


def cell_of(smoke, name, refinements, **planner):
    (cell,) = ceiling_slice(smoke, name).cells
    planner = cell.planner.model_copy(update=planner)
    return cell.model_copy(update={"planner": planner, "refinements": refinements})


def collect_few(smoke, name):
    cfg = collect_slice(smoke, name)
    data = cfg.data.model_copy(update={"episodes": 1, "max_steps": 60})
    return cfg.model_copy(update={"data": data, "min_length": 45})


@pytest.mark.parametrize("name", ENVS)
def test_the_simulator_as_model_knows_where_its_plans_end(smoke, name):
    """The planner follows the episode without looking, so its own state must be the environment's, to the bit."""
    env, demos = make(name), make(name).demonstrations(collect_few(smoke, name))
    cell = cell_of(smoke, name, 1, candidates=4, elites=2, keep=1, horizon=2, receding=2)
    starts, goals = demos.state[[0, 20]], demos.state[[25, 45]]
    moments = np.zeros(env.action_dim), np.full(env.action_dim, 0.3)
    policy = ceiling.SimulatorPlanner(make(name), starts, goals, moments, 5, cell, 7, [(0, 0), (0, 20)])
    outcome = mpc.run_episodes(env, starts, goals, policy, 20, 5)
    on = ~outcome["success"]
    assert np.array_equal(outcome["final"][on], policy.states[on])


def test_better_search_gets_nearer_with_the_true_simulator(smoke):
    """Two-Room within one room: the ceiling's planner must solve what a zero plan does not."""
    env, demos = make("two_room"), make("two_room").demonstrations(collect_few(smoke, "two_room"))
    starts, goals = demos.state[:1], demos.state[20:21]
    cell = cell_of(smoke, "two_room", 8, candidates=64, elites=8)
    policy = ceiling.SimulatorPlanner(make("two_room"), starts, goals, (np.zeros(2), np.ones(2)), 5, cell, 7, [(0, 0)])
    outcome = mpc.run_episodes(env, starts, goals, policy, 50, 5)
    assert outcome["success"].all()
    assert not outcome["trivial"].any()


def test_the_parts_of_a_ceiling_are_rows_that_statistics_read(smoke, data, tmp_path):
    files, parts = (data / "episodes.h5", data / "mined/split.json", data / "mined/test.json"), []
    for part in (1, 2):
        cfg = ceiling_slice(smoke, "two_room", part)
        parts.append(tmp_path / f"ceiling_{part}.parquet")
        table = ceiling.run(cfg, *files, parts[-1])
    pd.testing.assert_frame_equal(table, ceiling.run(cfg, *files, parts[-1]))
    found = evaluation_rows.read(parts)
    assert set(found.method) == {"simulator"}
    locked = json.loads((data / "mined/test.json").read_text())["entries"][: smoke.diagnose.ceiling_pairs["two_room"]]
    assert sorted(found[["episode", "start"]].to_numpy().tolist()) == sorted(locked)
    with pytest.raises(UserError, match="--part 3: two_room has 2"):
        ceiling_slice(smoke, "two_room", 3)
    gradient = cfg.cells[0].model_copy(update={"solver": "gradient"})
    with pytest.raises(UserError, match=r"evaluate.protocol.two_room.solver = 'gradient'"):
        ceiling.run(cfg.model_copy(update={"cells": (gradient,)}), *files, parts[-1])


def test_a_sweep_of_the_ceiling_is_planned_on_validation_pairs(smoke):
    swept = ceiling_slice(smoke, "two_room", sweep="budget")
    assert (swept.evaluate.manifest, swept.first) == ("validation", 0)
    assert len({(c.planner.candidates, c.refinements) for c in swept.cells}) == len(swept.cells) > 5


def test_the_ladder_learns_true_states(smoke, data, tmp_path):
    """Two-Room's agent moves by its actions: a predictor that learned it is far better than one that has just begun."""
    files = (data / "episodes.h5", data / "mined/split.json", data / "mined/test.json")
    cfg, losses = ladder_slice(smoke, "two_room"), {}
    for steps in (2, 300):
        train = cfg.train.model_copy(update={"steps_per_epoch": steps, "lr": 5e-3})
        rows = ladder.run(cfg.model_copy(update={"train": train}), *files, tmp_path / f"{steps}.parquet")
        losses[steps] = json.loads((tmp_path / f"{steps}.card.json").read_text())["loss"]
    assert losses[300] < 0.2 * losses[2]
    assert set(evaluation_rows.read([tmp_path / "300.parquet"]).method) == {"true_state"}
    assert len(rows) == smoke.evaluate.designs["main"].pairs


@pytest.mark.parametrize("name", ENVS)
def test_a_latent_of_true_states_is_of_order_one(smoke, name):
    states = make(name).demonstrations(collect_few(smoke, name)).state
    z = ladder.latents_of(name, states)(states)
    assert z.dtype == np.float32
    assert 0.01 < z.std() < 5
    assert np.abs(z.mean(0)).max() < 1e-4


def test_drawn_actions_lead_where_the_simulator_says(smoke):
    """White and coloured actions have the moments of the data; the states are those that the environment steps to."""
    env, demos = make("push_t"), make("push_t").demonstrations(collect_few(smoke, "push_t"))
    mean, std = np.array([0.1, -0.2]), np.array([0.3, 0.2])
    found = candidates.drawn(env, np.repeat(demos.state[:4], 20, 0), (mean, std), 5, 5, 2.0, seed=3)
    assert set(found) == set(probe.KINDS)
    for blocks, states in found.values():
        actions = blocks.reshape(80, 25, 2)
        np.testing.assert_allclose(actions.mean((0, 1)), mean, atol=0.06)
        env.restore(np.repeat(demos.state[:4], 20, 0)[7:8])
        for k in range(25):
            env.step(actions[7:8, k])
        np.testing.assert_array_equal(env.state[0], states[4][7])
    step = {kind: np.abs(np.diff(blocks.reshape(80, 5, 10), axis=1)).mean() for kind, (blocks, _) in found.items()}
    assert step["coloured"] < step["white"]  # from block to block


def test_an_environment_without_ceiling_pairs_has_none(smoke):
    without = smoke.diagnose.model_copy(update={"ceiling_pairs": {}})
    with pytest.raises(UserError, match="diagnose.ceiling_pairs: no entry for cube; add one"):
        ceiling_slice(smoke.model_copy(update={"diagnose": without}), "cube")
