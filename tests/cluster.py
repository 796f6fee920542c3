"""A SLURM of one node from the distribution's packages, in a folder and on ports of its own; nothing is left when it ends.

By hand, to try a profile:  python tests/cluster.py snakemake --profile workflow/profiles/ci --config scale=smoke
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun", "munged", "mungekey")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])  # where Debian keeps the daemons
USER = pwd.getpwuid(os.geteuid()).pw_name  # not what LOGNAME says
CPUS = max(2, os.cpu_count() or 1)
# No accounting and no cgroups, which want a database and systemd. Finished jobs stay in the queue for `squeue` to report.
# config_overrides: the sizes of the node are what is written here, whatever the machine has.
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,bf_interval=2,defer
ReturnToService=2
MinJobAge=86400
KillWait=10
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=32000
PartitionName=cpu Nodes=node Default=YES
PartitionName=gpu Nodes=node
"""


def missing() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


class Cluster:
    """Use it as a context manager; `environment` is what commands need to find it."""

    def __init__(self):
        # short and without spaces, which SLURM's files cannot hold; sockets have a hundred characters
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.environment = {
            "PATH": os.pathsep.join([str(self.folder), str(Path(sys.executable).parent), PATH]),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        self._daemons: list[subprocess.Popen] = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if len(self._daemons) == 3 and not self._dead():
                self.run("scancel", "--user", USER, check=False)
                self.wait(lambda: not self.run("squeue", "--noheader", check=False), "the jobs to end", 120)
        finally:
            for daemon in reversed(self._daemons):
                daemon.terminate()
                try:
                    daemon.wait(30)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            self._daemons.clear()
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command: str, check: bool = True) -> str:
        said = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, env=os.environ | self.environment, timeout=120, **said)
        assert not check or done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}"
        return done.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """State of every job so far, by its number."""
        lines = self.run("squeue", "--noheader", "--states=all", "--format=%i %T").splitlines()
        return dict(line.split() for line in lines)

    def wait(self, condition, what: str, seconds: float = 900, pause: float = 0.1):
        """The condition's value as soon as it is true. The limit is for what will never come true, not for slow machines."""
        end = time.monotonic() + seconds
        while not (value := condition()):
            assert not self._dead(), f"while waiting for {what}: {self._dead()}"
            assert time.monotonic() < end, f"waited {seconds} s for {what}"
            time.sleep(pause)
        return value

    def _dead(self) -> str:
        """The last words of the daemons that have ended."""
        names = [Path(daemon.args[0]).name for daemon in self._daemons if daemon.poll() is not None]
        return "\n".join(f"{name} has ended:\n{(self.folder / f'{name}.log').read_text()[-2000:]}" for name in names)

    def _start(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        ports = _free_ports(2)
        about = {"host": socket.gethostname(), "user": USER, "ports": ports, "cpus": CPUS}
        (self.folder / "slurm.conf").write_text(CONFIG.format(folder=self.folder, **about))
        srun = self.folder / "srun"  # Snakemake's jobs call it without the SLURM_ variables, and so without SLURM_CONF
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {shutil.which("srun", path=PATH)} "$@"\n')
        srun.chmod(0o755)
        key = self.folder / "munge.key"
        self.run("mungekey", "--create", f"--keyfile={key}")
        files = ("socket", "pid", "log", "seed")
        own = [f"--{name}{'' if name == 'socket' else '-file'}={self.folder}/munge.{name}" for name in files]
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", *own)
        self.wait((self.folder / "munge.socket").exists, "munged", 120)
        self._daemon("slurmctld", "-D", "-c")
        self._daemon("slurmd", "-D", "-c", "-N", "node")
        self.wait(lambda: "idle" in self.run("sinfo", "--noheader", "--format=%T", check=False), "an idle node", 120)

    def _daemon(self, name: str, *arguments: str) -> None:
        self._daemons.append(
            subprocess.Popen(
                [shutil.which(name, path=PATH), *arguments],
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=(self.folder / f"{name}.log").open("w"),
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for the tests, which then stop the daemons in order
            )
        )


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    if missing():
        sys.exit(f"not found: {', '.join(missing())}; workflow/system_packages.sh slurm installs them on Debian")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Cluster() as cluster:
        sys.exit(subprocess.call(sys.argv[1:], env=os.environ | cluster.environment))
