"""Named random streams: every draw is keyed by what it is for, never by when it happens.

`stream(3072, "order", epoch)` is the same sequence whatever was drawn before it, so the batch of environments, the
number of workers, the order of jobs and a resume after a crash cannot change a number.
"""

import hashlib

import numpy as np


def seed_of(root: int, *names: int | str) -> int:
    """A 63-bit seed from the root seed and the names of the stream (ints and strings never collide)."""
    key = repr((int(root), *(n if isinstance(n, str) else int(n) for n in names)))
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little") >> 1


def stream(root: int, *names: int | str) -> np.random.Generator:
    """The numpy generator of this name."""
    return np.random.default_rng(seed_of(root, *names))


def torch_stream(root: int, *names: int | str):
    """The torch generator (CPU) of this name; noise is drawn on the CPU so that a GPU run sees the same."""
    import torch

    return torch.Generator().manual_seed(seed_of(root, *names))
