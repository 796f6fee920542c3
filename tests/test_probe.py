"""What the diagnostics of a model's limits claim: the probe reads what is there, the ceiling's planner knows the simulator."""

import numpy as np
import pytest
import torch

from tdjepa.data.store import Store
from tdjepa.diagnostics import ceiling, probe
from tdjepa.envs.base import make
from tdjepa.mining import split
from tdjepa.planning import mpc
from tdjepa.streams import stream


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
    store = Store(data / "episodes.h5")
    parts = {k: np.asarray(v) for k, v in split.read(data / "mined/split.json", store.episodes).items()}
    code = np.random.default_rng(0).normal(size=(2, 6))
    quantities = probe.QUANTITIES["two_room"]
    arguments = (store, quantities, parts["train"], parts["validation"], 5, 3)
    found = probe.probe(Seer(store, code), *arguments, stream(0, "probe"), n=64)["agent"]
    assert found["seen"] < 1.0
    assert found["r2"] > 0.99
    # a model that predicts no motion is wrong by exactly the motion, as far as the probe reads places exactly
    assert np.allclose(found["ahead"], found["still"], atol=1.0)
    assert found["still"][2] > found["still"][0] > 1.0
    blind = probe.probe(Seer(store, 0 * code), *arguments, stream(0, "probe"), n=64)["agent"]
    assert blind["r2"] < 0.1
    assert blind["seen"] == pytest.approx(blind["chance"], rel=0.3)


def test_the_probe_is_least_squares_with_an_intercept():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(500, 4)) * [1, 1, 1, 1e-6] + 3
    y = z @ rng.normal(size=(4, 2)) + 7
    assert probe.error(probe.fit(z, y)(z), y) < 0.02


def test_angles_are_compared_around_the_circle():
    assert ceiling.turned(np.array([0.1]), np.array([2 * np.pi - 0.1])) == pytest.approx(0.2)
    state = np.zeros((1, 10))
    goal = np.array([12.0, 0, 16.0, 0, 2 * np.pi - np.pi / 9, 0, 0, 0, 0, 0])
    assert ceiling.push_t(state, goal) == pytest.approx(1.0 + 1.0)


@pytest.mark.parametrize("name", ["two_room", "push_t"])
def test_the_simulator_as_model_knows_where_its_plans_end(smoke, name):
    """The planner follows the episode without looking, so its own state must be the environment's, to the bit."""
    env = make(name)
    small = smoke.evaluate.planner.model_copy(update={"candidates": 12, "elites": 3, "horizon": 2, "receding": 2})
    demos = make(name).demonstrations(collect_two(smoke, name))
    starts, goals = demos.state[[0, 30]], demos.state[[10, 40]]
    moments = np.zeros(2), np.full(2, 0.3)
    policy = ceiling.SimulatorPlanner(make(name), starts, goals, moments, 5, small, 2, 7, [(0, 0), (0, 30)])
    outcome = mpc.run_episodes(env, starts, goals, policy, 20, 5)
    on = ~outcome["success"]
    assert np.array_equal(outcome["final"][on], policy.states[on])


def collect_two(smoke, name):
    from tdjepa import params

    cfg = params.collect_slice(smoke, name)
    return cfg.model_copy(
        update={"data": cfg.data.model_copy(update={"episodes": 2, "max_steps": 60}), "min_length": 45}
    )


def test_better_search_gets_nearer_with_the_true_simulator(smoke):
    """Two-Room within one room: the ceiling's planner must solve what a zero plan does not."""
    env = make("two_room")
    demos = make("two_room").demonstrations(collect_two(smoke, "two_room"))
    starts, goals = demos.state[:1], demos.state[20:21]
    small = smoke.evaluate.planner.model_copy(update={"candidates": 64, "elites": 8})
    policy = ceiling.SimulatorPlanner(
        make("two_room"), starts, goals, (np.zeros(2), np.ones(2)), 5, small, 8, 7, [(0, 0)]
    )
    outcome = mpc.run_episodes(env, starts, goals, policy, 50, 5)
    assert outcome["success"].all()
    assert not outcome["trivial"].any()
