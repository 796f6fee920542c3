"""A throw-away copy of the project with its own Git, DVC and Snakemake records, and the count of what really runs in it."""

import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import yaml

from children import LIMIT

ROOT = Path(__file__).resolve().parent.parent
MADE = (".git", ".venv", ".snakemake", "data", "results", "dvc.lock", ".pytest_cache", ".ruff_cache", ".hypothesis")
NOTHING = "Nothing to be done"
REPORT = {"judge", "claims", "tables", "figures", "numbers", "page", "paper"}
METHODS = ["tdjepa", "lewm", "tdjepa_no_hinge"]  # of the reduced smoke scale
TRAININGS = [f"two_room_{method}_{seed}" for method in METHODS for seed in (3072, 3073)]
TRAIN = {f"train_{training}" for training in TRAININGS}


class Clone:
    def __init__(self, path: Path):
        self.path = path
        self.settings: dict[str, str] = {}  # more environment variables

    @classmethod
    def of_project(cls, path: Path) -> "Clone":
        """The project as it stands, without what it has made."""
        ignored = {str(ROOT): MADE, str(ROOT / ".dvc"): ("cache", "tmp", "config.local")}
        cached = ("__pycache__",)
        shutil.copytree(ROOT, path, symlinks=True, ignore=lambda folder, names: (*ignored.get(folder, ()), *cached))
        return cls(path)

    def copy(self, path: Path) -> "Clone":
        """Everything with its time stamps, results and records included."""
        shutil.copytree(self.path, path, symlinks=True)
        return Clone(path)

    def reduce_smoke(self) -> None:
        """Choose the smoke scale and make it smaller; its trainings are long enough to be killed in."""
        self.change("scale", "smoke")
        self.change("scales.smoke.envs", ["two_room"])
        self.change("scales.smoke.methods_run", METHODS)
        self.change("scales.smoke.train_seeds", [3072, 3073])
        self.change("scales.smoke.recipes", {})
        self.change("scales.smoke.evaluate.sweeps.blend.envs", ["two_room"])
        self.change("scales.smoke.train.steps_per_epoch", 40)
        # CLS tokens of so small a model lie along one axis for a while, which would pass for a collapse
        self.change("scales.smoke.model.encoder.readout", "tokens")

    def reduce_rehearsal(self, envs: list[str], methods: list[str]) -> None:
        """Some environments and methods of that scale, and a port of its own for its mirror."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.change("scales.rehearsal.fetch.mirrors", [f"http://127.0.0.1:{free.getsockname()[1]}"])
        self.change("scales.rehearsal.envs", envs)
        self.change("scales.rehearsal.methods_run", methods)
        for offset in (50, 75, 100):  # a quarter of the jobs, which `make rehearsal` has
            self.change(f"scales.rehearsal.evaluate.sweeps.far_{offset}.envs", [])

    def rehearse(self, *snakemake: str) -> str:
        """What a run of Snakemake says beside the mirror with the scale's released files."""
        overlay = ("--configfile", "build/mirror/params.yaml", "--config", "scale=rehearsal")
        command = ("python", "-m", "tdjepa", "mirror", "--scale", "rehearsal", "--run", *snakemake, *overlay)
        return self.run(*command)

    def run(self, *command: str, status: int = 0) -> str:
        """What the command says; it must end with that status."""
        said = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=self.path, env=self.environment(), timeout=LIMIT, **said)
        assert done.returncode == status, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def running(self, *command: str, until, said=None):
        """The command at work: `until()` is true, or it has ended. After the block it ends by itself, or the test fails."""
        out = {"stdout": said, "stderr": said}
        with subprocess.Popen(command, cwd=self.path, env=self.environment(), start_new_session=True, **out) as run:
            try:
                end = time.monotonic() + LIMIT
                while run.poll() is None and not until():
                    assert time.monotonic() < end, f"{' '.join(command)}: not at work after {LIMIT} s"
                    time.sleep(0.005)
                yield run
                run.wait(LIMIT)
            finally:
                if run.poll() is None:
                    os.killpg(run.pid, signal.SIGKILL)

    def environment(self) -> dict[str, str]:
        """The tools beside this Python; nothing of the user's own settings."""
        settings = ("SNAKEMAKE", "DVC", "GIT", "AWS", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
        return kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DVC_GLOBAL_CONFIG_DIR": str(self.path.parent),
            "DVC_SITE_CACHE_DIR": str(self.path.parent / "dvc"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            **{f"GIT_{who}_{what}": "test@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            "PYTHONPATH": f"{self.path / 'src'}{os.pathsep}{self.path / 'workflow'}",
            **self.settings,
        }

    def snakemake(self, *arguments: str, status: int = 0) -> str:
        return self.run("snakemake", "--cores", "2", *arguments, status=status)

    def dvc(self, *arguments: str, status: int = 0) -> str:
        return self.run("dvc", *arguments, status=status)

    def commit(self, message: str) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message", message)

    def change(self, key: str, value) -> None:
        """Change one parameter: change("train.lr", 1.0)."""
        file = self.path / "params.yaml"
        content = yaml.safe_load(file.read_text())
        *sections, name = key.split(".")
        functools.reduce(dict.__getitem__, sections, content)[name] = value
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    def planned(self, *targets: str) -> set[str]:
        """The jobs that Snakemake would run, named like their logs."""
        said = self.snakemake("--dry-run", *targets)
        jobs = set(re.findall(r"^Job \d+: ([\w ]+)$", said, re.MULTILINE))
        assert bool(jobs) != (NOTHING in said), said
        return {job.replace(" ", "_") for job in jobs}

    @contextmanager
    def executed(self):
        """A set that holds, after the block, the jobs that were really run in it: each rewrites its log."""
        jobs: set[str] = set()
        before = self._logs()
        yield jobs
        jobs.update(name for name, state in self._logs().items() if before.get(name) != state)

    def _logs(self) -> dict[str, tuple[int, int]]:
        logs = self.path.glob("results/*/logs/*.log")
        return {log.stem: (log.stat().st_mtime_ns, log.stat().st_ino) for log in logs}

    def artefacts(self, *below: str) -> dict[str, bytes]:
        """The content of all results, by name; logs, run times and what is unfinished are no results."""
        found = [path for folder in below or ("data", "results") for path in (self.path / folder).rglob("*")]
        files = (path for path in found if path.is_file() and not {"logs", "benchmarks"} & set(path.parts))
        named = {str(path.relative_to(self.path)): path for path in files}
        return {name: path.read_bytes() for name, path in named.items() if "/." not in name}
