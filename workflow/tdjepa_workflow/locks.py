"""A killed run leaves Snakemake's lock and, on a cluster, its jobs behind. The next run on the same machine takes both away,
so the same command goes on.

Every run holds an flock, which the kernel frees at its death however that comes. Whoever gets it knows that no other run is
alive here, and that locks in the folder are dead. SLURM's jobs outlive the run that submitted them, and two generations of a
job must not write the same files: those that are still there are cancelled and waited for (a training saves itself then);
what ended in the meantime has its record (provenance.py) and stays. A run that died on another machine may be alive for all
that we know. There Snakemake's own advice stands: `snakemake --unlock`, which says that it is dead.

The package filelock would save no line here, and where a file system has no flock it falls back to a file that outlives a
kill, which is just what must not happen.
"""

import fcntl
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tdjepa_workflow.announce import say, written

LOCKS = Path(".snakemake/locks")
ALIVE = Path(".snakemake/alive")
LONGEST = 600  # seconds in which SLURM ends a job that was cancelled

_held = None  # open for the life of the process


def hold(workflow) -> bool:
    """Before Snakemake takes its own lock: remove dead ones, and be seen to be alive. -> whether nobody else is here"""
    global _held
    dry = workflow.output_settings.dryrun
    if _held or (dry and not ALIVE.exists()):
        return True
    written(_make)
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
    host, executor, run = (*held.read().split(), "", "", "")[:3]
    locked = any(LOCKS.glob("*.lock"))
    if host == socket.gethostname() or not locked:
        with suppress(OSError, subprocess.CalledProcessError):  # SLURM does not answer: Snakemake's own lock decides
            if run:
                _cancel_jobs(run)
            if locked and (executor == "local" or run):
                say("An earlier run was killed; its lock is removed.")
                shutil.rmtree(LOCKS)
    _held = held
    return True


def _make() -> None:
    ALIVE.parent.mkdir(exist_ok=True)
    open(ALIVE, "a").close()


def describe(workflow) -> None:
    """At the start of the jobs: where they run, for the one who finds our lock."""
    executor = "local" if workflow.local_exec else "cluster"
    run = getattr(workflow.scheduler._executor, "run_uuid", "")  # the name that its jobs have in SLURM
    with open(ALIVE, "r+") as f:
        f.truncate()
        f.write(f"{socket.gethostname()} {executor} {run}")


def _cancel_jobs(run: str) -> None:
    """End what is left of the run in SLURM."""
    asked = ["squeue", "--me", "--noheader", "--format=%i", f"--name={run}"]
    cancelled, end = False, time.monotonic() + LONGEST
    while left := subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout.split():
        if not cancelled:
            say(f"An earlier run was killed; SLURM still has {len(left)} of its jobs, which are cancelled first.")
            subprocess.run(["scancel", *left], check=True)
            cancelled = True
        if time.monotonic() > end:  # a node that does not answer; what Snakemake's own lock is for
            say(
                f"They have not ended in {LONGEST} s: {', '.join(left)}. When squeue no longer shows them, run this again."
            )
            raise TimeoutError
        time.sleep(1)
