"""Which source files a verb depends on (tdjepa/base/source_files.py finds them): inputs of the verb's rule.

So an edited file reruns its consumers and no others (checksums: `touch` does nothing).
"""

from functools import cache
from pathlib import Path

from tdjepa.base.source_files import closure

VERBS = {  # verb -> the module that does its work
    "collect": "tdjepa.steps.collect",
    "fetch": "tdjepa.steps.fetch",
    "mine": "tdjepa.steps.mine",
    "train": "tdjepa.steps.train",
    "evaluate": "tdjepa.steps.evaluate",
    "picture": "tdjepa.steps.pictures",
    "diagnose": "tdjepa.steps.diagnose",
    "probe": "tdjepa.steps.probe",
    "ceiling": "tdjepa.steps.ceiling",
    "judge": "tdjepa.evidence.judge",
    "claims": "tdjepa.evidence.claims",
    "render": "tdjepa.report.gather",  # gathers the inputs; what is made of them is imported by name:
    "tables": "tdjepa.report.tables",
    "figures": "tdjepa.report.figures",
    "numbers": "tdjepa.report.numbers",
    "page": "tdjepa.report.page.build",
    "paper": "tdjepa.report.pdf",
}


@cache  # hundreds of jobs share a few lists
def sources(verb: str, *envs: str) -> tuple[str, ...]:
    """Paths of the verb's module and of all tdjepa modules it imports, as the rules of this folder name them."""
    return tuple(str(path) for path in closure(VERBS[verb], envs, Path("src")))


LEDGER = "paper/claims.yaml"


def texts() -> list[str]:
    """What the paper is typeset from, beside the results."""
    return sorted(str(path) for path in Path("paper").iterdir() if path.suffix in (".tex", ".bib"))
