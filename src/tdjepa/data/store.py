"""Episodes on disk: one HDF5 file that every step reads, its frames memory-mapped or packed (chunked.py).

Layout (also what the library's HDF5Dataset opens): `ep_len`, `ep_offset` per episode; per row `pixels` (H, W, 3) uint8,
`action`, `state`, `proprio`, `goal_state`, `episode_idx`, `step_idx`, and `kind` (an HDF5 enum) where there are several kinds
of demonstrations. Row t holds what was seen at t and the action taken then; the last row of an episode has no action (NaN),
which becomes 0 after z-scoring.
"""

import errno
import math
import os
import shutil
from pathlib import Path

import h5py
import numpy as np

from tdjepa.base.artefacts import publish, verified, write_card
from tdjepa.base.errors import UserError, reason
from tdjepa.base.progress import progress
from tdjepa.data.chunked import Frames, lay_out

MAX_SIZE = 4096  # pixels; beyond this a header is damaged
BLOCK = 64 << 20  # bytes of frames held while packing
# columns are written in this order whatever order they are given in, so that one content has one sequence of bytes
ORDER = ("pixels", "action", "state", "proprio", "goal_state", "episode_idx", "step_idx", "kind")
Columns = dict[str, tuple[tuple[int, ...], str]]  # name -> shape of a row, dtype


def create(path: str | Path, lengths: np.ndarray, columns: Columns, storage: str = "plain") -> h5py.File:
    """A new file with room for sum(lengths) rows of each column, and the numbers of episodes and steps; byte-reproducible."""
    columns = columns | {"episode_idx": ((), "i4"), "step_idx": ((), "i4")}
    rows, names, offset = int(lengths.sum()), sorted(columns, key=ORDER.index), np.cumsum(lengths) - lengths
    packed = "pixels" if storage == "packed" else None
    if packed:
        names = [*names[1:], packed]  # nobody knows how much room they take
    sizes = {name: np.dtype(dtype).itemsize * math.prod(shape) for name, (shape, dtype) in columns.items()}
    reserve(path, rows * sum(size for name, size in sizes.items() if name != packed))
    file = h5py.File(path, "w", libver="latest", track_order=False)
    file.create_dataset("ep_len", data=lengths.astype(np.int32), track_times=False)
    file.create_dataset("ep_offset", data=offset.astype(np.int64), track_times=False)
    for name in names:
        shape, dtype = columns[name]
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if name == packed:
            lay_out(layout, shape)
        else:  # the column gets one block of the file before anything is written: that is what is mapped
            layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        layout.set_obj_track_times(False)
        space = h5py.h5s.create_simple((rows, *shape))
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, layout)
    file["episode_idx"][:] = np.repeat(np.arange(len(lengths)), lengths)
    file["step_idx"][:] = np.arange(rows) - np.repeat(offset, lengths)
    return file


