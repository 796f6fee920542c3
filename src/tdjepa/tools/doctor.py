"""`tdjepa doctor`: what this machine has, what that is needed for, and what to install where something is missing.

Nothing heavy is imported: versions are read from the packages' metadata, libraries are only opened.
"""

import ctypes
import importlib.metadata as metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tdjepa.config.params import Params

OK, MISSING, PROBLEM = "ok", "missing", "PROBLEM"  # missing: one thing cannot be done here; the rest can
TEX_FILES = ("acmart.cls", "xstring.sty", "algpseudocode.sty", "pgfplots.sty")
TEX_PACKAGES = "texlive-publishers texlive-latex-extra texlive-science latexmk"
GL_PACKAGES = "libegl1 libgl1-mesa-dri libgles2"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
JOB_MEMORY = 6_000_000_000  # what a training asks for (workflow/rules/train.smk)
APT = "sudo apt-get install --no-install-recommends "

Which = Callable[[str], str | None]


@dataclass(frozen=True)
class Finding:
    state: str
    found: str
    advice: str = ""


def run(params: Params, lock: Path = Path("requirements.lock")) -> int:
    """Print every finding; 1 if any is a problem."""
    findings = examine(params, lock)
    width = max(map(len, findings))
    for name, finding in findings.items():
        print(f"{finding.state:<8} {name:<{width}}  {finding.found}")
        if finding.advice:
            print(f"{'':<9}{'':<{width}}  -> {finding.advice}")
    return int(any(finding.state == PROBLEM for finding in findings.values()))


def examine(params: Params, lock: Path) -> dict[str, Finding]:
    return {
        "python": python(sys.version_info[:3]),
        "packages": packages(lock, _version),
        "torchvision": torch_pair(_version("torch"), _version("torchvision"), _requires("torchvision")),
        "programs": programs(shutil.which),
        "OpenGL": opengl(_opens, sys.platform),
        "LaTeX": latex(shutil.which, _kpsewhich),
        "browser": browser(shutil.which),
        "GPU": gpu(shutil.which),
        "SLURM": slurm(shutil.which),
        "disk": disk(shutil.disk_usage(".").free, bytes_needed(params), params.scale),
        "memory": memory(_memory()),
        "cores": cores(_cores(), os.environ.get("OMP_NUM_THREADS")),
    }


def judged(good: object, text: str, advice: str, state: str = MISSING) -> Finding:
    """The text alone if all is well, else in this state and with the advice."""
    return Finding(OK, text) if good else Finding(state, text, advice)


def all_of(names: tuple[str, ...], which: Which, advice: str, state: str = MISSING) -> Finding:
    """Programs that must all be on PATH."""
    absent = [name for name in names if which(name) is None]
    return judged(not absent, f"not on PATH: {', '.join(absent)}" if absent else ", ".join(names), advice, state)


# Python and its packages ----------------------------------------------------------------------------------------------


def python(version: tuple[int, int, int]) -> Finding:
    text = ".".join(map(str, version)) + f" on {platform.system()} {platform.machine()}"
    advice = "the pins are for Python 3.11: make setup PYTHON=/path/to/python3.11"
    return judged(version[:2] == (3, 11), text, advice, PROBLEM)


def packages(lock: Path, version: Callable[[str], str | None]) -> Finding:
    """The pins of requirements.lock; a build suffix such as +cpu does not count."""
    if not lock.exists():
        return Finding(MISSING, f"no {lock} here, so pins were not checked", "run this in the project's folder")
    pins = dict(line.split("==") for line in lock.read_text().split() if re.fullmatch(r"[\w.-]+==[\w.+!]+", line))
    wrong = []
    for name, pinned in pins.items():
        found = version(name)
        if found is None or found.split("+")[0] != pinned.split("+")[0]:
            wrong.append(f"{name} {found or 'absent'} (pinned {pinned})")
    if not wrong:
        return Finding(OK, f"{len(pins)} pinned, all at their versions")
    shown = ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
    return Finding(PROBLEM, f"{len(wrong)} of {len(pins)} differ: {shown}", f"make setup, or pip install -r {lock}")


