"""Episodes at paper scale: frames packed one by one, read in threads, within a bound on memory.

350 GB of raw frames cannot be memory-mapped from a disk that does not hold them. Here `pixels` has one HDF5 chunk per frame,
with LZ4 and a Fletcher checksum. Everything else is as in store.py, and h5py with hdf5plugin (so the library too) opens the
file. We read around HDF5, which serves one thread at a time: it is asked once where the chunks lie, then a frame is one
pread and one LZ4 call, both outside the interpreter lock.

CPU microseconds for one frame of 224 px (150.5 kB) through HDF5 / our way, and kB on disk, one core of a shared 2-core machine:

                two_room           push_t             reacher
    LZ4         141 /  27,  5.1    114 /  30,  3.5    148 /  54, 24.2
    Zstd 1      201 /  70,  4.4    172 /  44,  2.2    276 / 119, 16.9
    Zstd 3 x 8  622 /   -,  3.2    428 /   -,  0.9    591 /   -,  4.3   (chunks of 8 frames: one wanted, 8 unpacked)
    Blosc LZ4   148 /   -,  5.6    112 /   -,  3.9    172 /   -, 26.9   (Blosc2: 443 to 562 through HDF5)

A window takes frames 5 rows apart, so a chunk of several frames would unpack what nobody asked for. The checksum costs 5 to
22 us more: LZ4 has none, and a flipped bit would otherwise be trained on.
"""

import contextlib
import errno
import os
import shutil
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import hdf5plugin  # registers LZ4 with HDF5
import numpy as np
import pyarrow

from tdjepa.base.artefacts import publish, remove_leftovers, verified, write_card
from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.data import store
from tdjepa.data.store import Store

PIPELINE = (hdf5plugin.LZ4.filter_id, h5py.h5z.FILTER_FLETCHER32)
LZ4_HEADER = 16  # of HDF5's filter, big-endian: bytes unpacked (8), bytes in a block (4), bytes of block 1 packed (4)
CHECKSUM = 4  # at the end of a chunk
BLOCK = 64 << 20  # bytes of frames held while compressing


def create_chunked(path: str | Path, lengths: np.ndarray, columns: dict[str, tuple[tuple[int, ...], str]]) -> h5py.File:
    """As store.create, but what is written to `pixels` is packed frame by frame; byte-reproducible."""
    (height, width, channels), dtype = columns["pixels"]
    file = store.create(path, lengths, {name: column for name, column in columns.items() if name != "pixels"})
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((1, height, width, channels))
    layout.set_filter(hdf5plugin.LZ4.filter_id, h5py.h5z.FLAG_MANDATORY, (0,))  # 0: the whole frame is one LZ4 block
    layout.set_fletcher32()
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    layout.set_obj_track_times(False)
    space = h5py.h5s.create_simple((int(lengths.sum()), height, width, channels))
    h5py.h5d.create(file.id, b"pixels", h5py.h5t.py_create(np.dtype(dtype), logical=True), space, layout)
    return file


CREATE = {"plain": store.create, "packed": create_chunked}  # a new file of each kind of storage


def put(file: h5py.File, begin: int, frames: np.ndarray) -> None:
    """Write frames from row `begin` on. Room for packed ones could not be reserved, because nobody knew how small they
    become; it is asked for here, because HDF5 must not run out of it."""
    if file["pixels"].chunks and shutil.disk_usage(Path(file.filename).parent).free < frames.nbytes + (64 << 20):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file["pixels"][begin : begin + len(frames)] = frames


