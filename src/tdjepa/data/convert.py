"""A released HDF5 file, and the same in this project's layout.

The four files agree on flat columns (one row a step, episodes end to end) but not on names, and their frames are packed
in chunks that suit no window (see store.py, chunked.py for ours). `open_released` finds out what is where, `convert` copies
it a block at a time.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401  (registers Blosc, with which the released frames are packed)
import numpy as np

from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.data import chunked

MEMORY = 64 << 20  # bytes of frames held at a time
EPISODE = ("episode_idx", "ep_idx")  # both spellings are among the four files


@dataclass(frozen=True)
class Part:
    """A column of theirs under the first of its names that is there, or what `of` makes of it."""

    names: tuple[str, ...]
    of: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Column:
    """A column of ours: parts of theirs side by side, `width` numbers together. A number n among them is n zeros."""

    width: int
    parts: tuple[Part | int, ...]
    needed: bool = True


def facing_down(yaw: np.ndarray) -> np.ndarray:
    """Rotation matrices of a gripper that points down and is turned by `yaw`; (rows, 1) -> (rows, 9)"""
    c, s, zero = np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)
    return np.concatenate([c, s, zero, s, -c, zero, zero, zero, zero - 1], 1)


ACTION, POSITION, VELOCITY = Part(("action",)), Part(("qpos",)), Part(("qvel",))

# States of ours hold what continues an episode bit for bit, the released ones what the library restores: positions and
# velocities. What is missing is filled with what the library would find there: the contact solver's first guess with 0,
# the velocity of a T that is not being pushed with 0, the angles half an action ago with those now.
COLUMNS = {
    "two_room": {
        "action": Column(2, (ACTION,)),
        "state": Column(2, (Part(("proprio", "pos_agent")),)),
        "proprio": Column(2, (Part(("proprio", "pos_agent")),)),
        "goal_state": Column(2, (Part(("goal_state", "pos_target")),), needed=False),
    },
    "reacher": {
        "action": Column(2, (ACTION,)),
        "state": Column(8, (POSITION, VELOCITY, 2, POSITION)),
    },
    "push_t": {
        "action": Column(2, (ACTION,)),
        "state": Column(10, (Part(("state",)), 3)),
        "proprio": Column(4, (Part(("proprio",)),), needed=False),
    },
    "cube": {
        "action": Column(5, (ACTION,)),
        "state": Column(
            73,
            # the library logs the gripper's late pose as such; of its rotation the controller only reads the yaw
            (POSITION, VELOCITY, 20, Part(("proprio_effector_pos",)), Part(("proprio_effector_yaw",), facing_down)),
        ),
    },
}


@dataclass(frozen=True)
class Released:
    """What a released file holds: which of its columns become ours, and where its episodes lie."""

    path: Path
    columns: dict[str, tuple[tuple[str, Part] | int, ...]]  # ours -> (name of theirs, part) or a number of zeros
    lengths: np.ndarray  # (E,)
    offsets: np.ndarray  # (E,)
    frame: tuple[int, ...]  # (H, W, 3)

    @property
    def names(self) -> dict[str, list[str]]:
        """ours -> theirs, in words"""

        def word(part) -> str:
            if isinstance(part, int):
                return f"{part} zeros"
            return f"{part[1].of.__name__}({part[0]})" if part[1].of else part[0]

        return {ours: [word(part) for part in parts] for ours, parts in self.columns.items()}


def open_released(path: Path, env: str) -> Released:
    """Find our columns and the episodes in a released file; UserError in one line if they are not there."""
    if env not in COLUMNS:
        raise UserError(f"env = {env!r}: no released data; there is some for {', '.join(COLUMNS)}")
    try:
        with h5py.File(path, "r") as file:
            frame = frames_of(file, path).shape
            columns = {}
            for ours, column in COLUMNS[env].items():
                parts = parts_of(file, column, frame[0], path)
                if parts:
                    columns[ours] = parts
                    width = read(file, parts, slice(0, 1)).shape[1]
                    if width != column.width:
                        raise UserError(f"{path}: {ours} of {env} has {column.width} numbers a row, found are {width}")
                elif column.needed:
                    wanted = " + ".join(" or ".join(p.names) for p in column.parts if isinstance(p, Part))
                    raise UserError(f"{path}: no column {wanted} for {ours} of {env}; {contents(file)}")
            lengths, offsets = episodes_of(file, frame[0], path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read as HDF5 ({' '.join(str(error).split())})") from None
    return Released(Path(path), columns, lengths, offsets, frame[1:])


def parts_of(file: h5py.File, column: Column, rows: int, path: Path) -> tuple | None:
    """The parts of a column with the names that they have in this file; None if one of them is not there."""
    found = []
    for part in column.parts:
        name = None if isinstance(part, int) else first_of(file, part.names)
        if isinstance(part, Part) and name is None:
            return None
        if name:
            numbers(file, name, rows, path)
        found.append((name, part) if name else part)
    return tuple(found)


def read(file: h5py.File, parts: tuple, rows: slice) -> np.ndarray:
    """These rows of a column of ours, in a type that holds all its parts; (rows, n)"""
    values = []
    for part in parts:
        if isinstance(part, int):
            values.append(np.zeros((len(values[0]), part), np.float32))
        else:
            theirs = file[part[0]][rows]
            theirs = theirs.reshape(len(theirs), -1)
            values.append(part[1].of(theirs) if part[1].of else theirs)
    return np.concatenate(values, axis=1)


def frames_of(file: h5py.File, path: Path) -> h5py.Dataset:
    if not first_of(file, ("pixels",)):
        raise UserError(f"{path}: no column pixels; {contents(file)}")
    pixels = dataset(file, "pixels", path)
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or pixels.shape[-1] != 3 or not pixels.size:
        raise UserError(f"{path}: pixels is {pixels.dtype} {pixels.shape}, expected uint8 (rows, H, W, 3)")
    return pixels


def numbers(file: h5py.File, name: str, rows: int, path: Path) -> h5py.Dataset:
    """A column of numbers or vectors."""
    column = dataset(file, name, path)
    if column.ndim not in (1, 2) or column.dtype.kind not in "fiu" or len(column) != rows:
        raise UserError(f"{path}: {name} is {column.dtype} {column.shape}, expected numbers, {rows} rows")
    return column


def dataset(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """A data set whose data is in this very file: links and external storage could pull in any file of this machine."""
    found = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset):
        raise UserError(f"{path}: {name} is a link or a group, expected a data set")
    if found.external or found.is_virtual:
        raise UserError(f"{path}: {name} takes its data from other files, which is refused")
    return found


def first_of(file: h5py.File, names: tuple[str, ...]) -> str | None:
    there = set(file)  # unlike `in`, this follows no links
    return next((name for name in names if name in there), None)


def contents(file: h5py.File) -> str:
    return f"it holds {', '.join(sorted(file.keys())[:60]) or 'nothing'}"


def episodes_of(file: h5py.File, rows: int, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Lengths and offsets of the episodes, from `ep_len`, from the episode number of every row, or from both, agreeing."""
    index, listed = first_of(file, EPISODE), first_of(file, ("ep_len",))
    if not index and not listed:
        raise UserError(
            f"{path}: no column ep_len, {' or '.join(EPISODE)}, so its episodes are unknown; {contents(file)}"
        )
    lengths = None
    if index:
        number = dataset(file, index, path)[:].reshape(-1)
        begins = np.concatenate([[0], np.nonzero(number[1:] != number[:-1])[0] + 1])
        lengths = np.diff(np.concatenate([begins, [len(number)]]))
        if len(number) != rows or len(np.unique(number)) != len(begins):
            raise UserError(f"{path}: {index} does not number {rows} rows episode by episode")
    if listed:
        said = dataset(file, "ep_len", path)[:].astype(np.int64).reshape(-1)
        begins = np.cumsum(said) - said
        offsets = dataset(file, "ep_offset", path)[:].reshape(-1) if first_of(file, ("ep_offset",)) else begins
        if (said < 1).any() or said.sum() != rows or not np.array_equal(offsets, begins):
            raise UserError(f"{path}: ep_len and ep_offset do not add up to its {rows} rows")
        if lengths is not None and not np.array_equal(lengths, said):
            raise UserError(f"{path}: ep_len and {index} disagree about the episodes")
        lengths = said
    return lengths, np.cumsum(lengths) - lengths


