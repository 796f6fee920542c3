"""Small files of exactly the released layout: what `tdjepa fetch` and `tdjepa import` meet at the scale paper.

Columns, types, NaN actions, episode numbers, packing and archive are those of the LeWM authors' files, as far as their users
wrote them down. Episodes are our demonstrators', frames our renderers', so a simulator can go on from every row.
"""

import io
import tarfile
from pathlib import Path, PurePosixPath

import h5py
import hdf5plugin
import numpy as np
import pyarrow

from tdjepa.base.progress import progress
from tdjepa.config.records.released import Source
from tdjepa.config.slices import CollectSlice
from tdjepa.envs.base import Demonstrations, Env, make

CHUNK = 10  # frames in a chunk of the file
# Columns with their widths and types, beside `pixels` and the numbers of episodes and steps.
LAYOUT = {
    "two_room": {"action": (2, "f4"), "proprio": (2, "f4"), "pos_agent": (2, "f4"), "pos_target": (2, "f4")},
    "reacher": {"action": (2, "f8"), "qpos": (2, "f8"), "qvel": (2, "f8"), "observation": (6, "f8")},
    "push_t": {"action": (2, "f4"), "state": (7, "f4"), "proprio": (4, "f4")},
    "cube": {
        **{"action": (5, "f4"), "qpos": (21, "f8"), "qvel": (20, "f8"), "observation": (28, "f8")},
        **{"proprio_effector_pos": (3, "f8"), "proprio_effector_yaw": (1, "f8")},
        **{"proprio_joint_pos": (6, "f8"), "proprio_joint_vel": (6, "f8")},
        **{"privileged_block_0_pos": (3, "f8"), "privileged_block_0_quat": (4, "f8")},
    },
}
EPISODE = {"push_t": "episode_idx"}  # the others number their episodes in ep_idx


def write_hdf5(
    path: Path, columns: dict[str, np.ndarray], lengths: np.ndarray, index: str | None = "ep_idx", **packing
):
    """A file of the released layout; `columns` with `pixels`, `packing` is how those are stored (h5py's words)."""
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file.create_dataset(name, data=values, **(packing if name == "pixels" else {}))
        if index:
            file[index] = np.repeat(np.arange(len(lengths)), lengths)
        file["ep_len"] = lengths.astype(np.int32)
        file["ep_offset"] = np.cumsum(lengths) - lengths
        file["step_idx"] = np.concatenate([np.arange(n) for n in lengths])
    return path


def archive(path: Path, name: str) -> bytes:
    """The file as it is released under this name: compressed, and in a tar archive if the name says so."""
    body = path.read_bytes()
    if name.endswith(".tar.zst"):
        out, member = io.BytesIO(), tarfile.TarInfo(path.name)
        member.size = len(body)
        with tarfile.open(fileobj=out, mode="w") as file:
            file.addfile(member, io.BytesIO(body))
        body = out.getvalue()
    return pyarrow.compress(body, codec="zstd", asbytes=True)


def demonstrations(cfg: CollectSlice, source: Source, folder: Path) -> bytes:
    """The archive of one environment with the episodes that `cfg` asks for; `folder` is for the file in it."""
    env = make(cfg.env)
    demos, size = env.demonstrations(cfg), cfg.data.image_size
    columns = columns_of(cfg.env, demos) | {"pixels": frames(env, demos.state, size)}
    inside = folder / (PurePosixPath(source.file).name.split(".")[0] + ".h5")
    packing = {"chunks": (CHUNK, size, size, 3), **hdf5plugin.Blosc()}
    write_hdf5(inside, columns, demos.length, EPISODE.get(cfg.env, "ep_idx"), **packing)
    return archive(inside, source.file)


def frames(env: Env, states: np.ndarray, size: int) -> np.ndarray:
    """(rows, S) -> (rows, size, size, 3) uint8"""
    pixels = np.empty((len(states), size, size, 3), np.uint8)
    with progress(len(states), f"draw {env.name}", "frames") as bar:
        for begin in range(0, len(states), CHUNK):
            part = slice(begin, begin + CHUNK)
            env.restore(states[part])
            pixels[part] = env.render(size)
            bar.update(len(pixels[part]))
    return pixels


def columns_of(env: str, demos: Demonstrations) -> dict[str, np.ndarray]:
    """The columns of the released file from states and actions of ours; what follows from neither is 0."""
    s, rows = demos.state, len(demos.state)
    known = {"action": demos.action}
    if env == "two_room":
        known |= {"proprio": s, "pos_agent": s, "pos_target": np.repeat(demos.goal, demos.length, axis=0)}
    elif env == "reacher":
        known |= {"qpos": s[:, :2], "qvel": s[:, 2:4]}
    elif env == "push_t":
        known |= {"state": s[:, :7], "proprio": s[:, [0, 1, 5, 6]]}
    else:
        known |= {"qpos": s[:, :21], "qvel": s[:, 21:41], "proprio_effector_pos": s[:, 61:64]}
        known |= {"proprio_effector_yaw": np.arctan2(s[:, 67], s[:, 64])[:, None]}
        known |= {"proprio_joint_pos": s[:, :6], "proprio_joint_vel": s[:, 21:27]}
        known |= {"privileged_block_0_pos": s[:, 14:17], "privileged_block_0_quat": s[:, 17:21]}
    return {
        name: np.asarray(known.get(name, np.zeros((rows, width))), kind) for name, (width, kind) in LAYOUT[env].items()
    }
