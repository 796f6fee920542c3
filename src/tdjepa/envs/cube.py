"""Cube, the library's `swm/OGBCube-v0` (single): a robot arm with a gripper moves one cube on a table.

Scene, controller and demonstrator are OGBench's own classes, on which the library's environment is built too. Only the
colours and the light are set here. States are bit-equal to the library's for the same actions (tests/test_cube.py steps
both). For that, a state also holds the first guess of the contact solver, and the pose of the gripper one physics step (2 ms)
ago: the controller aims relative to that late pose. What is drawn and judged here is never late. Frames show meshes whose
vertices are merged within half a pixel, and no shadow of what moves. There is no `moved`: the arm is bolted to the table.
"""

from functools import cache

import numpy as np

from tdjepa.base.streams import stream
from tdjepa.config.records.data import CubeData
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import Demonstrations, Env
from tdjepa.envs.gl import PHYSICS, Renderer, coarsened, mujoco

REACHED = 0.04  # m
CUBE_Z = 0.02  # m, of a cube that lies on the table
CELL = 0.4  # m, over the image size: at 64 px vertices are merged within 6 mm, where a pixel is 12 mm wide
NOISE = np.array([1.0, 1.0, 1.0, 3.0, 10.0])  # of the five actions, relative to the episode's noise level
MIN_NORM = 0.4  # the expert does not slow down before a place that it heads for
PATIENCE = 100  # steps on one target after which the expert has failed; it takes 64 (median), 115 (95th percentile)

# Carrying the cube about. Where gripper actions do not matter to the model, CEM's plan scatters them by half the data's std
# around the data's mean, and one that opens drops the cube. So the hand presses and opens slowly: mean 0.5, std 0.5.
HELD = 0.02  # m at most between the cube and the middle of the fingers; the expert's own limit
CARRY_MEAN, CARRY_STD = np.array([0.0, 0.0, 0.0, 0.0, 0.8]), np.array([0.6, 0.6, 0.6, 0.4, 0.3])
MEMORY = 0.7  # of the noise around CARRY_MEAN, from step to step
PULL = 0.5  # added at the edge of the workspace, towards its middle
OPENING = -0.3  # relative to the present opening; the expert says -1

# a state: positions (arm 6, gripper 8, cube 7), velocities, the solver's first guess, the gripper's late pose
POSITIONS, VELOCITIES, CUBE = slice(0, 21), slice(21, 41), slice(14, 17)
EFFECTOR, ROTATION, WIDTH = slice(61, 64), slice(64, 73), 73
OF_PHYSICS = slice(0, 61)


class Cube(Env):
    name, width, action_dim = "cube", WIDTH, 5
    success_text = f"the cube comes within {REACHED:g} m of its goal position at any step of the budget"
    renderer_difference = {"mean": 3.4, "max": 170}

    def demonstrations(self, cfg: CollectSlice) -> Demonstrations:
        """OGBench's Markovian expert with noise. It gets a new target whenever it is done, so the cube keeps moving.

        In a share of the episodes it only carries the cube about, wherever coloured noise takes it.
        `goal` is an episode's last target; `reached` covers all targets but those that the episode's end cut short.
        """
        rngs = [stream(cfg.seed, "collect", cfg.env, k) for k in range(cfg.data.episodes)]
        episodes = [demonstrate(rng, cfg.data) for rng in rngs]
        states, actions, targets, reached, carries = zip(*episodes, strict=True)
        goal, reached = np.stack([state[-1] for state in states]), np.concatenate(reached)
        goal[:, CUBE] = np.stack(targets)
        facts = {
            "success_of": "targets that the expert finished with or gave up",
            "carry_share": {"asked": cfg.data.carry_share, "realised": float(np.mean(carries))},
            "targets": len(reached),
            "targets_reached": int(reached.sum()),
            "targets_per_pursuing_episode": len(reached) / max(1, len(carries) - sum(carries)),
            "lifted_share": float((np.concatenate(states)[:, CUBE][:, 2] > 2 * CUBE_Z).mean()),
        }
        return Demonstrations.of(states, actions, goal, reached, **facts)

    def step(self, actions):
        simulation = _simulation()
        for state, action in zip(self._state, actions, strict=True):
            simulation.load(state)
            simulation.step(action)
            state[:] = simulation.state()

    def render(self, size):
        return _renderer(size)(self._state[:, POSITIONS])

    def success(self, goals):
        return at(self._state, np.asarray(goals)[:, CUBE])

    def distance(self, goals):
        return np.linalg.norm(self._state[:, CUBE] - np.asarray(goals)[:, CUBE], axis=1) / REACHED

    def demands(self, starts, goals):
        cube, effector = (np.linalg.norm((goals - starts)[:, places], axis=1) for places in (CUBE, EFFECTOR))
        held = np.linalg.norm(starts[:, CUBE] - starts[:, EFFECTOR], axis=1) <= HELD
        contact = {"needs contact": cube > REACHED, "cube in the hand at the start": held}
        return {"cube (cm)": 100 * cube, "effector (cm)": 100 * effector, **contact}


