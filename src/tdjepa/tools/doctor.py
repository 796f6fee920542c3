"""`tdjepa doctor`: what this machine has, what that is needed for, and what to install where something is missing.

Nothing heavy is imported: versions are read from the packages' metadata, libraries are only opened. Advice is in doctor.yaml.
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
from tdjepa.config.records.released import released
from tdjepa.config.yaml_file import read_yaml

OK, MISSING, PROBLEM = "ok", "missing", "PROBLEM"  # missing: one thing cannot be done here; the rest can
CHECKS = read_yaml(Path(__file__).with_name("doctor.yaml"))
PACKED = 56 / 350  # what LZ4 leaves of the frames at most (docs/environments.md)
JOB_MEMORY = 6_000_000_000  # what a training asks for (workflow/rules/train.smk)

Which = Callable[[str], str | None]


@dataclass(frozen=True)
class Finding:
    state: str
    found: str
    advice: str = ""


def run(p: Params, lock: Path = Path("requirements.lock")) -> int:
    """Print every finding; 1 if any is a problem."""
    findings = examine(p, lock)
    width = max(map(len, findings))
    for name, finding in findings.items():
        print(f"{finding.state:<8} {name:<{width}}  {finding.found}")
        if finding.advice:
            print(f"{'':<9}{'':<{width}}  -> {finding.advice}")
    return int(any(finding.state == PROBLEM for finding in findings.values()))


def examine(params: Params, lock: Path) -> dict[str, Finding]:
    which = shutil.which
    return {
        "python": python(sys.version_info[:3]),
        "packages": packages(lock, _version),
        "torchvision": torch_pair(_version("torch"), _version("torchvision"), _requires("torchvision")),
        "programs": on_path("programs", which),
        "OpenGL": opengl(_opens, sys.platform),
        "LaTeX": latex(which, _kpsewhich),
        **{name: on_path(name, which) for name in ("browser", "SLURM")},
        **gpus(_gpus(which), params.runtime.gpu > 0),
        **({"time": time(params, max(1, len(_gpus(which))))} if params.runtime.gpu else {}),
        "disk": disk(shutil.disk_usage(".").free, bytes_needed(params), params),
        "memory": memory(_memory()),
        "cores": cores(_cores(), os.environ.get("OMP_NUM_THREADS")),
    }


def judged(name: str, good: object, text: str, **values) -> Finding:
    """The text alone if all is well, else with the state and the advice of this check."""
    check = CHECKS[name]
    state = PROBLEM if check.get("problem") else MISSING
    return Finding(OK, text) if good else Finding(state, text, check["advice"].format(**values))


def on_path(name: str, which: Which) -> Finding:
    check = CHECKS[name]
    found = [program for program in check["programs"] if which(program)]
    if "none" in check:
        return judged(name, found, check.get("found", "{}").format(found[0]) if found else check["none"])
    absent = [program for program in check["programs"] if program not in found]
    return judged(name, not absent, f"not on PATH: {', '.join(absent)}" if absent else ", ".join(found))


def python(version: tuple[int, int, int]) -> Finding:
    text = ".".join(map(str, version)) + f" on {platform.system()} {platform.machine()}"
    return judged("python", version[:2] == (3, 11), text)


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
    return judged("packages", False, f"{len(wrong)} of {len(pins)} differ: {shown}", lock=lock)


def torch_pair(torch: str | None, torchvision: str | None, required: list[str]) -> Finding:
    """torchvision is compiled against one release of torch, which its metadata names."""
    if torch is None or torchvision is None:
        absent = "torch" if torch is None else "torchvision"
        return judged("packages", False, f"{absent} is not installed", lock="requirements.lock")
    text = f"torchvision {torchvision} beside torch {torch}"
    wanted = next((m[1] for r in required if (m := re.match(r"torch\s*\(?==\s*([\w.]+)", r))), None)
    if wanted and torch.split("+")[0] != wanted:
        return Finding(PROBLEM, text, f"this torchvision is built for torch {wanted}; install the pair of the lock")
    builds = {release.partition("+")[2] for release in (torch, torchvision)}
    note = ", builds differ: its compiled operators are left out, none is used" if len(builds) > 1 else ""
    return Finding(OK, text + note)


def opengl(opens: Callable[[str], bool], system: str) -> Finding:
    if system != "linux":
        return Finding(OK, "the system's own")
    found = next(filter(opens, CHECKS["OpenGL"]["libraries"]), None)
    return judged("OpenGL", found, f"{found} opens" if found else "neither EGL nor OSMesa")


def latex(which: Which, kpsewhich: Callable[[list[str]], list[str]]) -> Finding:
    check = CHECKS["LaTeX"]
    absent = [name for name in check["programs"] if which(name) is None]
    if not absent:
        found = kpsewhich(check["files"])
        absent = [name for name in check["files"] if name not in found]
    text = f"not found: {', '.join(absent)}" if absent else "latexmk, acmart and what it draws on"
    return judged("LaTeX", not absent, text)


def gpus(found: list[tuple[str, float]], needed: bool) -> dict[str, Finding]:
    """`found`: name and compute capability of each. bf16 comes with 8.0; without it a training runs in fp32."""
    if not found:
        missing = judged("GPU needed" if needed else "GPU", False, CHECKS["GPU"]["none"])
        return {"GPU": missing, **({"bf16": judged("bf16", False, "no GPU, so none")} if needed else {})}
    names = ", ".join(name for name, _ in found)
    bf16 = all(capability >= 8 for _, capability in found)
    text = f"compute capability {min(capability for _, capability in found):g}"
    return {"GPU": Finding(OK, f"{names}; train.device: auto takes it"), "bf16": judged("bf16", bf16, text)}


def time(params: Params, there: int) -> Finding:
    """At the rates that `tdjepa cost` assumes."""
    from tdjepa.tools import cost

    hours = cost.gpu_hours(params)
    days = hours / 24 / there
    text = f"{hours:.0f} GPU-hours assumed (`tdjepa cost`), {days:.1f} days on {there} GPU{'s' if there > 1 else ''}"
    return judged("time", days <= CHECKS["time"]["days"], text)


def bytes_needed(params: Params) -> int:
    """The frames of the data sets, everything else being small beside them; and the archive that is unpacked meanwhile."""
    from tdjepa.tools.cost import ROWS

    share, total, archive = (PACKED if params.collect.storage == "packed" else 1.0), 0, 0
    for env in params.part.envs or params.envs:
        data, is_released = getattr(params.collect, env), params.collect.source[env] == "released"
        rows = ROWS[env] if is_released else data.episodes * (data.max_steps + 1)
        total += int(share * 3 * data.image_size**2 * rows)
        archive = max(archive, released(env).bytes or 0) if is_released else archive
    return total + archive


def disk(free: int, needed: int, params: Params) -> Finding:
    sets = len(params.part.envs or params.envs)
    kind = f"{sets} {params.collect.storage} data set{'s' if sets > 1 else ''} of scale {params.scale}"
    text = f"{free / 1e9:.1f} GB free; {kind} take at most {needed / 1e9:.1f} GB while they are made"
    return judged("disk", free > 1.2 * needed + 1e9, text)


def memory(total: int | None) -> Finding:
    if total is None:
        return Finding(MISSING, "unknown")
    text = f"{total / 1e9:.1f} GB; a training asks for at most {JOB_MEMORY / 1e9:.0f}"
    return judged("memory", total >= JOB_MEMORY, text)


def cores(count: int, threads: str | None) -> Finding:
    return judged("cores", threads in (None, "1"), f"{count} usable; OMP_NUM_THREADS {threads or 'unset, so 1'}")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _requires(name: str) -> list[str]:
    return metadata.requires(name) or [] if _version(name) else []


def _gpus(which: Which) -> list[tuple[str, float]]:
    if which("nvidia-smi") is None:
        return []
    asked = ["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    said = subprocess.run(asked, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    lines = [line.rsplit(",", 1) for line in said.splitlines() if re.search(r", *\d+\.\d+$", line)]
    return [(name.strip(), float(capability)) for name, capability in lines]


def _opens(library: str) -> bool:
    try:
        return bool(ctypes.CDLL(library))
    except OSError:
        return False


def _kpsewhich(files: list[str]) -> list[str]:
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
