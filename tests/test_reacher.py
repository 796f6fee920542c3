"""Reacher: model, physics, success and frames against the library's own environment; exact replay of what is collected."""

import numpy as np
import pytest
from PIL import Image

from tdjepa.base.torchvision_shim import library
from tdjepa.config.records.data import ReacherData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs import gl, reacher
from tdjepa.envs.base import make
from tdjepa.envs.library import render as drawn_by_library
from tdjepa.steps import collect

needs_gl = pytest.mark.skipif(gl.BACKEND == "disable", reason=f"no OpenGL here; {gl.INSTALL}")


@pytest.fixture(scope="module")
def library_env():
    env = library("envs.dmcontrol.reacher").ReacherDMControlWrapper(task="qpos_match")
    env.reset(seed=0)
    # drawn before anything of ours: dm_control takes for granted that its OpenGL context stays the current one
    env.drawn = [(state, draw(env, state)) for state in walk(4, 40, seed=2)[0][::8].reshape(-1, reacher.WIDTH)]
    yield env
    env.env.physics.free()


def draw(library_env, state):
    library_env.set_state(state[reacher.ANGLES], state[reacher.VELOCITIES])
    return Image.fromarray(library_env.render()) if gl.BACKEND != "disable" else None


def walk(n: int, steps: int, seed: int):
    """Random walks that also run into the wrist's limit. -> states (steps + 1, n, S), actions (steps, n, 2)"""
    rng, env = np.random.default_rng(seed), make("reacher")
    env.restore(np.stack([reacher.sample_start(rng) for _ in range(n)]))
    actions = np.clip(rng.uniform(-1.2, 1.2, (steps, n, 2)) + rng.choice([-0.5, 0, 0.5], (1, n, 2)), -1.5, 1.5)
    states = [env.state]
    for action in actions.astype(np.float32):
        env.step(action)
        states.append(env.state)
    return np.stack(states), actions.astype(np.float32)


def match(library_env, state):
    """Put the library's environment into one of our states."""
    physics, inner = library_env.env.physics, library_env.env._env
    inner._reset_next_step, inner._step_count = False, 0
    gl.mujoco.mj_setState(physics.model.ptr, physics.data.ptr, state[reacher.OF_PHYSICS], gl.PHYSICS)
    gl.mujoco.mj_step1(physics.model.ptr, physics.data.ptr)  # dm_control keeps this half of a step ahead


def test_the_model_is_the_librarys(library_env):
    ours, theirs = reacher.model(), library_env.env.physics.model.ptr
    others = np.arange(ours.ngeom) != ours.geom("target").id  # which the library moves; nobody sees or touches it
    for name in [name for name in dir(ours) if isinstance(getattr(ours, name), np.ndarray)]:
        a, b = getattr(ours, name), getattr(theirs, name)
        if name == "geom_pos":
            a, b = a[others], b[others]
        if name in ("bvh_aabb", "geom_aabb", "geom_rbound"):  # of the target's size, which the library rounds
            np.testing.assert_allclose(a, b, atol=1e-9, err_msg=name)
        else:
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert (ours.opt.timestep, ours.opt.disableflags) == (theirs.opt.timestep, theirs.opt.disableflags)


def test_states_are_bit_equal_to_the_librarys(library_env):
    library_env.env.task.target_qpos = None
    states, actions = walk(12, 150, seed=0)
    limit = reacher.model().joint("wrist").range[1]
    assert (np.abs(states[:, :, 1]) > limit - 0.02).any()  # or the solver's first guess would not matter
    for k in range(states.shape[1]):
        match(library_env, states[0, k])
        for t in range(len(actions)):
            info = library_env.step(actions[t, k])[-1]
            np.testing.assert_array_equal(info["qpos"], states[t + 1, k, reacher.ANGLES])
            np.testing.assert_array_equal(info["qvel"], states[t + 1, k, reacher.VELOCITIES])


def test_success_is_the_librarys_termination(library_env):
    states, actions = walk(60, 30, seed=1)
    goals, ends = states[25].copy(), []
    goals[::2, reacher.ANGLES] = goals[::2, reacher.BETWEEN]  # met after the first of the two physics steps
    env = make("reacher")
    for k in range(states.shape[1]):
        library_env.env.task.target_qpos = goals[k, reacher.ANGLES]
        match(library_env, states[0, k])
        env.restore(states[0, k : k + 1])
        for t in range(len(actions)):
            env.step(actions[t, k : k + 1])
            terminated = library_env.step(actions[t, k])[2]
            assert terminated == env.success(goals[k : k + 1])[0]
            if terminated:  # dm_control would reset
                ends.append((t, reacher.reached(env.state[:, reacher.ANGLES], goals[k : k + 1, reacher.ANGLES])[0]))
                break
    assert len(ends) == states.shape[1]
    assert max(t for t, _ in ends) == 24
    assert any(not still_there for _, still_there in ends)


def test_a_restored_state_is_judged_by_its_angles_alone_and_they_are_not_wrapped():
    env, state = make("reacher"), np.zeros((4, reacher.WIDTH))
    # the second was there half an action ago, before the start
    state[1:, reacher.ANGLES] = (0.06, 0.06), (0.049, 0.051), (2 * np.pi, 0.0)
    env.restore(state)
    assert env.success(np.zeros((4, reacher.WIDTH))).tolist() == [True, False, False, False]


@needs_gl
def test_frames_are_near_the_librarys(library_env):
    env = make("reacher")
    env.restore([state for state, _ in library_env.drawn])
    theirs = np.stack([image.resize((64, 64), Image.BILINEAR) for _, image in library_env.drawn])
    difference = np.abs(theirs.astype(int) - env.render(64))
    assert difference.mean() <= 1.2 * env.renderer_difference["mean"]
    assert difference.max() <= env.renderer_difference["max"]


@needs_gl
def test_the_librarys_frames_are_drawn_to_the_byte(library_env):
    """`evaluate.renderer: library` draws the library's model with MuJoCo's renderer instead of dm_control's."""
    states, images = zip(*library_env.drawn, strict=True)
    np.testing.assert_array_equal(drawn_by_library("reacher", np.stack(states), 224), np.stack(images))


@needs_gl
def test_frames_follow_the_arm():
    env = make("reacher")
    env.restore(np.array([[0.0] * 8, [np.pi / 2] + [0.0] * 7, [np.pi] + [0.0] * 7]))
    frames = env.render(64)[..., 0].astype(int)  # the arm is orange on blue
    assert frames[0, 31:33, 36:50].mean() > 180  # stretched to the right
    assert frames[1, 14:28, 31:33].mean() > 180  # up
    assert frames[2, 31:33, 14:28].mean() > 180  # to the left
    assert frames[:, 44:, :].max() < 120


def test_random_actions_are_after_nothing_and_few_goals_are_trivial():
    data = ReacherData(episodes=6, max_steps=60, image_size=32)
    cfg = CollectSlice(env="reacher", seed=5, min_length=26, goal_offset=25, data=data)
    demos = make("reacher").demonstrations(cfg)
    assert demos.reached is None
    assert collect.trivial(make("reacher"), demos, 25).mean() < 0.05