def convert(
    found: Released, out: Path, image_size: int | None = None, episodes: int | None = None, storage: str = "plain"
) -> np.ndarray:
    """Write the first `episodes` in the layout of tdjepa.data.store, a block of frames at a time; returns the actions."""
    lengths = found.lengths[: episodes or None]
    rows, side = int(lengths.sum()), image_size or found.frame[0]
    if found.frame[0] != found.frame[1]:
        raise UserError(f"{found.path}: frames of {found.frame[0]} x {found.frame[1]} px, expected square ones")
    if storage == "plain":
        check_room(out, rows, side)
    try:
        with h5py.File(found.path, "r") as theirs:
            action = read(theirs, found.columns["action"], slice(0, rows)).astype(np.float32)
            refuse_gaps(action, lengths, found.path)
            first = {name: read(theirs, parts, slice(0, 1)) for name, parts in found.columns.items()}
            columns = {name: (row.shape[1:], row.dtype) for name, row in first.items()}
            columns |= {"pixels": ((side, side, 3), "u1"), "action": (action.shape[1:], "f4")}
            columns |= {"episode_idx": ((), "i4"), "step_idx": ((), "i4")}
            with chunked.CREATE[storage](out, lengths, columns) as ours, progress(rows, "convert", "frames") as bar:
                ours["action"][:] = action
                ours["episode_idx"][:] = np.repeat(np.arange(len(lengths)), lengths)
                ours["step_idx"][:] = np.arange(rows) - np.repeat(np.cumsum(lengths) - lengths, lengths)
                for block in blocks(theirs["pixels"], rows):
                    chunked.put(ours, block.start, resized(theirs["pixels"][block], side))
                    for name in first.keys() - {"action"}:
                        ours[name][block] = read(theirs, found.columns[name], block)
                    bar.update(block.stop - block.start)
    except OSError as error:  # HDF5's own: a damaged chunk, a full disk
        raise UserError(f"{found.path}: conversion failed ({' '.join(str(error).split())})") from None
    return action


def check_room(out: Path, rows: int, side: int) -> None:
    needed, free = rows * side * side * 3, shutil.disk_usage(Path(out).parent).free
    if needed > free:
        raise UserError(
            f"{out.parent}: {rows} frames of {side} px are {needed / 1e9:.0f} GB, {free / 1e9:.0f} GB are free; "
            "collect.storage: packed, a smaller image size or fewer episodes need less"
        )


def refuse_gaps(action: np.ndarray, lengths: np.ndarray, path: Path) -> None:
    """An action may be missing (NaN) where an episode ends and nowhere else: our rows hold the action taken at them."""
    gap = np.isnan(action).any(1)
    gap[np.cumsum(lengths) - 1] = False
    if gap.any():
        row = int(np.nonzero(gap)[0][0])
        episode = int(np.searchsorted(np.cumsum(lengths), row, "right"))
        raise UserError(f"{path}: NaN action inside episode {episode} (row {row}); only its last row may lack one")


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