def torch_pair(torch: str | None, torchvision: str | None, required: list[str]) -> Finding:
    """torchvision is compiled against one release of torch, which its metadata names."""
    if torch is None or torchvision is None:
        absent = "torch" if torch is None else "torchvision"
        return Finding(PROBLEM, f"{absent} is not installed", "make setup, or pip install -r requirements.lock")
    text = f"torchvision {torchvision} beside torch {torch}"
    wanted = next((m[1] for r in required if (m := re.match(r"torch\s*\(?==\s*([\w.]+)", r))), None)
    if wanted and torch.split("+")[0] != wanted:
        return Finding(PROBLEM, text, f"this torchvision is built for torch {wanted}; install the pair of the lock")
    builds = {release.partition("+")[2] for release in (torch, torchvision)}
    note = ", builds differ: its compiled operators are left out, none is used" if len(builds) > 1 else ""
    return Finding(OK, text + note)


def programs(which: Which) -> Finding:
    advice = "make setup brings snakemake and dvc, the system's packages bring git and make; activate .venv"
    return all_of(("git", "make", "snakemake", "dvc"), which, advice, PROBLEM)


# What only some steps need --------------------------------------------------------------------------------------------


def opengl(opens: Callable[[str], bool], system: str) -> Finding:
    if system != "linux":
        return Finding(OK, "the system's own")
    found = next((name for name in ("libEGL.so.1", "libOSMesa.so.8", "libOSMesa.so.6") if opens(name)), None)
    advice = f"to draw Reacher and OGB-Cube without a display: {APT}{GL_PACKAGES}"
    return judged(found, f"{found} opens" if found else "neither EGL nor OSMesa", advice)


def latex(which: Which, kpsewhich: Callable[[tuple[str, ...]], list[str]]) -> Finding:
    absent = [name for name in ("latexmk", "pdflatex", "bibtex", "kpsewhich") if which(name) is None]
    if not absent:
        found = kpsewhich(TEX_FILES)
        absent = [name for name in TEX_FILES if name not in found]
    text = f"not found: {', '.join(absent)}" if absent else "latexmk, acmart and what it draws on"
    return judged(not absent, text, f"for the PDF: {APT}{TEX_PACKAGES}")


def browser(which: Which) -> Finding:
    found = next((name for name in BROWSERS if which(name)), None)
    return judged(found, found or "no Chromium", f"for the tests of the web page only: {APT}chromium")


def gpu(which: Which) -> Finding:
    if which("nvidia-smi"):
        return Finding(OK, "nvidia-smi is here; train.device: auto takes it")
    return Finding(MISSING, "none seen: training runs on the CPU", "the scales smoke and desk need none, paper does")


def slurm(which: Which) -> Finding:
    return all_of(("sbatch", "squeue", "sacct"), which, "only for a cluster: log in to one of its nodes")


# The machine ----------------------------------------------------------------------------------------------------------


def bytes_needed(params: Params) -> int:
    """The frames of all data sets of the scale, uncompressed: everything else is small beside them."""
    sections = [getattr(params.collect, env) for env in params.envs]
    return sum(3 * data.image_size**2 * data.episodes * (data.max_steps + 1) for data in sections)


def disk(free: int, needed: int, scale: str) -> Finding:
    text = f"{free / 1e9:.1f} GB free; the data of scale {scale} takes at most {needed / 1e9:.1f} GB"
    return judged(free > 1.2 * needed + 1e9, text, "free some space, or choose a smaller scale: --scale smoke", PROBLEM)


def memory(total: int | None) -> Finding:
    if total is None:
        return Finding(MISSING, "unknown")
    text = f"{total / 1e9:.1f} GB; a training asks for at most {JOB_MEMORY / 1e9:.0f}"
    return judged(total >= JOB_MEMORY, text, "make reproduce CORES=1 SCALE=smoke", PROBLEM)


def cores(count: int, threads: str | None) -> Finding:
    text = f"{count} usable; OMP_NUM_THREADS {threads or 'unset, so 1'}"
    advice = "results are promised byte-equal only at equal thread counts; the Makefile sets 1"
    return judged(threads in (None, "1"), text, advice)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requires(name: str) -> list[str]:
    return metadata.requires(name) or [] if _version(name) else []


def _opens(library: str) -> bool:
    try:
        return bool(ctypes.CDLL(library))
    except OSError:
        return False


def _kpsewhich(files: tuple[str, ...]) -> list[str]:
    done = subprocess.run(["kpsewhich", *files], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return [Path(line).name for line in done.stdout.splitlines()]


def _memory() -> int | None:
    """Physical memory, or the container's limit where that is lower."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return min(total, int(text)) if text.isdigit() else total


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
