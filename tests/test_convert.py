"""Released HDF5 files in our layout: every column lands where ours is, and what is wrong with a file is named."""

import h5py
import numpy as np
import pytest

from released_files import LENGTHS, SIDE, columns, write_released
from tdjepa.base.errors import UserError
from tdjepa.data import convert
from tdjepa.data.store import Store
from tdjepa.envs.base import make


def our_state(env, made):
    """What the states of our environments hold, from a released file's columns."""

    def zeros(n):
        return np.zeros((len(made["action"]), n))

    if env == "two_room":
        return made["proprio"]
    if env == "push_t":
        return np.hstack([made["state"], zeros(3)])
    if env == "reacher":
        return np.hstack([made["qpos"], made["qvel"], zeros(2), made["qpos"]])
    pose = [made["proprio_effector_pos"], convert.facing_down(made["proprio_effector_yaw"])]
    return np.hstack([made["qpos"], made["qvel"], zeros(20), *pose])


SHAPES = [  # environment, column that numbers the episodes, is their length listed, how frames are packed
    *(("two_room", "ep_idx", True, "blosc"), ("reacher", "ep_idx", False, "gzip")),
    *(("push_t", "episode_idx", True, "plain"), ("push_t", "episode_idx", False, "blosc")),
    *(("cube", "ep_idx", True, "gzip"), ("cube", None, True, "gzip")),
]


@pytest.mark.parametrize(("env", "index", "listed", "packing"), SHAPES)
def test_the_store_opens_what_was_converted(tmp_path, monkeypatch, env, index, listed, packing):
    monkeypatch.setattr(convert, "MEMORY", 20 * SIDE * SIDE * 3)  # several blocks
    made = columns(env)
    found = convert.open_released(write_released(tmp_path / "theirs.h5", made, index, listed, packing), env)
    assert np.array_equal(found.lengths, LENGTHS)
    convert.convert(found, tmp_path / "ours.h5")
    store = Store(tmp_path / "ours.h5")
    assert np.array_equal(store.length, LENGTHS)
    assert np.array_equal(store.pixels, made["pixels"])
    assert np.array_equal(store.action, made["action"].astype("f4"), equal_nan=True)
    assert np.array_equal(store.state, our_state(env, made))
    assert store.state.dtype == (np.float32 if env in ("two_room", "push_t") else np.float64)
    with h5py.File(tmp_path / "ours.h5") as file:
        assert np.array_equal(file["episode_idx"][:], np.repeat([0, 1, 2], LENGTHS))
        assert np.array_equal(file["step_idx"][:], np.concatenate([np.arange(n) for n in LENGTHS]))


def test_columns_of_the_cube_may_lie_in_groups(tmp_path):
    """As the library's 0.1.1 writes names with a slash; a link in the place of a group is not followed."""
    for name in ("flat", "grouped", "linked"):
        write_released(tmp_path / name, columns("cube"))
    for name in ("grouped", "linked"):
        with h5py.File(tmp_path / name, "a") as file:
            for part in ("pos", "yaw"):
                file.move(f"proprio_effector_{part}", f"proprio/effector_{part}")
    with h5py.File(tmp_path / "linked", "a") as file:
        file.move("proprio", "elsewhere")
        file["proprio"] = h5py.SoftLink("/elsewhere")
    for name in ("flat", "grouped"):
        convert.convert(convert.open_released(tmp_path / name, "cube"), tmp_path / f"{name}.h5")
    assert (tmp_path / "flat.h5").read_bytes() == (tmp_path / "grouped.h5").read_bytes()
    with pytest.raises(UserError, match="no column proprio_effector_pos or proprio/effector_pos"):
        convert.open_released(tmp_path / "linked", "cube")


def test_packed_and_plain_conversions_hold_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "MEMORY", 20 * SIDE * SIDE * 3)  # several blocks
    found = convert.open_released(write_released(tmp_path / "theirs.h5", columns("push_t")), "push_t")
    for name, storage in (("a.h5", "packed"), ("b.h5", "packed"), ("plain.h5", "plain")):
        convert.convert(found, tmp_path / name, storage=storage)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    mine, plain = Store(tmp_path / "a.h5"), Store(tmp_path / "plain.h5")
    assert np.array_equal(mine.pixels[:], plain.pixels)
    assert np.array_equal(mine.state, plain.state)


