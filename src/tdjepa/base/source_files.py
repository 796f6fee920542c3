"""The source files behind a module: itself and everything of this package that it imports, found by reading the files.

The workflow makes them inputs of the rules; `code_version` puts their hash into rows and cards, so that a number names the
code that made it without needing Git. Left out is what only makes slices and paths: those are compared by themselves. So a
module that is left out may hold nothing else that decides a number; a test reads them for that.
"""

import ast
import functools
import hashlib
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent.parent
PACKAGE = "tdjepa"
IMPORTS_ENVS_BY_NAME = "tdjepa.envs.base"
DATA = {".yaml", ".html", ".css", ".js"}  # files beside a module that names them
# of the package config, these decide numbers
COUNTED = {"tdjepa.config.names", "tdjepa.config.costs", "tdjepa.config.runs"}
NOT_COUNTED = ("tdjepa.cli", "tdjepa.config", "tdjepa.steps.registry", "tdjepa.steps.paths")


def closure(module: str, envs: tuple[str, ...] = (), root: Path = HERE) -> list[Path]:
    """Files of the module and of all it imports, directly or not, under `root`; lazy imports count too.

    An environment is imported by its name: where the module can do that, the modules of `envs` are among them.
    """
    seen: set[Path] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        new = [path for path in _files(name, root) if path not in seen]
        seen.update(new)
        todo += [name for path in new for name in _imports(path)]
        todo += [f"tdjepa.envs.{env}" for env in envs if new and name == IMPORTS_ENVS_BY_NAME]
    beside = {extra for path in seen for extra in path.parent.iterdir() if extra.suffix in DATA}
    named = {e for e in beside if any(e.name in path.read_text() for path in seen if path.parent == e.parent)}
    return sorted(seen | named)


@functools.cache
def code_version(module: str, *envs: str) -> str:
    """sha256 over names and contents of the module's source files."""
    digest = hashlib.sha256()
    for path in closure(module, envs):
        digest.update(f"{path.relative_to(HERE).as_posix()}\n{path.read_text()}\n".encode())
    return digest.hexdigest()


def _files(name: str, root: Path) -> list[Path]:
    """The module of that name and the __init__.py of the packages around it that are not empty.

    Not the top-level one: it holds the version, and a release is no reason to train again.
    """
    if name not in COUNTED and any(name == skipped or name.startswith(f"{skipped}.") for skipped in NOT_COUNTED):
        return []
    parts = name.split(".")
    inits = [root.joinpath(*parts[:n], "__init__.py") for n in range(2, len(parts) + 1)]
    module = root.joinpath(*parts).with_suffix(".py")
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
