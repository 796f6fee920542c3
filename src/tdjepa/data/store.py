"""Episodes on disk: one HDF5 file, contiguous, so that training memory-maps it instead of reading through HDF5.

Layout (also what the library's HDF5Dataset opens): `ep_len`, `ep_offset` per episode; per row `pixels` (H, W, 3) uint8,
`action`, `state`, `proprio`, `goal_state`, `episode_idx`, `step_idx`. Row t holds what was seen at t and the action taken
then; the last row of an episode has no action (NaN), which becomes 0 after z-scoring.
"""

import errno
import math
import os
import shutil
from pathlib import Path

import h5py
import numpy as np

from tdjepa.base.errors import UserError, reason

COLUMNS = ("pixels", "action", "state")
KINDS = {"u": "whole numbers", "iu": "whole numbers", "f": "floating-point numbers"}
MAX_SIZE = 4096  # pixels; beyond this a header is damaged
# columns are written in this order whatever order they are given in, so that one content has one sequence of bytes
ORDER = ("pixels", "action", "state", "proprio", "goal_state", "episode_idx", "step_idx")


def create(path: str | Path, lengths: np.ndarray, columns: dict[str, tuple[tuple[int, ...], str]]) -> h5py.File:
    """A new file with room for sum(lengths) rows of each column {name: (shape of a row, dtype)}; byte-reproducible."""
    rows = int(lengths.sum())
    reserve(path, rows * sum(np.dtype(dtype).itemsize * math.prod(shape) for shape, dtype in columns.values()))
    file = h5py.File(path, "w", libver="latest", track_order=False)
    file.create_dataset("ep_len", data=lengths.astype(np.int32), track_times=False)
    file.create_dataset("ep_offset", data=(np.cumsum(lengths) - lengths).astype(np.int64), track_times=False)
    for name, (shape, dtype) in sorted(columns.items(), key=lambda column: ORDER.index(column[0])):
        # early allocation gives the column one block of the file before anything is written: that is what is mapped
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        layout.set_obj_track_times(False)
        space = h5py.h5s.create_simple((rows, *shape))
        h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(np.dtype(dtype), logical=True), space, layout)
    return file


def reserve(path: str | Path, size: int) -> None:
    """Ask the disk for the room first: HDF5 crashes the whole process when it runs out of space during a write."""
    with open(path, "wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        elif shutil.disk_usage(Path(path).parent).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Store:
    """Read-only view of an episodes file: pixels memory-mapped, the small columns in memory."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        again = "delete it and run `tdjepa collect` again"
        if not self.path.exists():
            raise UserError(f"{path}: no such file; run `tdjepa collect` first")
        try:
            with h5py.File(self.path, "r") as file:
                missing = [name for name in ("ep_len", "ep_offset", *COLUMNS) if name not in file]
                if missing:
                    raise UserError(f"{path}: not an episodes file: column {', '.join(missing)} is missing; {again}")
                pixels = self._column(file, "pixels", "u", 4)
                if pixels.dtype != np.uint8 or pixels.shape[-1] != 3 or max(pixels.shape[1:3]) > MAX_SIZE:
                    found = f"{pixels.dtype} {pixels.shape}"
                    raise UserError(f"{path}: pixels is {found}, expected uint8 (rows, H, W, 3); {again}")
                if not pixels.size:
                    raise UserError(f"{path}: holds no episodes; {again}")
                self.pixels = self._open(pixels)
                index = (self._read(self._column(file, name, "iu", 1)) for name in ("ep_len", "ep_offset"))
                self.length, self.offset = (numbers.astype(np.int64) for numbers in index)
                self.action, self.state = (self._read(self._column(file, name, "f", 2)) for name in ("action", "state"))
        except UserError:
            raise
        except Exception as error:  # damage shows in many ways: as an OSError, a missing key, a size beyond memory
            why = reason(error).split("(")[-1].rstrip(")")
            raise UserError(f"{path}: cannot be read as HDF5 ({why}); {again}") from None
        self._check()

    def _column(self, file: h5py.File, name: str, kinds: str, dimensions: int) -> h5py.Dataset:
        column = own_column(file, name, self.path)
        if column.dtype.kind not in kinds or column.ndim != dimensions:
            expected = f"{KINDS[kinds]} in {dimensions} dimensions"
            raise UserError(f"{self.path}: {name} is {column.dtype} {column.shape}, expected {expected}")
        return column

    def _read(self, column: h5py.Dataset) -> np.ndarray:
        """A small column; only if the file really holds it, because a damaged header may ask for any amount of memory."""
        if column.size and _place(column) is None:
            raise UserError(f"{self.path}: {column.name[1:]} is packed, elsewhere or cut off, expected in one piece")
        return column[:]

    def _open(self, pixels: h5py.Dataset) -> np.ndarray:
        """The frames as an array (rows, H, W, 3) that outlives the HDF5 file."""
        if pixels.id.get_offset() is None:
            raise UserError(f"{self.path}: pixels is chunked or compressed and cannot be memory-mapped")
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
        action = self.action[rows_of(self.offset, self.length, episodes)].astype(np.float64)
        return np.nanmean(action, 0), np.nanstd(action, 0)

    def _check(self):
        rows = len(self.pixels)
        expected = np.cumsum(self.length) - self.length
        if (self.length < 1).any() or self.length.sum() != rows or not np.array_equal(self.offset, expected):
            raise UserError(f"{self.path}: ep_len and ep_offset do not add up to the {rows} rows; the file is damaged")
        for name, column in (("action", self.action), ("state", self.state)):
            if len(column) != rows:
                raise UserError(f"{self.path}: {name} has {len(column)} rows, pixels has {rows}; the file is damaged")
        check_actions(self.action, self.offset, self.path)


def own_column(file: h5py.File, name: str, path: Path) -> h5py.Dataset:
    """A column whose data lies in this very file: links and external storage could pull in any file of this machine."""
    column = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(column, h5py.Dataset):
        raise UserError(f"{path}: {name} is a link or a group, expected an array")
    if column.external or column.is_virtual:
        raise UserError(f"{path}: {name} takes its data from other files, which is refused")
    return column


def check_actions(action: np.ndarray, offset: np.ndarray, path: Path) -> None:
    """Only the last row of an episode may lack its action (NaN): a row holds the action that was taken there."""
    missing = np.isnan(action).any(1)
    missing[np.append(offset[1:], len(action)) - 1] = False
    for wrong, what in ((missing, "NaN"), (np.isinf(action).any(1), "infinite")):
        if wrong.any():
            row = int(np.nonzero(wrong)[0][0])
            episode = int(np.searchsorted(offset, row, "right")) - 1
            more = "only its last row may lack an action" if what == "NaN" else "it cannot be learned from"
            raise UserError(f"{path}: {what} action inside episode {episode} (step {row - offset[episode]}); {more}")


def _place(column: h5py.Dataset) -> int | None:
    """First byte of a column that lies in the file as one piece; None if it does not."""
    start, size = column.id.get_offset(), math.prod(column.shape) * column.dtype.itemsize
    held = start is not None and column.id.get_storage_size() == size
    return start if held and start + size <= Path(column.file.filename).stat().st_size else None


def rows_of(offset: np.ndarray, length: np.ndarray, episodes: np.ndarray) -> np.ndarray:
    """All row numbers of these episodes, in order."""
    return np.concatenate([np.arange(offset[e], offset[e] + length[e]) for e in episodes])
