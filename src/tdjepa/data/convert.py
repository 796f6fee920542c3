"""A released HDF5 file or one of a user's own, and the same in this project's layout.

The four files agree on flat columns (one row per step, episodes end to end) but not on names, and their frames are packed
in chunks that suit no window (ours: store.py, chunked.py). `open_released` finds out what is where, `convert` copies it a
block at a time.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import h5py
import hdf5plugin  # noqa: F401  (registers Blosc, with which the released frames are packed)
import numpy as np

from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.data import store
from tdjepa.data.store import check_actions, own_column, own_pixels

MEMORY = 64 << 20  # bytes of frames held at a time
EPISODE = ("episode_idx", "ep_idx")  # both spellings are among the four files


@dataclass(frozen=True)
class Part:
    """A column of theirs, under the first of its names that the file has, or what `of` makes of it: (rows, n) -> (rows, m)"""

    names: tuple[str, ...]
    of: Callable[[np.ndarray], np.ndarray] = lambda theirs: theirs
    word: str = "{}"  # what the card calls it; {} is the column's name


class Column(NamedTuple):
    """A column of ours: parts of theirs side by side, `width` numbers together."""

    width: int
    parts: tuple[Part, ...]
    needed: bool = True


def facing_down(yaw: np.ndarray) -> np.ndarray:
    """Rotation matrices of a gripper that points down and is turned by `yaw`; (rows, 1) -> (rows, 9)"""
    c, s, zero = np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)
    return np.concatenate([c, s, zero, s, -c, zero, zero, zero, zero - 1], 1)


def zeros(n: int) -> Part:
    """n zeros per row, as many rows as there are actions."""
    return Part(("action",), lambda action: np.zeros((len(action), n), np.float32), f"{n} zeros")


QPOS, QVEL, STATE, PROPRIO = (Part((name,)) for name in ("qpos", "qvel", "state", "proprio"))
AGENT, TARGET = Part(("proprio", "pos_agent")), Part(("goal_state", "pos_target"))
# the library logs the gripper's late pose as such; the controller reads nothing but the yaw of its rotation
POSE = (
    Part(
        ("proprio_effector_pos", "proprio/effector_pos")
    ),  # released, and as the library's 0.1.1 writes it: in a group
    Part(("proprio_effector_yaw", "proprio/effector_yaw"), facing_down, "facing_down({})"),
)
# States of ours hold what continues an episode bit for bit; the released ones hold what the library restores: positions and
# velocities. What is missing is filled with what the library would find there: the contact solver's first guess with 0,
# the velocity of a T that is not being pushed with 0, the angles half an action ago with those of now.
STATES = {
    "two_room": {"state": (2, (AGENT,)), "proprio": (2, (AGENT,)), "goal_state": (2, (TARGET,), False)},
    "reacher": {"state": (8, (QPOS, QVEL, zeros(2), QPOS))},
    "push_t": {"state": (10, (STATE, zeros(3))), "proprio": (4, (PROPRIO,), False)},
    "cube": {"state": (73, (QPOS, QVEL, zeros(20), *POSE))},
}
ACTIONS = {"two_room": 2, "reacher": 2, "push_t": 2, "cube": 5}
COLUMNS = {
    env: {name: Column(*column) for name, column in {"action": (ACTIONS[env], (Part(("action",)),)), **states}.items()}
    for env, states in STATES.items()
}

# A user's own file may also have whole states, as ours do; STATES says how many numbers that is.
WHOLE = {
    env: {
        "action": columns["action"],
        "state": Column(columns["state"].width, (STATE,)),
        "goal_state": Column(columns["state"].width, (Part(("goal_state",)),), needed=False),
    }
    for env, columns in COLUMNS.items()
}


@dataclass(frozen=True)
class Released:
    """What a released file holds: which of its columns become ours, and where its episodes lie."""

    path: Path
    columns: dict[str, list[tuple[str, Part]]]  # ours -> the names of theirs, and what is made of them
    lengths: np.ndarray  # (E,)
    frame: tuple[int, ...]  # (H, W, 3)


def open_released(path: Path, env: str, layout: dict[str, dict[str, Column]] = COLUMNS) -> Released:
    """Find our columns and the episodes in a released file; UserError in one line if they are not there."""
    if env not in COLUMNS:
        raise UserError(f"env = {env!r}: no released data; there is some for {', '.join(COLUMNS)}")
    try:
        with h5py.File(path, "r") as file:
            if not first_of(file, ("pixels",)):
                raise UserError(f"{path}: no column pixels; {contents(file)}")
            pixels = own_pixels(file, path)
            columns = {}
            for ours, column in layout[env].items():
                parts = [(first_of(file, part.names), part) for part in column.parts]
                if missing := [" or ".join(part.names) for name, part in parts if not name]:
                    if column.needed:
                        wanted = " and ".join(missing)
                        raise UserError(f"{path}: no column {wanted} for {ours} of {env}; {contents(file)}")
                    continue
                for theirs in (own_column(file, name, path) for name, _ in parts):
                    if theirs.ndim not in (1, 2) or theirs.dtype.kind not in "fiu" or len(theirs) != len(pixels):
                        found = f"{theirs.name[1:]} is {theirs.dtype} {theirs.shape}"
                        raise UserError(f"{path}: {found}, expected numbers, {len(pixels)} rows")
                width = read(file, parts, slice(0, 1)).shape[1]
                if width != column.width:
                    raise UserError(f"{path}: {ours} of {env} has {column.width} numbers per row, found are {width}")
                columns[ours] = parts
            return Released(Path(path), columns, episodes_of(file, len(pixels), path), pixels.shape[1:])
    except OSError as error:
        raise UserError(f"{path}: cannot be read as HDF5 ({' '.join(str(error).split())})") from None


def read(file: h5py.File, parts: list[tuple[str, Part]], rows: slice) -> np.ndarray:
    """These rows of a column of ours, in a type that holds all its parts; (rows, n)"""
    theirs = ((part.of, file[name][rows]) for name, part in parts)
    return np.concatenate([of(column.reshape(len(column), -1)) for of, column in theirs], axis=1)


def first_of(file: h5py.File, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if is_in(file, name)), None)


def is_in(group: h5py.Group, name: str) -> bool:
    """Unlike `in`, this follows no link on the way to the column; the column itself may be one, which is refused later."""
    first, _, rest = name.partition("/")
    if first not in set(group) or not rest:
        return first in set(group)
    hard = isinstance(group.get(first, getlink=True), h5py.HardLink)
    return hard and isinstance(group[first], h5py.Group) and is_in(group[first], rest)


def contents(file: h5py.File) -> str:
    return f"it holds {', '.join(sorted(file.keys())[:60]) or 'nothing'}"


def episodes_of(file: h5py.File, rows: int, path: Path) -> np.ndarray:
    """Lengths of the episodes, from `ep_len`, from the episode number of every row, or from both, which must agree; (E,)"""
    index, listed = first_of(file, EPISODE), first_of(file, ("ep_len",))
    if not index and not listed:
        wanted = " or ".join(EPISODE)
        raise UserError(f"{path}: no column ep_len, {wanted}, so its episodes are unknown; {contents(file)}")
    lengths = None
    if index:
        number = own_column(file, index, path)[:].reshape(-1)
        begins = np.concatenate([[0], np.nonzero(number[1:] != number[:-1])[0] + 1])
        lengths = np.diff(begins, append=len(number))
        if len(number) != rows or len(np.unique(number)) != len(begins):
            raise UserError(f"{path}: {index} does not number {rows} rows episode by episode")
    if listed:
        said = own_column(file, "ep_len", path)[:].astype(np.int64).reshape(-1)
        begins = np.cumsum(said) - said
        offsets = own_column(file, "ep_offset", path)[:].reshape(-1) if first_of(file, ("ep_offset",)) else begins
        if (said < 1).any() or said.sum() != rows or not np.array_equal(offsets, begins):
            raise UserError(f"{path}: ep_len and ep_offset do not add up to its {rows} rows")
        if lengths is not None and not np.array_equal(lengths, said):
            raise UserError(f"{path}: ep_len and {index} disagree about the episodes")
        lengths = said
    return lengths


def convert(
    found: Released, out: Path, image_size: int | None = None, episodes: int | None = None, storage: str = "plain"
) -> np.ndarray:
    """Write the first `episodes` in the layout of tdjepa.data.store, a block of frames at a time; returns the actions."""
    lengths = found.lengths[: episodes or None]
    rows, side = int(lengths.sum()), image_size or found.frame[0]
    if found.frame[0] != found.frame[1]:
        raise UserError(f"{found.path}: frames of {found.frame[0]} x {found.frame[1]} px, expected square ones")
    needed, free = rows * side * side * 3, shutil.disk_usage(Path(out).parent).free
    if storage == "plain" and needed > free:
        sizes = f"{rows} frames of {side} px are {needed / 1e9:.0f} GB, {free / 1e9:.0f} GB are free"
        advice = "collect.storage: packed, a smaller image size or fewer episodes need less"
        raise UserError(f"{out.parent}: {sizes}; {advice}")
    try:
        with h5py.File(found.path, "r") as theirs:
            action = read(theirs, found.columns["action"], slice(0, rows)).astype(np.float32)
            check_actions(action, np.cumsum(lengths) - lengths, found.path)
            first = {name: read(theirs, parts, slice(0, 1)) for name, parts in found.columns.items()}
            columns = {name: (row.shape[1:], row.dtype) for name, row in first.items()}
            columns |= {"pixels": ((side, side, 3), "u1"), "action": (action.shape[1:], "f4")}
            with store.create(out, lengths, columns, storage) as ours, progress(rows, "convert", "frames") as bar:
                ours["action"][:] = action
                for block in blocks(theirs["pixels"], rows):
                    store.put(ours, block.start, resized(theirs["pixels"][block], side))
                    for name in first.keys() - {"action"}:
                        ours[name][block] = read(theirs, found.columns[name], block)
                    bar.update(block.stop - block.start)
    except OSError as error:  # HDF5's own: a damaged chunk, a full disk
        raise UserError(f"{found.path}: conversion failed ({' '.join(str(error).split())})") from None
    return action


def blocks(pixels: h5py.Dataset, rows: int):
    """Slices of the first `rows` that fit into MEMORY and begin where a chunk does, so none is unpacked twice."""
    chunk = pixels.chunks[0] if pixels.chunks else 1
    fitting = MEMORY // int(np.prod(pixels.shape[1:]))
    step = max(1, fitting // chunk) * chunk
    for begin in range(0, rows, step):
        yield slice(begin, min(begin + step, rows))


def resized(frames: np.ndarray, side: int) -> np.ndarray:
    """Frames of `side` px with PIL's bilinear filter, which is the library's own and that of our renderers."""
    if frames.shape[1:3] == (side, side):
        return frames
    from PIL import Image

    return np.stack([np.asarray(Image.fromarray(f).resize((side, side), Image.Resampling.BILINEAR)) for f in frames])
