"""Which source files a verb depends on (tdjepa/closure.py finds them): inputs of the verb's rule.

So an edited file reruns its consumers and no others (checksums: `touch` does nothing).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
from tdjepa.closure import closure  # noqa: E402

VERBS = {  # verb -> the module that does its work
    "collect": "tdjepa.data.collect",
    "fetch": "tdjepa.data.released",
    "mine": "tdjepa.mining.mine",
    "train": "tdjepa.training",
    "evaluate": "tdjepa.evaluation",
    "picture": "tdjepa.pictures",
    "diagnose": "tdjepa.diagnostics.run",
    "probe": "tdjepa.diagnostics.probe",
    "ceiling": "tdjepa.diagnostics.ceiling",
    "judge": "tdjepa.evidence.judge",
    "claims": "tdjepa.evidence.claims",
    "render": "tdjepa.render.collected",  # gathers the inputs; what is made of them is imported by name:
    "tables": "tdjepa.render.tables",
    "figures": "tdjepa.render.figures",
    "numbers": "tdjepa.render.numbers",
    "page": "tdjepa.render.page.run",
    "paper": "tdjepa.render.pdf",
}


def sources(verb: str, *envs: str) -> list[str]:
    """Paths of the verb's module and of all tdjepa modules it imports, as the rules of this folder name them."""
    return [str(path) for path in closure(VERBS[verb], envs, Path("src"))]


LEDGER = "paper/claims.yaml"


def texts() -> list[str]:
    """What the paper is typeset from, beside the results."""
    return sorted(str(path) for path in Path("paper").iterdir() if path.suffix in (".tex", ".bib"))
