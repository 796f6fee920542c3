"""Functions in processes of their own: what they say is kept, and nobody waits for one without end.

A child is a fork of a server that has loaded what it needs, so it costs little; a fork of the process of the tests could wait
for ever for a lock that one of its threads holds. The server's only thread beside its first is that of pyarrow's jemalloc, which
knows of forks.
"""

import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(  # one list for all tests: there is one server, which the first child starts
    [
        *("pytest", "safetensors.torch", "pyarrow.parquet", "matplotlib.backends.backend_pdf", "tdjepa.cli.verbs"),
        *("tdjepa.steps.train", "tdjepa.steps.evaluate", "tdjepa.steps.collect", "tdjepa.steps.mine"),
        *("tdjepa.steps.diagnose", "tdjepa.steps.probe", "tdjepa.evidence.judge"),
        *("tdjepa.report.gather", "tdjepa.report.page.build", "tdjepa.report.pdf"),
    ]
)
LIMIT = 900  # seconds: for what will never end, not for slow machines; less than pytest's own, which ends the whole run


class Child:
    """The function in a child process, begun; it must be at the top of a module. `said` gets its output."""

    def __init__(self, function, *args, said: Path, file_limit: int | None = None):
        self.said = said
        self._process = SERVER.Process(target=_work, args=(function, args, said, file_limit), daemon=True)
        self._process.start()

    def ended_within(self, seconds: float) -> bool:
        self._process.join(seconds)
        return self._process.exitcode is not None

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Its exit status; minus the signal if one ended it."""
        if not self.ended_within(LIMIT):
            os.kill(self._process.pid, signal.SIGABRT)  # it says where it hangs
            if not self.ended_within(20):
                self._process.kill()
            pytest.fail(f"a child process did not end within {LIMIT} s:\n{self.said.read_text(errors='replace')}")
        return self._process.exitcode


def _work(function, args, said: Path, file_limit: int | None) -> None:
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1), os.dup2(output, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")  # not those of the server, which may be closed
    faulthandler.enable()
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    function(*args)
