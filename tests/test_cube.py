"""Cube: model, physics, expert, success and frames against the library's own environment; exact replay of collected data."""

import numpy as np
import pytest
from PIL import Image

from tdjepa.base.streams import stream
from tdjepa.base.torchvision_shim import library
from tdjepa.config.records.data import CubeData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs import cube, gl
from tdjepa.envs.base import make
from tdjepa.steps import collect

needs_gl = pytest.mark.skipif(gl.BACKEND == "disable", reason=f"no OpenGL here; {gl.INSTALL}")
EPISODES, STEPS = 6, 200


def settings(episodes: int, max_steps: int, **changes) -> CollectSlice:
    how = {"action_noise": 0.1, "carry_share": 0.0, "carry_steps": 0, "image_size": 32, **changes}
    data = CubeData(episodes=episodes, max_steps=max_steps, **how)
    return CollectSlice(env="cube", seed=5, min_length=26, goal_offset=25, data=data)


@pytest.fixture(scope="module")
def library_env():
    kind = {"env_type": "single", "ob_type": "states", "multiview": False, "visualize_info": False}
    env = library("envs.ogbench.cube_env").CubeEnv(**kind, terminate_at_goal=False, mode="data_collection")
    env.reset()
    yield env
    if env._renderer is not None:
        env._renderer.close()


@pytest.fixture(scope="module")
def demos():
    return make("cube").demonstrations(settings(EPISODES, STEPS))


def match(library_env, state):
    """Put the library's environment into one of our states."""
    model, data, pinch = library_env._model, library_env._data, library_env._pinch_site_id
    gl.mujoco.mj_setState(model, data, state[cube.OF_PHYSICS], gl.PHYSICS)
    data.site_xpos[pinch], data.site_xmat[pinch] = state[cube.EFFECTOR], state[cube.ROTATION]


def test_the_model_is_the_librarys(library_env):
    ours, theirs = cube._simulation().model, library_env._model
    for name in [name for name in dir(ours) if isinstance(getattr(ours, name), np.ndarray)]:
        if not name.startswith(("_", "cam_", "name")):  # the library has two more cameras
            a, b = getattr(ours, name), getattr(theirs, name)
            if name == "geom_rgba":
                a, b = a[a[:, 3] > 0], b[b[:, 3] > 0]  # the target is invisible
            np.testing.assert_array_equal(a, b, err_msg=name)
    for camera in ("pos", "quat", "fovy"):
        np.testing.assert_array_equal(*(getattr(model.camera("front_pixels"), camera) for model in (ours, theirs)))
    for option in ("timestep", "integrator", "cone", "impratio", "disableflags", "enableflags"):
        assert getattr(ours.opt, option) == getattr(theirs.opt, option)


def test_states_are_bit_equal_to_the_librarys(library_env, demos):
    states, actions = (x.reshape(EPISODES, STEPS + 1, -1) for x in (demos.state, demos.action))
    assert (states[0, :, 16] > 0.1).any()  # the cube is lifted: contacts matter
    for k in (0, 3):
        match(library_env, states[k, 0])
        for t in range(STEPS):
            info = library_env.step(actions[k, t])[-1]
            np.testing.assert_array_equal(info["qpos"], states[k, t + 1, cube.POSITIONS])
            np.testing.assert_array_equal(info["qvel"], states[k, t + 1, 21:41])
            np.testing.assert_array_equal(info["proprio/effector_pos"], states[k, t + 1, cube.EFFECTOR])


def test_actions_are_those_of_the_librarys_expert(library_env, monkeypatch):
    """Without noise, target by target: OGBench's oracle on the library's environment acts as ours did."""
    from ogbench.manipspace.oracles.markov.cube_markov import CubeMarkovOracle

    simulation, targets = cube._simulation(), []
    draw = simulation.new_target

    def new_target(rng):
        place, mocap = draw(rng), library_env._cube_target_mocap_ids[0]
        quat = simulation.data.mocap_quat[mocap].copy()
        targets.append((place, quat, simulation.expert._final_pos, simulation.expert._final_yaw))
        return place

    monkeypatch.setattr(simulation, "new_target", new_target)
    states, actions, _, reached, carries = cube.demonstrate(stream(0, "test"), settings(1, 150, action_noise=0.0).data)
    assert len(reached) > 0
    assert not carries
    oracle = CubeMarkovOracle(env=library_env, min_norm=0.4)

    def aim():
        place, quat, oracle._final_pos, oracle._final_yaw = targets.pop(0)
        oracle._done, oracle._step = False, 0
        library_env.set_target_pos(0, place, quat)

    match(library_env, states[0])
    aim()
    for t in range(150):
        expected = oracle.select_action(None, library_env.compute_ob_info())
        np.testing.assert_array_equal(expected.astype(np.float32), actions[t])
        if oracle.done:
            aim()
        library_env.step(actions[t])
    assert not targets


