"""Which source files a verb depends on: its module and everything of the package that it imports, found by reading them.

They are inputs of the verb's rule, so an edited file reruns its consumers and no others (checksums: `touch` does nothing).
The command line and the parameter records are left out: they make slices, and what is in a slice is compared by itself.
"""

import ast
import functools
from pathlib import Path

ROOT = Path("src")
PACKAGE = "tdjepa"
IMPORTS_ENVS_BY_NAME = "tdjepa.envs.base"
DATA = {".yaml", ".html", ".css", ".js"}  # files beside a module that names them
NOT_COUNTED = {"tdjepa.cli", "tdjepa.params"}
VERBS = {  # verb -> the module that does its work
    "collect": "tdjepa.data.collect",
    "fetch": "tdjepa.data.released",
    "mine": "tdjepa.mining.mine",
    "train": "tdjepa.training",
    "evaluate": "tdjepa.evaluation",
    "diagnose": "tdjepa.diagnostics.run",
    "judge": "tdjepa.evidence.judge",
    "render": "tdjepa.render.collected",
    "page": "tdjepa.render.page.run",
    "paper": "tdjepa.render.pdf",
}


def sources(verb: str, *envs: str) -> list[str]:
    """Paths of the verb's module and of all tdjepa modules it imports, directly or not; lazy imports count too.

    An environment is imported by its name: where the verb can do that, the modules of `envs` are among them.
    """
    seen: set[Path] = set()
    todo = [VERBS[verb]]
    while todo:
        name = todo.pop()
        new = [path for path in _files(name) if path not in seen]
        seen.update(new)
        todo += [name for path in new for name in _imports(path)]
        todo += [f"tdjepa.envs.{env}" for env in envs if new and name == IMPORTS_ENVS_BY_NAME]
    data = {extra for path in seen for extra in path.parent.iterdir() if extra.suffix in DATA}
    return sorted(str(path) for path in seen | {extra for extra in data if _named(extra, seen)})


def _named(extra: Path, modules: set[Path]) -> bool:
    return any(extra.name in path.read_text() for path in modules if path.parent == extra.parent)


def texts() -> list[str]:
    """What the paper is typeset from, beside the results."""
    return sorted(str(path) for path in Path("paper").iterdir() if path.suffix in (".tex", ".bib"))


def _files(name: str) -> list[Path]:
    """The module of that name and the __init__.py of the packages around it that are not empty.

    Not the top-level one: it holds the version, and a release is no reason to train again.
    """
    if name in NOT_COUNTED:
        return []
    parts = name.split(".")
    inits = [ROOT.joinpath(*parts[:n], "__init__.py") for n in range(2, len(parts) + 1)]
    module = ROOT.joinpath(*parts).with_suffix(".py")
    return [path for path in (module, *inits) if path.is_file() and path.stat().st_size]


@functools.cache
def _imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == PACKAGE]