def reserve(path: str | Path, size: int) -> None:
    """Ask the disk for the room first: HDF5 crashes the whole process when it runs out of space during a write."""
    with open(path, "wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            ask_for_room(path, size)


def ask_for_room(path: str | Path, size: int) -> None:
    if shutil.disk_usage(Path(path).parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def put(file: h5py.File, begin: int, frames: np.ndarray) -> None:
    """Write frames from row `begin` on. Room for packed ones could not be reserved, so it is asked for here."""
    if file["pixels"].chunks:
        ask_for_room(file.filename, frames.nbytes + (64 << 20))
    file["pixels"][begin : begin + len(frames)] = frames


def pack(episodes: Path, out: Path, storage: str = "packed") -> dict:
    """`tdjepa pack`: the same episodes in the other storage, a block at a time; returns the card, with the facts of the
    source's card. There and back again gives the same bytes."""
    if out.resolve() == episodes.resolve():
        raise UserError(f"--out {out}: is the file that is read; name another one")
    source, data = verified(episodes), Store(episodes)
    rows, frame = len(data.pixels), data.pixels[0].nbytes
    step = max(1, BLOCK // frame)
    with publish(out, alone=True) as temporary, h5py.File(episodes, "r") as theirs:
        columns = {name: (theirs[name].shape[1:], theirs[name].dtype) for name in ORDER if name in theirs}
        with create(temporary, data.length, columns, storage) as ours, progress(rows, storage, "frames") as bar:
            for name in columns.keys() - {"pixels"}:
                ours[name][:] = theirs[name][:]
            for begin in range(0, rows, step):
                frames = data.pixels[begin : begin + step]
                put(ours, begin, frames)
                bar.update(len(frames))
    about_the_file = {"file", "sha256", "bytes", "verb", "version", "params", "inputs", "machine"}
    facts = {name: value for name, value in source.items() if name not in about_the_file}
    facts |= {"storage": storage, "raw_bytes": rows * frame}
    return write_card(out, "pack", {"storage": storage}, {"episodes": episodes}, **facts)


class Store:
    """Read-only view of an episodes file: frames memory-mapped or unpacked on demand, the small columns in memory."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        again = "delete it and run `tdjepa collect` again"
        if not self.path.exists():
            raise UserError(f"{path}: no such file; run `tdjepa collect` first")
        try:
            with h5py.File(self.path, "r") as file:
                missing = [name for name in ("ep_len", "ep_offset", *ORDER[:3]) if name not in file]
                if missing:
                    raise UserError(f"{path}: not an episodes file: column {', '.join(missing)} is missing; {again}")
                pixels = own_pixels(file, self.path)
                self.pixels = Frames(pixels, self.path) if pixels.chunks else self._mapped(pixels)
                self.length, self.offset = (
                    self._read(file, name, 1).astype(np.int64) for name in ("ep_len", "ep_offset")
                )
                self.action, self.state = (self._read(file, name, 2) for name in ("action", "state"))
                self.kind = self._kinds(file) if "kind" in file else None
        except UserError:
            raise
        except Exception as error:  # damage shows in many ways: as an OSError, a missing key, a size beyond memory
            why = reason(error).split("(")[-1].rstrip(")")
            raise UserError(f"{path}: cannot be read as HDF5 ({why}); {again}") from None
        rows = len(self.pixels)
        expected = np.cumsum(self.length) - self.length
        if (self.length < 1).any() or self.length.sum() != rows or not np.array_equal(self.offset, expected):
            raise UserError(f"{path}: ep_len and ep_offset do not add up to the {rows} rows; the file is damaged")
        for name, column in (("action", self.action), ("state", self.state)):
            if len(column) != rows:
                raise UserError(f"{path}: {name} has {len(column)} rows, pixels has {rows}; the file is damaged")
        check_actions(self.action, self.offset, self.path)

    def _read(self, file: h5py.File, name: str, dimensions: int) -> np.ndarray:
        """A small column; only if the file really holds it, because a damaged header may ask for any amount of memory."""
        column = own_column(file, name, self.path)
        kinds, numbers = ("iu", "whole numbers") if dimensions == 1 else ("f", "floating-point numbers")
        if column.dtype.kind not in kinds or column.ndim != dimensions:
            found, expected = f"{column.dtype} {column.shape}", f"{numbers} in {dimensions} dimensions"
            raise UserError(f"{self.path}: {name} is {found}, expected {expected}")
        if column.size and _place(column) is None:
            raise UserError(f"{self.path}: {name} is packed, elsewhere or cut off, expected in one piece")
        return column[:]

    def _kinds(self, file: h5py.File) -> np.ndarray:
        """Which demonstrator each episode is of, by name; (E,)"""
        of_row, names = self._read(file, "kind", 1), h5py.check_enum_dtype(file["kind"].dtype)
        if not names or len(of_row) != len(file["pixels"]) or not set(np.unique(of_row)) <= set(names.values()):
            raise UserError(f"{self.path}: kind holds other numbers than its {len(names or ())} names, or too few")
        by_number = {number: name for name, number in names.items()}
        return np.array([by_number[number] for number in of_row[self.offset].tolist()])

    def _mapped(self, pixels: h5py.Dataset) -> np.ndarray:
        """The frames as an array (rows, H, W, 3) that outlives the HDF5 file."""
        start = _place(pixels)
        if start is None:
            size = self.path.stat().st_size
            raise UserError(f"{self.path}: cut off: {size} bytes, the pixels end later; delete it and make it again")
        return np.memmap(self.path, np.uint8, mode="r", offset=start, shape=pixels.shape)

    @property
    def episodes(self) -> int:
        return len(self.length)

    @property
    def image_size(self) -> int:
        return self.pixels.shape[1]

    def row(self, episode: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Row numbers of (episode, step), refusing anything outside the episode."""
        episode, step = np.asarray(episode), np.asarray(step)
        bad = (episode < 0) | (episode >= self.episodes)
        bad |= (step < 0) | (step >= self.length[np.where(bad, 0, episode)])
        if bad.any():
            e, s = np.broadcast_to(episode, bad.shape)[bad][0], np.broadcast_to(step, bad.shape)[bad][0]
            found = f"has {self.length[e]} rows" if 0 <= e < self.episodes else f"does not exist ({self.episodes} do)"
            raise UserError(f"{self.path}: step {s} of episode {e} is asked for, but that episode {found}")
        return self.offset[episode] + step

    def action_statistics(self, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std of the actions of these episodes, NaN rows (episode ends) ignored; (A,), (A,)"""
        rows = np.concatenate([np.arange(self.length[e]) + self.offset[e] for e in episodes])
        action = self.action[rows].astype(np.float64)
        return np.nanmean(action, 0), np.nanstd(action, 0)


def own_column(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """A column whose data lies in this very file: links and external storage could pull in any file of this machine."""
    column = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(column, h5py.Dataset):
        raise UserError(f"{path}: {name} is a link or a group, expected an array")
    if column.external or column.is_virtual:
        raise UserError(f"{path}: {name} takes its data from other files, which is refused")
    return column


def own_pixels(file: h5py.File, path: Path) -> h5py.Dataset:
    pixels = own_column(file, "pixels", path)
    sound = pixels.dtype == np.uint8 and pixels.ndim == 4 and pixels.shape[-1] == 3
    if not sound or max(pixels.shape[1:3]) > MAX_SIZE:
        raise UserError(
            f"{path}: pixels is {pixels.dtype} {pixels.shape}, expected uint8 (rows, H, W, 3); make it again"
        )
    if not pixels.size:
        raise UserError(f"{path}: holds no episodes; make it again")
    return pixels


def check_actions(action: np.ndarray, offset: np.ndarray, path: Path) -> None:
    """Only the last row of an episode may lack its action (NaN): a row holds the action that was taken there."""
    missing = np.isnan(action).any(1)
    missing[np.append(offset[1:], len(action)) - 1] = False
    for wrong, what in ((missing, "NaN"), (np.isinf(action).any(1), "infinite")):
        if wrong.any():
            row = int(wrong.argmax())
            episode = int(np.searchsorted(offset, row, "right")) - 1
            more = "only its last row may lack an action" if what == "NaN" else "it cannot be learned from"
            raise UserError(f"{path}: {what} action inside episode {episode} (step {row - offset[episode]}); {more}")


def _place(column: h5py.Dataset) -> int | None:
    """First byte of a column that lies in the file as one piece; None if it does not."""
    start, size = column.id.get_offset(), math.prod(column.shape) * column.dtype.itemsize
    held = start is not None and column.id.get_storage_size() == size
    return start if held and start + size <= Path(column.file.filename).stat().st_size else None
