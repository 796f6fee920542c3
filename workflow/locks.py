"""A killed run leaves Snakemake's lock behind. The next run on the same machine takes it away, so the same command goes on.

Every run holds an flock, which the kernel frees at its death however that comes. Whoever gets it alone knows that no other
run is alive here, and that locks in the folder are dead. Not so with a cluster: jobs outlive the run that submitted them,
and two generations must not meet. There Snakemake's own advice stands: cancel the jobs, then `snakemake --unlock`.
"""

import fcntl
import shutil
import socket
from contextlib import suppress
from pathlib import Path

from announce import say

LOCKS = Path(".snakemake/locks")
ALIVE = Path(".snakemake/alive")

_held = None  # open for the life of the process


def hold(workflow) -> bool:
    """Before Snakemake takes its own lock: remove dead ones, and be seen to be alive. -> whether nobody else is here"""
    global _held
    dry = workflow.output_settings.dryrun
    if _held or (dry and not ALIVE.exists()):
        return True
    ALIVE.parent.mkdir(exist_ok=True)
    held = open(ALIVE, "a+")  # noqa: SIM115
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Another run is alive in this folder: wait for it; `tdjepa status` shows how far it is.")
        return False  # Snakemake's own lock decides what may be done beside it
    except OSError:  # this file system has no flock
        return True
    if dry:
        return True
    held.seek(0)
    if any(LOCKS.glob("*.lock")) and held.read() == _here("local"):
        say("An earlier run was killed; its lock is removed.")
        shutil.rmtree(LOCKS)
    with suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_SH)
    _held = held
    return True


def describe(workflow) -> None:
    """At the start of the jobs: where they run, for the one who finds our lock."""
    with open(ALIVE, "r+") as f:
        f.truncate()
        f.write(_here("local" if workflow.local_exec else "cluster"))


def _here(executor: str) -> str:
    return f"{socket.gethostname()} {executor}"
