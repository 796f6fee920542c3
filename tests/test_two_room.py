"""Two-Room: the vectorised environment, expert and renderer against the library's own."""

import numpy as np
import pytest
from PIL import Image

from library import ExpertPolicy, TwoRoomEnv
from tdjepa.base.streams import stream
from tdjepa.config.records.data import TwoRoomData
from tdjepa.envs import two_room
from tdjepa.envs.base import make


@pytest.fixture(scope="module")
def library_env():
    env = TwoRoomEnv()
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_states_actions_and_ends_are_bit_equal_to_the_library(library_env, noise):
    env, n = library_env, 40
    data = TwoRoomData(episodes=n, max_steps=60, action_noise=noise, image_size=32)
    states, actions, steps, goals = two_room.demonstrate([stream(k, "test") for k in range(n)], data)
    policy = ExpertPolicy(action_noise=noise)
    policy.set_env(env)
    for k in range(n):
        policy.rng = rng = stream(k, "test")
        env._set_state(two_room.sample_positions(rng, in_wall=False))
        env._set_goal_state(two_room.sample_positions(rng, in_wall=True))
        for t in range(steps[k]):
            info = env._get_info()
            np.testing.assert_array_equal(info["state"], states[k, t])
            action = policy.get_action(info)
            np.testing.assert_array_equal(action, actions[k, t])
            terminated = env.step(action)[2]
            assert terminated == two_room.reached(states[k, t + 1 : t + 2], goals[k : k + 1])[0]
        assert terminated or steps[k] == 60


def test_random_walks_hit_walls_and_doors_as_in_the_library(library_env):
    env, rng = library_env, np.random.default_rng(0)
    ours = make("two_room")
    starts = np.stack([two_room.sample_positions(rng, in_wall=False) for _ in range(30)])
    ours.restore(starts)
    walks = rng.uniform(-1.5, 1.5, (40, 30, 2)).astype(np.float32)  # beyond the bounds too: the library clamps
    walks[:, :, 0] += np.where(starts[:, 0] < two_room.WALL, 0.6, -0.6)  # towards the wall
    trace = []
    for actions in walks:
        ours.step(actions)
        trace.append(ours.state)
    for k in range(30):
        env._set_state(starts[k])
        for t in range(40):
            env.step(walks[t, k])
            np.testing.assert_array_equal(env.agent_position.numpy(), trace[t][k])


@pytest.mark.parametrize("size", [32, 64, 224])
def test_frames_are_the_librarys_to_a_grey_level_or_two(library_env, size):
    rng = np.random.default_rng(1)
    corners = [[21, 21], [203, 203], [112, 49], [100, 49], [124, 112], [99.5, 30]]
    positions = np.concatenate([rng.uniform(14, 209, (60, 2)), corners]).astype(np.float32)
    worst, mean = 0, []
    for position, frame in zip(positions, two_room.Renderer(size)(positions), strict=True):
        library_env._set_state(position)
        image = Image.fromarray(library_env.render())
        image = image if size == 224 else image.resize((size, size), Image.BILINEAR)
        difference = np.abs(np.asarray(image).astype(int) - frame)
        worst, mean = max(worst, difference.max()), [*mean, difference.mean()]
    assert worst <= two_room.TwoRoom.renderer_difference["max"]
    assert np.mean(mean) <= 1.5 * two_room.TwoRoom.renderer_difference["mean"]


def test_a_frame_does_not_depend_on_its_batch():
    positions = np.random.default_rng(2).uniform(21, 203, (300, 2)).astype(np.float32)
    draw = two_room.Renderer(64)
    np.testing.assert_array_equal(draw(positions)[::7], np.concatenate([draw(p[None]) for p in positions[::7]]))