def at(states: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Whether the cube is at this place. (..., S), (..., 3) -> (...) bool"""
    return np.linalg.norm(states[..., CUBE] - place, axis=-1) <= REACHED


class Simulation:
    """OGBench's scene with its controller and expert, one state at a time."""

    def __init__(self):
        from ogbench.manipspace.envs.cube_env import CubeEnv
        from ogbench.manipspace.lie import SE3, SO3
        from ogbench.manipspace.oracles.markov.cube_markov import CubeMarkovOracle

        self.SE3, self.SO3 = SE3, SO3
        self.scene = scene = CubeEnv("single", mode="data_collection", visualize_info=False)
        mjcf = scene.build_mjcf_model()
        for name in ("black", "pad_gray"):
            mjcf.find("material", f"ur5e/robotiq/{name}").rgba[:3] = scene._colors["purple"][:3]
        mjcf.find("light", "global").diffuse = [0.7, 0.7, 0.7]
        for name in ("object_0", "target_object_0"):
            mjcf.find("geom", name).size = np.full(3, np.float32(CUBE_Z))  # rounded as the library rounds it
        scene._mjcf_model = mjcf
        scene.compile_model_and_data()
        self.model, self.data = scene._model, scene._data
        self.model.geom("target_object_0").rgba[3] = 0.0
        self.pinch = scene._pinch_site_id
        self.expert = CubeMarkovOracle(env=scene, min_norm=MIN_NORM)

    def load(self, state: np.ndarray) -> None:
        mujoco.mj_setState(self.model, self.data, state[OF_PHYSICS], PHYSICS)
        self.data.site_xpos[self.pinch], self.data.site_xmat[self.pinch] = state[EFFECTOR], state[ROTATION]

    def state(self) -> np.ndarray:
        state = np.empty(WIDTH)
        mujoco.mj_getState(self.model, self.data, state[OF_PHYSICS], PHYSICS)
        state[EFFECTOR], state[ROTATION] = self.data.site_xpos[self.pinch], self.data.site_xmat[self.pinch]
        return state

    def step(self, action: np.ndarray) -> None:
        """One action (5,), in the float32 of the library's action space: 25 physics steps."""
        self.scene.set_control(np.asarray(action, np.float32))
        mujoco.mj_step(self.model, self.data, nstep=self.scene._n_steps)

    def start(self, rng: np.random.Generator) -> None:
        """The gripper over the middle of the table at any angle, the cube anywhere on it."""
        scene, data = self.scene, self.data
        mujoco.mj_resetData(self.model, data)
        turn = self.SO3.from_z_radians(rng.uniform(-np.pi, np.pi)) @ scene._effector_down_rotation
        pose = self.SE3.from_rotation_and_translation(turn, scene._arm_sampling_bounds.mean(0)) @ scene._T_pa
        place, quat = pose.translation(), pose.rotation().wxyz
        data.qpos[scene._arm_joint_ids] = scene._ik.solve(pos=place, quat=quat, curr_qpos=scene._home_qpos)
        data.qpos[CUBE], data.qpos[17:21] = self._place(rng, scene._object_sampling_bounds)
        mujoco.mj_forward(self.model, data)

    def new_target(self, rng: np.random.Generator) -> np.ndarray:
        """Somewhere else for the cube, and a place where the arm goes when it has put it there. -> (3,)"""
        scene, mocap = self.scene, self.scene._cube_target_mocap_ids[0]
        self.data.mocap_pos[mocap], self.data.mocap_quat[mocap] = self._place(rng, scene._target_sampling_bounds)
        expert = self.expert
        expert._done, expert._step = False, 0  # as its own reset does, which draws from numpy's global state
        expert._final_pos, expert._final_yaw = rng.uniform(*scene._arm_sampling_bounds), rng.uniform(-np.pi, np.pi)
        return self.data.mocap_pos[mocap].copy()

    def advise(self) -> np.ndarray:
        """The expert's action, (5,). It feels the cube between its fingers by the contact forces."""
        mujoco.mj_rnePostConstraint(self.model, self.data)
        self.scene.pre_step()  # observes
        return self.expert.select_action(None, self.scene._prev_ob_info)

    def holds(self) -> bool:
        """Whether the cube, as the expert last saw it, is between the fingers."""
        seen = self.scene._prev_ob_info
        near = np.linalg.norm(seen["privileged/block_0_pos"] - seen["proprio/effector_pos"]) <= HELD
        return bool(near and seen["proprio/gripper_contact"][0] > 0.5)

    def to_the_middle(self) -> np.ndarray:
        """The way from the gripper to the middle of the workspace; 1 at its edges. -> (3,)"""
        low, high = self.scene._workspace_bounds
        return ((low + high) / 2 - self.scene._prev_ob_info["proprio/effector_pos"]) * 2 / (high - low)

    def _place(self, rng: np.random.Generator, bounds: np.ndarray):
        position = np.array([*rng.uniform(*bounds), CUBE_Z])
        return position, self.SO3.from_z_radians(rng.uniform(0, 2 * np.pi)).wxyz


def demonstrate(rng: np.random.Generator, data: CubeData):
    """One episode. -> states (steps + 1, S), actions (steps, 5), the last target (3,), reached (targets,) bool, carries
    An episode that carries the cube about has no target, so it reaches and misses none."""
    simulation = _simulation()
    simulation.start(rng)
    target = simulation.new_target(rng)
    level, carries, walk = rng.uniform(0, data.action_noise), bool(rng.uniform() < data.carry_share), rng.normal(size=5)
    tired = 1 / data.carry_steps if data.carry_steps else 0.0  # chance per step of carrying to put the cube down
    states, actions, reached, places = [simulation.state()], [], [], False
    for _ in range(data.max_steps):
        action = simulation.advise()
        if carries:
            action[4] = max(action[4], OPENING)
        action += rng.normal(0, level * NOISE)
        walk = MEMORY * walk + rng.normal(0, np.sqrt(1 - MEMORY**2), 5)
        if carries and simulation.holds() and not places:
            places = bool(rng.uniform() < tired)
            action = CARRY_MEAN + CARRY_STD * walk
            action[:3] += PULL * simulation.to_the_middle()
        actions.append(np.clip(action, -1, 1).astype(np.float32))
        if simulation.expert.done:
            reached += [] if carries else [at(states[-1], target)]
            target, places = simulation.new_target(rng), False
        simulation.step(actions[-1])
        states.append(simulation.state())
    if simulation.expert._step > PATIENCE and not carries:
        reached.append(at(states[-1], target))
    return np.array(states), np.array(actions), target, np.array(reached, bool), carries


_simulation = cache(Simulation)


@cache
def _renderer(size: int) -> Renderer:
    return Renderer(coarsened(_simulation().model, CELL / size), "front_pixels", size)


ENV = Cube