def pack(episodes: Path, out: Path, storage: str = "packed") -> dict:
    """`tdjepa pack`: the same episodes in the other storage, a block at a time; returns the card, with the facts of the
    source's card. There and back again gives the same bytes."""
    if out.resolve() == episodes.resolve():
        raise UserError(f"--out {out}: is the file that is read; name another one")
    source, data = verified(episodes), open_store(episodes)
    rows, frame = len(data.pixels), data.pixels[0].nbytes
    step = max(1, BLOCK // frame)
    remove_leftovers(out)
    with publish(out) as temporary, h5py.File(episodes, "r") as theirs:
        names = [name for name in theirs if name not in ("ep_len", "ep_offset")]
        columns = {name: (theirs[name].shape[1:], theirs[name].dtype) for name in names}
        with CREATE[storage](temporary, data.length, columns) as ours, progress(rows, storage, "frames") as bar:
            for name in set(names) - {"pixels"}:
                ours[name][:] = theirs[name][:]
            for begin in range(0, rows, step):
                frames = data.pixels[begin : begin + step]
                put(ours, begin, frames)
                bar.update(len(frames))
    about_the_file = {"file", "sha256", "bytes", "verb", "version", "params", "inputs", "machine"}
    facts = {name: value for name, value in source.items() if name not in about_the_file}
    facts |= {"storage": storage, "raw_bytes": rows * frame}
    return write_card(out, "pack", {"storage": storage}, {"episodes": episodes}, **facts)


class Frames:
    """Packed frames that are indexed like the (rows, H, W, 3) array that they are; any number of threads may read."""

    dtype = np.dtype(np.uint8)

    def __init__(self, path: Path, shape: tuple[int, ...], begin: np.ndarray, size: np.ndarray):
        self.path, self.shape, self.ndim = path, shape, len(shape)
        self._begin, self._size = begin, size  # where chunk `row` lies in the file, bytes; (rows,)
        self._numbers = np.arange(shape[0])
        self._weights = np.arange((most(shape) + 1) // 2, 0, -1).astype(np.uint64)
        self._codec = pyarrow.Codec("lz4_raw")
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed with this object)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key) -> np.ndarray:
        """A frame for a number; for an array of numbers, a slice or a mask what numpy gives: (*rows.shape, H, W, 3)"""
        rows = self._numbers[key]
        if rows.ndim == 0:
            return self._frame(int(rows))
        frames = np.empty((*rows.shape, *self.shape[1:]), np.uint8)
        fill(self, rows.reshape(-1), frames.reshape(-1, *self.shape[1:]))
        return frames

    def _frame(self, row: int) -> np.ndarray:
        size, expected = int(self._size[row]), self.shape[1] * self.shape[2] * self.shape[3]
        chunk = os.pread(self._file.fileno(), size, int(self._begin[row]))
        if len(chunk) != size:
            raise self._damaged(row, f"the file ends {size - len(chunk)} bytes before its end")
        body, checksum = chunk[:-CHECKSUM], int.from_bytes(chunk[-CHECKSUM:], "little")
        if fletcher(body, self._weights) != ((checksum >> 16) % 65535, (checksum & 65535) % 65535):
            raise self._damaged(row, "its checksum is wrong")
        unpacked, block = int.from_bytes(body[:8], "big"), int.from_bytes(body[8:12], "big")
        if unpacked != expected or block < expected or int.from_bytes(body[12:16], "big") != len(body) - LZ4_HEADER:
            raise self._damaged(row, f"{unpacked} bytes in blocks of {block}, expected {expected} in one block")
        body = body[LZ4_HEADER:]
        if len(body) < expected:  # else it is stored as it is
            body = self._codec.decompress(body, expected)
        return np.frombuffer(body, np.uint8).reshape(self.shape[1:])

    def _damaged(self, row: int, how: str) -> UserError:
        why = f"the frame of row {row} cannot be read: {how}"
        return UserError(f"{self.path}: {why}; the file is damaged, make it again")


def most(shape: tuple[int, ...]) -> int:
    """Bytes of the biggest chunk that a frame of this shape can become: what LZ4 cannot make smaller is stored as it is."""
    return shape[1] * shape[2] * shape[3] + LZ4_HEADER + CHECKSUM


def fletcher(body: bytes, weights: np.ndarray) -> tuple[int, int]:
    """Both sums of HDF5's Fletcher-32, mod 65535 (where HDF5 may write 65535 for 0); weights: ..., 3, 2, 1."""
    words = np.frombuffer(body + b"\0" * (len(body) % 2), ">u2").astype(np.uint64)
    return int(words @ weights[-len(words) :]) % 65535, int(words.sum()) % 65535


def fill(pixels, rows: np.ndarray, out: np.ndarray, stop: threading.Event | None = None) -> None:
    """out[k] = pixels[rows[k]], frame by frame, so that no second copy of all of them exists; (n,) -> (n, H, W, 3)"""
    for k, row in enumerate(rows):
        if stop is not None and stop.is_set():
            return
        out[k] = pixels[row]


class ChunkedStore(Store):
    """Read-only view of an episodes file with packed frames: a Store whose `pixels` are unpacked when they are asked for."""

    def _open(self, pixels: h5py.Dataset) -> Frames:
        layout = pixels.id.get_create_plist()
        filters = tuple(layout.get_filter(k)[0] for k in range(layout.get_nfilters()))
        if pixels.chunks != (1, *pixels.shape[1:]) or filters != PIPELINE:
            found = f"pixels has chunks {pixels.chunks} and HDF5 filters {filters}"
            expected = f"one frame per chunk and filters {PIPELINE} (LZ4, Fletcher-32)"
            again = "make it again with `tdjepa collect`, `fetch` or `pack`"
            raise UserError(f"{self.path}: {found}, expected {expected}; {again}")
        return Frames(self.path, pixels.shape, *_index(pixels, self.path))