@pytest.mark.parametrize("env", convert.COLUMNS)
def test_converted_states_are_as_wide_as_the_environments(env):
    assert make(env).state.shape[1] == convert.COLUMNS[env]["state"].width
    assert make(env).action_dim == convert.COLUMNS[env]["action"].width


def test_a_gripper_that_faces_down_has_the_yaw_that_the_controller_reads():
    from ogbench.manipspace.lie import SO3

    yaw = np.linspace(-3, 3, 7)[:, None]
    for angle, matrix in zip(yaw[:, 0], convert.facing_down(yaw), strict=True):
        rotation = SO3.from_matrix(matrix.reshape(3, 3))
        assert np.allclose(rotation.compute_yaw_radians(), angle)
        assert np.allclose(matrix.reshape(3, 3)[2], [0, 0, -1])


def test_frames_are_resized_and_episodes_cut(tmp_path):
    from PIL import Image

    made = columns("push_t")
    found = convert.open_released(write_released(tmp_path / "theirs.h5", made), "push_t")
    convert.convert(found, tmp_path / "ours.h5", image_size=16, episodes=2)
    store = Store(tmp_path / "ours.h5")
    assert (store.episodes, store.image_size) == (2, 16)
    small = Image.fromarray(made["pixels"][35]).resize((16, 16), Image.Resampling.BILINEAR)
    assert np.array_equal(store.pixels[35], np.asarray(small))


def test_blocks_fit_into_memory_and_begin_with_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "MEMORY", 20 * SIDE * SIDE * 3)
    for packing, step in (("gzip", 14), ("plain", 20)):
        with h5py.File(write_released(tmp_path / packing, columns("push_t"), packing=packing)) as file:
            found = list(convert.blocks(file["pixels"], 50))
        assert [block.start for block in found] == list(range(0, 50, step))
        assert found[-1].stop == 50


def broken_files(folder):
    """Files that are not as they should be -> what the message says"""
    made = columns("push_t")

    def write(name, **more):
        return write_released(folder / name, made, **more)

    without = {name: values for name, values in made.items() if name != "state"}
    missing = "no column state for state of push_t; it holds action, ep_idx, ep_len"
    yield write_released(folder / "a.h5", without), missing
    yield write("b.h5", index=None, listed=False), "no column ep_len, episode_idx or ep_idx"
    narrow = "state of push_t has 10 numbers per row, found are 7"
    yield write_released(folder / "c.h5", {**made, "state": made["proprio"]}), narrow
    yield write_released(folder / "d.h5", {**made, "pixels": made["pixels"].astype("f4")}), "expected uint8"
    with h5py.File(write("e.h5"), "a") as file:
        file["ep_idx"][3] = 99  # in the middle of an episode
    yield folder / "e.h5", "does not number"
    with h5py.File(write("f.h5"), "a") as file:
        file["ep_len"][:2] = [30, 6]
    yield folder / "f.h5", "do not add up|disagree"
    (folder / "g.h5").write_bytes(b"not HDF5")
    yield folder / "g.h5", "cannot be read as HDF5"
    secret = folder / "secret"
    secret.write_bytes(bytes(int(LENGTHS.sum()) * 2 * 4))
    for name, link in (("h.h5", h5py.ExternalLink("other.h5", "/x")), ("i.h5", h5py.SoftLink("/state"))):
        with h5py.File(write(name), "a") as file:
            del file["action"]
            file["action"] = link
        yield folder / name, "action is a link"
    with h5py.File(write("j.h5"), "a") as file:
        del file["action"]
        file.create_dataset("action", (LENGTHS.sum(), 2), "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
    yield folder / "j.h5", "takes its data from other files"


def test_files_that_are_not_as_they_should_be_are_named_with_what_was_found(tmp_path):
    for path, why in broken_files(tmp_path):
        with pytest.raises(UserError, match=why) as caught:
            convert.open_released(path, "push_t")
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_missing_action_inside_an_episode_is_refused(tmp_path):
    made = columns("push_t")
    made["action"][33] = np.nan
    found = convert.open_released(write_released(tmp_path / "x.h5", made), "push_t")
    with pytest.raises(UserError, match=r"NaN action inside episode 1 \(step 2\)"):
        convert.convert(found, tmp_path / "ours.h5")
