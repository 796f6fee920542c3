"""What opens the files that C libraries parse, for a child process: it may crash, hang, or want all memory."""

import pickle
import resource
from pathlib import Path

import numpy as np

from tdjepa.base.errors import UserError
from tdjepa.data.store import Store
from tdjepa.evidence import rows


def read_rows(path: Path) -> None:
    rows.read([path])


def use_episodes(path: Path) -> None:
    """Open an episodes file and take from it what training and evaluation take."""
    data = Store(path)
    data.row(np.arange(data.episodes), data.length - 1)
    data.action_statistics(np.arange(data.episodes))
    for row in range(len(data.pixels)):
        assert data.pixels[row].shape == (*data.pixels.shape[1:],)


def open_each(opened, files: list[Path], answers: Path) -> None:
    """Pickle "" or the message of the UserError of each file into `answers`, within 4 GB and 60 s of CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (used() + (4 << 30),) * 2)
    with open(answers, "ab", buffering=0) as log:
        for path in files:
            try:
                opened(path)
                answer = ""
            except UserError as error:
                answer = str(error)
            log.write(pickle.dumps(answer))


def used() -> int:
    """Bytes of address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
