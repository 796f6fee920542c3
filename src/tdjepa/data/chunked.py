"""Packed frames, for episodes at paper scale: 350 GB of raw frames do not fit on every disk that could be memory-mapped.

`pixels` has one HDF5 chunk per frame, with LZ4 and a Fletcher checksum, so h5py with hdf5plugin (and the library) opens the
file. We read around HDF5, which serves one thread at a time: it is asked once where the chunks lie, then a frame is one
pread and one LZ4 call, both outside the interpreter lock.

docs/environments.md has the codecs that were measured. The checksum is needed because LZ4 has none: a flipped bit would be
trained on.
"""

import os
from pathlib import Path

import h5py
import hdf5plugin  # registers LZ4 with HDF5
import numpy as np
import pyarrow

from tdjepa.base.errors import UserError

PIPELINE = (hdf5plugin.LZ4.filter_id, h5py.h5z.FILTER_FLETCHER32)
LZ4_HEADER = 16  # of HDF5's filter, big-endian: bytes unpacked (8), bytes in a block (4), bytes of block 1 packed (4)
CHECKSUM = 4  # at the end of a chunk


def lay_out(layout: h5py.h5p.PropDCID, frame: tuple[int, ...]) -> None:
    """Make a column's layout that of packed frames of this shape (H, W, 3)."""
    layout.set_chunk((1, *frame))
    layout.set_filter(hdf5plugin.LZ4.filter_id, h5py.h5z.FLAG_MANDATORY, (0,))  # 0: the whole frame is one LZ4 block
    layout.set_fletcher32()


class Frames:
    """Packed frames that are indexed like the (rows, H, W, 3) array that they are; any number of threads may read."""

    dtype = np.dtype(np.uint8)

    def __init__(self, pixels: h5py.Dataset, path: Path):
        layout = pixels.id.get_create_plist()
        filters = tuple(layout.get_filter(k)[0] for k in range(layout.get_nfilters()))
        if pixels.chunks != (1, *pixels.shape[1:]) or filters != PIPELINE:
            found = f"pixels has chunks {pixels.chunks} and HDF5 filters {filters}"
            expected = f"one frame per chunk and filters {PIPELINE} (LZ4, Fletcher-32)"
            raise UserError(
                f"{path}: {found}, expected {expected}; make it again with `tdjepa collect`, `fetch` or `pack`"
            )
        self.path, self.shape, self.ndim = path, pixels.shape, pixels.ndim
        self._frame_bytes = int(np.prod(pixels.shape[1:]))
        self._begin, self._size = self._index(pixels)  # where chunk `row` lies in the file, bytes; (rows,)
        self._numbers = np.arange(len(pixels))
        self._weights = np.arange((self._most + 1) // 2, 0, -1).astype(np.uint64)
        self._codec = pyarrow.Codec("lz4_raw")
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed with this object)

    @property
    def _most(self) -> int:
        """Bytes of the biggest chunk: a frame that LZ4 cannot make smaller is stored as it is."""
        return self._frame_bytes + LZ4_HEADER + CHECKSUM

    def _index(self, pixels: h5py.Dataset) -> tuple[np.ndarray, np.ndarray]:
        """First byte and bytes of the chunk of every row; (rows,), (rows,)"""
        rows, held = len(pixels), self.path.stat().st_size
        if rows * (LZ4_HEADER + CHECKSUM) > held:
            raise UserError(f"{self.path}: says that it holds {rows} frames, more than fit into it; make it again")
        begin, size = np.zeros(rows, np.int64), np.zeros(rows, np.int32)

        def note(chunk):
            if not chunk.filter_mask:  # a set bit says that a filter was left out
                begin[chunk.chunk_offset[0]], size[chunk.chunk_offset[0]] = chunk.byte_offset, chunk.size

        pixels.id.chunk_iter(note)
        bad = (size <= LZ4_HEADER + CHECKSUM) | (size > self._most) | (begin + size > held)
        if bad.any():
            why = f"the frame of row {bad.argmax()} is not in the file ({bad.sum()} of {rows} are missing)"
            raise UserError(f"{self.path}: {why}; its writer was stopped or the file was cut off: make it again")
        return begin, size

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key) -> np.ndarray:
        """A frame for a number; for an array of numbers, a slice or a mask what numpy gives: (*rows.shape, H, W, 3)"""
        rows = self._numbers[key]
        if rows.ndim == 0:
            return self._frame(int(rows))
        frames = np.empty((rows.size, *self.shape[1:]), np.uint8)
        for k, row in enumerate(rows.flat):
            frames[k] = self._frame(int(row))
        return frames.reshape(*rows.shape, *self.shape[1:])

    def _frame(self, row: int) -> np.ndarray:
        size, expected = int(self._size[row]), self._frame_bytes
        chunk = os.pread(self._file.fileno(), size, int(self._begin[row]))
        if len(chunk) != size:
            raise self._damaged(row, f"the file ends {size - len(chunk)} bytes before its end")
        body, checksum = chunk[:-CHECKSUM], int.from_bytes(chunk[-CHECKSUM:], "little")
        if self._fletcher(body) != ((checksum >> 16) % 65535, (checksum & 65535) % 65535):
            raise self._damaged(row, "its checksum is wrong")
        unpacked, block = int.from_bytes(body[:8], "big"), int.from_bytes(body[8:12], "big")
        if unpacked != expected or block < expected or int.from_bytes(body[12:16], "big") != len(body) - LZ4_HEADER:
            raise self._damaged(row, f"{unpacked} bytes in blocks of {block}, expected {expected} in one block")
        body = body[LZ4_HEADER:]
        if len(body) < expected:  # else it is stored as it is
            body = self._codec.decompress(body, expected)
        return np.frombuffer(body, np.uint8).reshape(self.shape[1:])

    def _fletcher(self, body: bytes) -> tuple[int, int]:
        """Both sums of HDF5's Fletcher-32, mod 65535 (where HDF5 may write 65535 for 0); the weights are ..., 3, 2, 1."""
        words = np.frombuffer(body + b"\0" * (len(body) % 2), ">u2").astype(np.uint64)
        return int(words @ self._weights[-len(words) :]) % 65535, int(words.sum()) % 65535

    def _damaged(self, row: int, how: str) -> UserError:
        why = f"the frame of row {row} cannot be read: {how}"
        return UserError(f"{self.path}: {why}; the file is damaged, make it again")