def open_store(path: str | Path) -> Store:
    """The episodes file, memory-mapped if its frames are contiguous, unpacked on demand if they are not."""
    try:
        with h5py.File(path, "r") as file:
            packed = isinstance(file.get("pixels"), h5py.Dataset) and file["pixels"].chunks is not None
    except Exception:
        packed = False  # Store says what is wrong
    return (ChunkedStore if packed else Store)(path)


def _index(pixels: h5py.Dataset, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """First byte and bytes of the chunk of every row; (rows,), (rows,)"""
    if len(pixels) * (LZ4_HEADER + CHECKSUM) > path.stat().st_size:
        raise UserError(f"{path}: says that it holds {len(pixels)} frames, more than fit into it; make it again")
    begin, size = np.zeros(len(pixels), np.int64), np.zeros(len(pixels), np.int32)

    def note(chunk):
        if not chunk.filter_mask:  # a set bit says that a filter was left out
            begin[chunk.chunk_offset[0]], size[chunk.chunk_offset[0]] = chunk.byte_offset, chunk.size

    pixels.id.chunk_iter(note)
    bad = (size <= LZ4_HEADER + CHECKSUM) | (size > most(pixels.shape)) | (begin + size > path.stat().st_size)
    if bad.any():
        row, count = int(np.nonzero(bad)[0][0]), int(bad.sum())
        raise UserError(
            f"{path}: the frame of row {row} is not in the file ({count} of {len(bad)} are missing); "
            "its writer was stopped or the file was cut off: make it again"
        )
    return begin, size


def window_stream(
    data: Store, order: np.ndarray, batch: int, window: int, frameskip: int, workers: int, memory_mb: float
):
    """Batches of windows, read ahead of whoever asks for them: what `windows.gather` gives for order[:batch] and so on.

    -> frames (B, T, H, W, 3) uint8, actions (B, T-1, frameskip * A); the last batch may be shorter.

    The batches and their order do not depend on `workers` (threads; 0 reads when asked). All decoded frames lie in a ring of
    buffers that fits into `memory_mb`, the batch that was handed out last included. Its frames are overwritten once the next
    one is asked for, so copy what you keep. Reading ahead needs room for two batches. Use it in a `with` statement, which
    ends the threads.
    """
    frame = int(np.prod(data.pixels.shape[1:]))
    size, aside = min(batch, len(order)) * window * frame, max(workers, 1) * frame  # each thread holds a frame besides
    room = int(memory_mb * 1e6) - aside
    if room < size:
        needed = -(-(size + aside) // 10**6)
        raise UserError(
            f"memory_mb = {memory_mb:g}: a batch of {batch} windows of {window} frames of {data.image_size} px needs "
            f"{needed} MB, and {needed + -(-size // 10**6)} to read ahead; give more or choose a smaller batch"
        )
    groups = [order[k : k + batch] for k in range(0, len(order), batch)]
    depth = min(room // size, len(groups)) if workers and groups else 1
    shape = (min(batch, len(order)), window, *data.pixels.shape[1:])
    return contextlib.closing(_read_ahead(data, groups, shape, frameskip, workers, depth))


def _read_ahead(
    data: Store, groups: list[np.ndarray], shape: tuple[int, ...], frameskip: int, workers: int, depth: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches in order; while batch k is used, up to `depth` - 1 after it are being read."""
    window, frame = shape[1], shape[2:]
    ring = [np.empty(shape, np.uint8) for _ in range(depth)]
    stop, running = threading.Event(), deque()
    pool = ThreadPoolExecutor(workers, "reader") if workers else None

    def start(k: int) -> None:
        rows = (groups[k][:, None] + np.arange(window) * frameskip).reshape(-1)
        out = ring[k % depth].reshape(-1, *frame)[: len(rows)]
        if pool is None:
            fill(data.pixels, rows, out)
            running.append([])
        else:
            parts = zip(np.array_split(rows, workers), np.array_split(out, workers), strict=True)
            running.append([pool.submit(fill, data.pixels, part, place, stop) for part, place in parts])

    try:
        started = 0
        for k, first in enumerate(groups):
            while started < min(k + depth, len(groups)):  # batch k - 1 is done with: its buffer is free
                start(started)
                started += 1
            for future in running.popleft():
                future.result()
            blocks = data.action[first[:, None] + np.arange((window - 1) * frameskip)]
            yield ring[k % depth][: len(first)], blocks.reshape(len(first), window - 1, -1)
    finally:
        stop.set()
        if pool is not None:
            pool.shutdown(cancel_futures=True)
