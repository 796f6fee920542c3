"""What makes a job run again: the source files behind its step, which are inputs of its rule, and its slice.

So an edited file reruns its consumers and no others (checksums: `touch` does nothing).
"""

import inspect
from functools import cache
from pathlib import Path

from tdjepa.base.source_files import closure
from tdjepa.config import slices
from tdjepa.steps.registry import STEPS

LEDGER = "paper/claims.yaml"
GATHERS = "tdjepa.report.gather"  # reads the inputs of every part of the report, which is imported by name


@cache  # hundreds of jobs share a few lists
def sources(step: str, *envs: str) -> list[str]:
    """Paths of the step's module and of all tdjepa modules it imports, as the rules of this folder name them."""
    modules = [STEPS[step].module, *([GATHERS] if STEPS[step].phase == "render" else [])]
    return sorted({str(path) for module in modules for path in closure(module, envs, Path("src"))})


def slice_of(p, step: str, wildcards) -> str:
    """The slice of one job, cut with the wildcards that the step's slice function asks for."""
    cut = getattr(slices, f"{STEPS[step].slice or step}_slice")
    known = {"p": p, "env": None, "method": "floors", "seed": 0, "sweep": "", "part": 1} | dict(wildcards.items())
    known |= {name: int(known[name]) for name in ("seed", "part")}
    return slices.slice_json(cut(**{name: known[name] for name in inspect.signature(cut).parameters}))


def texts() -> list[str]:
    """What the paper is typeset from, beside the results."""
    return sorted(str(path) for path in Path("paper").iterdir() if path.suffix in (".tex", ".bib"))
