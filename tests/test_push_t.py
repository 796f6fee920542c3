"""Push-T: physics, frames and success against the library's own, exact replay, and a demonstrator that solves the task."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tdjepa.base.streams import stream
from tdjepa.base.torchvision_shim import library as imported
from tdjepa.config.records.data import PushTData, PushTKind
from tdjepa.config.slices import CollectSlice
from tdjepa.data.store import Store
from tdjepa.envs import push_t, push_t_demonstrators, push_t_expert, push_t_physics
from tdjepa.envs.base import make
from tdjepa.steps import collect


def data(**changes) -> PushTData:
    base = {
        "episodes": 16,
        "max_steps": 120,
        "target_share": 0.5,
        "image_size": 64,
        "kinds": kinds(expert=0.75, weak=0.25),
    }
    return PushTData(**{**base, **changes})


def kinds(noise=(0.05, 0.05), **shares) -> dict[str, PushTKind]:
    """Each named by its policy."""
    return {name: PushTKind(policy=name, share=share, noise=noise) for name, share in shares.items()}


class Library(imported("envs.pusht.env").PushT):
    """The library's environment, set to a state without letting the physics run."""

    def put(self, state):
        self._setup()
        self.goal_state = np.zeros(7)
        self.block.angle = state[4]
        self.agent.position, self.block.position = tuple(state[:2]), tuple(state[2:4])
        self.agent.velocity, self.block.velocity = tuple(state[5:7]), tuple(state[7:9])
        self.block.angular_velocity = state[9]
        for body in (self.agent, self.block):
            self.space.reindex_shapes_for_body(body)

    def full_state(self):
        return np.array([*self._get_obs(), *self.block.velocity, self.block.angular_velocity])


@pytest.fixture(scope="module")
def library():
    env = Library()
    env.reset(seed=0)
    return env


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    path = tmp_path_factory.mktemp("push_t") / "episodes.h5"
    card = collect.run(CollectSlice(env="push_t", seed=7, min_length=26, goal_offset=25, data=data()), path)
    return Store(path), card


def demonstrated(policy: str, max_steps: int, noise=(0.05, 0.05)) -> list[push_t_demonstrators.Episode]:
    cfg = data(kinds=kinds(noise, **{policy: 1.0}), max_steps=max_steps)
    return [push_t_demonstrators.demonstrate(stream(k, policy), cfg) for k in range(20)]


@pytest.fixture(scope="module")
def experts():
    return demonstrated("expert", 150)


def touching(states: np.ndarray, episode: np.ndarray, n: int, offset: int = 25) -> np.ndarray:
    """n rows from which `offset` more follow in the episode, the agent touching the block on one of them at least."""
    first = np.nonzero(episode[offset:] == episode[:-offset])[0]
    touches = np.concatenate([[0], np.cumsum(push_t_physics.touching(states))])
    first = first[touches[first + offset + 1] > touches[first]]
    return np.random.default_rng(0).choice(first, n, replace=False)


def runs(episodes: list, n: int, steps: int):
    """n times: the states along `steps` steps that touch the block, and the actions; (n, steps + 1, 10), (n, steps, 2)"""
    states = np.concatenate([e.states for e in episodes])
    actions = np.concatenate([np.vstack([e.actions, np.full((1, 2), np.nan)]) for e in episodes])
    rows = touching(states, np.repeat(np.arange(len(episodes)), [len(e.states) for e in episodes]), n, steps)
    return states[rows[:, None] + np.arange(steps + 1)], actions[rows[:, None] + np.arange(steps)]