def test_the_expert_succeeds_and_few_goals_are_trivial(demos):
    assert len(demos.reached) >= EPISODES
    assert demos.reached.mean() >= 0.92
    assert demos.facts["targets"] == len(demos.reached)
    assert demos.facts["targets_reached"] == demos.reached.sum()
    assert demos.facts["targets_per_pursuing_episode"] == len(demos.reached) / EPISODES
    assert demos.facts["carry_share"] == {"asked": 0.0, "realised": 0.0}
    assert 0.05 < demos.facts["lifted_share"] < 0.95
    assert collect.trivial(make("cube"), demos, 25).mean() < 0.30
    assert np.abs(np.nan_to_num(demos.action)).max() <= 1


def test_a_cube_that_is_carried_about_goes_everywhere_in_a_closed_hand():
    demos = make("cube").demonstrations(settings(4, 120, carry_share=1.0))
    state = demos.state.reshape(4, 121, -1)
    held = np.linalg.norm(state[..., cube.CUBE] - state[..., cube.EFFECTOR], axis=-1) < 0.03
    assert len(demos.reached) == 0  # no target, no success and no failure
    assert demos.facts["carry_share"]["realised"] == 1
    assert (held.any(1) & (held.mean(1) > 0.4)).all()  # every expert got hold of it and mostly kept it
    assert collect.trivial(make("cube"), demos, 25).mean() < 0.2
    action = demos.action.reshape(4, 121, 5)[held]
    assert np.nanmean(action, 0)[4] > 0.4  # so that a plan's mean action keeps the hand closed
    moved = np.diff(state[..., cube.EFFECTOR], axis=1)[held[:, :-1]]
    assert (
        np.abs(np.corrcoef(moved.T) - np.eye(3)).max() < 0.5
    )  # the directions are not bound to each other, as an expert's are


def test_a_cube_that_is_put_down_is_grasped_again():
    def grasps(carry_steps):
        demos = make("cube").demonstrations(settings(3, 200, carry_share=1.0, carry_steps=carry_steps))
        state = demos.state.reshape(3, 201, -1)
        held = np.linalg.norm(state[..., cube.CUBE] - state[..., cube.EFFECTOR], axis=-1) < cube.HELD
        return (held[:, 1:] & ~held[:, :-1]).sum(), held.mean()

    (kept, long), (often, short) = grasps(0), grasps(20)
    assert often >= kept + 3
    assert 0.3 < short < long


def test_success_is_the_librarys(library_env):
    rng, env = np.random.default_rng(0), make("cube")
    goals, states = np.zeros((2, 200, cube.WIDTH))
    goals[:, cube.CUBE] = rng.uniform([0.3, -0.3, 0.02], [0.55, 0.3, 0.2], (200, 3))
    away = rng.normal(size=(200, 3))
    away *= rng.uniform(0.03, 0.05, (200, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    states[:, cube.CUBE] = goals[:, cube.CUBE] + away
    env.restore(states)
    for state, goal, ours in zip(states, goals, env.success(goals), strict=True):
        library_env._data.joint("object_joint_0").qpos[:3] = state[cube.CUBE]
        library_env.set_target_pos(0, goal[cube.CUBE])
        assert library_env._compute_successes() == [ours]
    assert 0.3 < env.success(goals).mean() < 0.7


def test_privileged_geometry(demos):
    distance = np.linalg.norm(demos.state[:, cube.CUBE] - demos.state[:, cube.EFFECTOR], axis=1)
    assert distance.min() < 0.02  # in the gripper
    assert distance.max() > 0.2
    model, held = cube._simulation().model, demos.state[np.argmin(distance)]
    data = gl.mujoco.MjData(model)
    data.qpos[:] = held[cube.POSITIONS]
    gl.mujoco.mj_kinematics(model, data)
    np.testing.assert_array_equal(data.body("object_0").xpos, held[cube.CUBE])
    np.testing.assert_allclose(data.site("ur5e/robotiq/pinch").xpos, held[cube.EFFECTOR], atol=2e-3)  # one step late


@needs_gl
def test_frames_are_near_the_librarys_and_those_of_whole_meshes(library_env, demos):
    env, states = make("cube"), demos.state[20::150]
    env.restore(states)
    frames = env.render(64).astype(int)
    theirs = []
    for state in states:
        library_env.set_state(state[cube.POSITIONS], state[21:41])
        theirs.append(np.asarray(Image.fromarray(library_env.render()).resize((64, 64), Image.BILINEAR)))
    difference = np.abs(frames - np.array(theirs))
    model = cube._simulation().model
    whole = np.abs(frames - gl.Renderer(model, "front_pixels", 64)(states[:, cube.POSITIONS]))
    assert difference.mean() <= 1.1 * env.renderer_difference["mean"]
    assert difference.max() <= env.renderer_difference["max"]
    assert whole.mean() <= 0.9  # decimated against whole meshes, grey levels of 255
    assert (whole.max(-1) > 20).mean() <= 0.02
