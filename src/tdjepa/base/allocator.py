"""Keep freed memory for the next step instead of handing it back to the kernel.

glibc gives large blocks back at once, and the kernel clears every page again: 7 of 190 ms per step at desk size, none after this.
"""

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGEST = 1 << 25  # bytes of a block that stays in the heap; glibc takes no more
KEEP = 1 << 30  # free bytes at the top of the heap


def keep_memory() -> bool:
    """Once a process, before the work; False where the C library has no such switch (macOS, musl)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(M_TRIM_THRESHOLD, KEEP))