def apart(library, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """How far the library's block is from ours after the same actions; (n, 2) pixels and radians"""
    off = []
    for ours, todo in zip(states, actions, strict=True):
        library.put(ours[0])
        for action in todo:
            library.step(action)
        off.append(library.full_state() - ours[-1])
        np.testing.assert_array_equal(off[-1][[0, 1, 5, 6]], 0)  # the agent is steered, the block cannot push it
    off = np.array(off)
    return np.stack([np.hypot(off[:, 2], off[:, 3]), np.abs(push_t_expert.wrap(off[:, 4]))], 1)


def test_one_step_is_bit_equal_to_the_library(library, experts):
    assert not apart(library, *runs(experts, 150, 1)).any()


def test_25_steps_of_the_expert_stay_with_the_library_whose_solver_remembers_and_wild_ones_mostly_do(library, experts):
    off = apart(library, *runs(experts, 60, 25))
    assert np.median(off[:, 0]) < 0.1
    assert np.percentile(off[:, 0], 95) < 1
    assert np.percentile(off[:, 1], 95) < 0.02
    off = apart(library, *runs(demonstrated("weak", 50, (0.0, 0.0)), 60, 25))
    assert np.median(off[:, 0]) < 0.5
    assert np.median(off[:, 1]) < 0.01
    assert (off[:, 0] < 20).mean() > 0.8


def test_frames_are_the_librarys(library):
    rng = np.random.default_rng(2)
    states = np.stack([push_t.sample(rng) for _ in range(60)])
    states[:15, :2] = states[:15, 2:4] + rng.uniform(-60, 60, (15, 2))  # agent on the block
    states[15:25, :2] = rng.uniform(-20, 530, (10, 2))  # on the walls and off the table
    states[25:35, 2:4] = rng.uniform(0, 512, (10, 2))  # the block as well
    states[35:45, 4] = np.arange(10) * np.pi / 4  # axis-parallel and diagonal
    theirs = []
    for state in states:
        library.put(state)
        theirs.append(Image.fromarray(library.render()))
    for size in (32, 64, 224):
        images = [image if size == 224 else image.resize((size, size), Image.BILINEAR) for image in theirs]
        differences = np.abs(np.stack(images).astype(int) - push_t.raster(size)(states))
        assert differences.max() <= push_t.PushT.renderer_difference["max"]
        assert differences.mean() <= push_t.PushT.renderer_difference["mean"]


def test_success_is_the_librarys(library):
    rng, env = np.random.default_rng(3), make("push_t")
    states = np.stack([push_t.sample(rng) for _ in range(400)])
    goals = states.copy()
    goals[:, :4] += rng.normal(0, 9, (400, 4))
    goals[:, 4] = (goals[:, 4] + rng.normal(0, 0.3, 400)) % (2 * np.pi)
    env.restore(states)
    ours = env.success(goals)
    theirs = [library.eval_state(goal[:7], state[:7])[0] for state, goal in zip(states, goals, strict=True)]
    np.testing.assert_array_equal(ours, theirs)
    assert 0.2 < ours.mean() < 0.8


def test_the_weak_policy_is_the_librarys(library):
    policy = imported("envs.pusht.expert_policy").WeakPolicy(dist_constraint=100)
    policy.env = SimpleNamespace(envs=[library], action_space=SimpleNamespace(shape=(1, 2)))  # what it reads of a World
    for k in range(20):
        state, policy.rng = push_t.sample(stream(k, "state")), stream(k, "wish")
        library.put(state)
        ours = np.clip(push_t_demonstrators.weak(None, stream(k, "wish"))(state), -1, 1)
        np.testing.assert_array_equal(policy.get_action({})[0], ours.astype(np.float32))


def test_the_demonstrator_solves_the_task_and_the_card_says_so(collected, experts):
    store, card = collected
    assert (np.abs(np.nan_to_num(store.action)) <= 1).all()
    assert card["trivial_share"] < 0.05
    assert 0.5 < card["success_share"] < 1  # some episodes are the weak policy's
    assert np.mean([e.solved for e in experts]) >= 0.8
    facts = card["environment"]
    expert, weak = (facts["kinds"][name] for name in ("expert", "weak"))
    assert expert["share"] == {"asked": 0.75, "realised": (store.kind == "expert").mean()}
    assert expert["share"]["realised"] + weak["share"]["realised"] == 1
    assert expert["success_share"] > 0.6 > 0.2 > weak["success_share"]
    both = sum(kind["share"]["realised"] * kind["success_share"] for kind in (expert, weak))
    assert both == pytest.approx(card["success_share"])
    assert facts["touch_share"] == push_t_physics.touching(store.state).mean() > 0.1
    assert facts["block_way_px"]["mean"] > 50


def test_the_experts_moves_are_small_and_a_kind_without_episodes_says_nothing(experts):
    moves = np.concatenate([np.diff(e.states[:, :2], axis=0) for e in experts])
    assert np.percentile(np.hypot(*moves.T), 99) < 25
    facts = push_t_demonstrators.facts(experts[:2], data())
    assert facts["kinds"]["weak"]["share"] == {"asked": 0.25, "realised": 0.0}
    assert facts["kinds"]["weak"]["success_share"] is None


def test_a_wanderer_pushes_the_block_after_no_goal_and_stays_on_the_table():
    episodes = demonstrated("wander", 150, (0.05, 0.25))
    states = np.concatenate([e.states for e in episodes])
    assert ((states[:, :2] > 0) & (states[:, :2] < push_t_physics.SIZE)).all()
    assert {len(e.actions) for e in episodes} == {150}
    facts = push_t_demonstrators.pushing(episodes)
    assert facts["success_share"] is None
    assert facts["touch_share"] > 0.1
    assert facts["block_way_px"]["median"] > 50
    ways = np.array([np.diff(e.states[::5, :2], axis=0) for e in episodes])  # px per model step; (20, 30, 2)
    assert 25 < np.median(np.hypot(*np.moveaxis(ways, -1, 0))) < 75  # on its way somewhere, not to and fro


def test_the_noise_of_an_episode_is_drawn_from_its_range():
    """Of the agent's second differences: the expert's ways are smooth."""
    shaken = [np.diff(e.actions, axis=0).std() for e in demonstrated("expert", 60, (0.05, 0.4))]
    assert max(shaken) > 3 * min(shaken)
    assert len(set(np.round(shaken, 3))) > 10


def test_a_push_ends_where_the_closed_form_says():
    """The agent follows the contact it pushes; the block must stay on the arc of a constant twist."""
    pull, glide = push_t_physics.response()
    start = np.array([256.0, 230.0, 0.7])
    points, normals = push_t_expert.POINTS, push_t_expert.NORMALS
    for k in range(0, len(points), 3):
        touch = points[k] - push_t_physics.RADIUS * normals[k]
        state = np.array([*push_t_physics.world(start, touch[None])[0], *start, 0, 0, 0, 0, 0])
        for _ in range(8):
            ahead = push_t_expert.pushed(state[2:5], k, 5.0 / push_t_expert.TRAVEL[k])
            to = push_t_physics.world(ahead, touch[None])[0]
            action = (to - state[:2] - glide * state[5:7]) / (pull * push_t_physics.REACH)
            state = push_t_physics.step(state[None], action[None])[0]
        arc = push_t_expert.pushed(start, k, np.linspace(0, 60, 601))
        off = push_t_expert.error(arc, state[2:5])
        assert off.argmin() > 100  # ten pixels of pushing at least
        assert off.min() < 2


def test_gap_and_contact():
    at = np.array([[0, -40], [80, 15], [63, -4], [0, 15], [30.3, 80], [0, -15.2]])  # in the block's frame
    pose = np.array([200.0, 300.0, 2.2])
    states = np.zeros((6, 10))
    states[:, :2], states[:, 2:5] = push_t_physics.world(pose, at), pose
    np.testing.assert_allclose(push_t_physics.gap(states), np.array([40, 20, 5, -15, 15.3, 15.2]) - 15, atol=1e-9)
    assert push_t_physics.touching(states).tolist() == [False, False, True, True, True, True]
    np.testing.assert_allclose(make("push_t").contact_geometry(states)[0][0], 40)


def test_contact_counts_the_whole_t():
    """Agents along its outline: most of them touch the T at 40 px or more from its origin, none of them is out of contact."""
    from tdjepa.config.load import load
    from tdjepa.planning.costs import hard_gate, in_contact

    costs, pose = load("params.yaml", "paper").evaluate.costs, np.array([200.0, 300.0, 2.2])
    outline, inward = push_t_expert.POINTS, push_t_expert.NORMALS  # (points, 2), in the block's frame
    states = np.zeros((len(outline), 10))
    states[:, :2], states[:, 2:5] = push_t_physics.world(pose, outline - push_t_physics.RADIUS * inward), pose
    distance, touching = make("push_t").contact_geometry(states)
    assert touching.all()
    assert distance.max() > 130
    assert (distance >= costs.contact_distance).mean() > 0.7
    assert in_contact(distance, touching, costs).all()
    assert {hard_gate(float(d), bool(t), costs) for d, t in zip(distance, touching, strict=True)} == {costs.gate_near}
    states[:, :2] = push_t_physics.world(pose, outline - 30 * inward)  # 15 px away from the T
    distance, touching = make("push_t").contact_geometry(states)
    assert not touching.any()
    assert (in_contact(distance, touching, costs) == (distance < 40)).all()


def test_touch_is_what_the_library_records(library, experts):
    """Its count of contact points in the ten steps of the physics, against the geometry at their end. Walls count there too."""
    agree = []
    for states, actions in ((e.states, e.actions) for e in experts[:4]):
        clear = (np.abs(push_t_physics.world(states[:, 2:5], push_t_physics.OUTLINE) - 256) < 240).all((1, 2))
        for t in np.nonzero(clear[:-1] & clear[1:])[0]:
            library.put(states[t])
            recorded = library.step(actions[t])[-1]["n_contacts"] > 0
            agree.append(recorded == push_t_physics.touching(states[t + 1 : t + 2])[0])
    assert len(agree) > 100
    assert np.mean(agree) > 0.97


def test_a_settled_start_is_the_librarys_restored_one(library, experts):
    states = np.concatenate([e.states for e in experts])[5::60]
    theirs = []
    for state in states:
        library.put(np.zeros(10) + 100)
        library.block.velocity, library.block.angular_velocity = (0, 0), 0
        library._set_state(state[:7])
        theirs.append(library.full_state())
    ours = make("push_t").settled(states)
    np.testing.assert_allclose(ours[:, :7], np.array(theirs)[:, :7], atol=1e-9)
    moved = np.abs(ours[:, :2] - states[:, :2] - 0.01 * states[:, 5:7]).max(1)
    assert (moved < 1e-9).all()  # on its way for 10 ms
    assert np.hypot(*(ours[:, :2] - states[:, :2]).T).max() > 0.1


def test_the_first_gate_of_the_reference_sees_a_random_reset(library):
    """Distance and contacts are what the library's `reset` reports for the same two states."""
    rng, far, touched = np.random.default_rng(5), [], []
    for _ in range(60):
        goal, start = ((*rng.uniform(50, 450, 2), *rng.uniform(100, 400, 2), rng.uniform(-6, 6)) for _ in range(2))
        states = {"goal_state": np.array([*goal, 0, 0]), "state": np.array([*start, 0, 0])}
        info = library.reset(options=states)[1]
        distance, touches = push_t_physics.after_reset(goal, start)
        np.testing.assert_allclose(distance, np.hypot(*(info["pos_agent"] - info["block_pose"][:2])), atol=1e-9)
        assert touches == (info["n_contacts"] > 0)
        far.append(distance)
        touched.append(touches)
    assert max(far) > 200
    assert 0.1 < np.mean(touched) < 0.9
    drawn = [make("push_t").contact_after_reset(np.random.default_rng(k)) for k in range(40)]
    assert len({distance for distance, _ in drawn}) == 40


def test_moved_shifts_the_agent_and_nothing_else():
    shifts = np.array([0.0, 4.0, 16.0])
    frames = make("push_t").moved(shifts, 20, 64, np.random.default_rng(4))
    assert [f.shape for f in frames] == [(20, 64, 64, 3)] * 3

    def centre(images):  # of the blue disc
        blue = np.clip(images[..., 2].astype(float) - images[..., 0] - 45, 0, None)
        return (blue * np.arange(64)).sum((1, 2)) / blue.sum((1, 2))

    for shift, moved in zip(shifts, frames, strict=True):
        np.testing.assert_allclose(centre(moved) - centre(frames[0]), shift, atol=0.3)
        assert ((moved != frames[0]).any(-1).sum((1, 2)) < 120).all()
