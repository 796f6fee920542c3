"""Which source files a verb depends on: its module and everything of the package that it imports, found by reading them.

They are inputs of the verb's rule, so an edited file reruns its consumers and no others (checksums: `touch` does nothing).
"""

import ast
import functools
import pathlib

ROOT = pathlib.Path("src")
PACKAGE = "tdjepa"


def sources(module: str) -> list[str]:
    """Paths of `module` and of all tdjepa modules it imports, directly or not; lazy imports inside functions count."""
    seen, todo = set(), [module]
    while todo:
        name = todo.pop()
        path = _file(name)
        if path is not None and path not in seen:
            seen.add(path)
            todo += _imports(path)
    data = {
        str(extra) for path in seen for extra in pathlib.Path(path).parent.glob("*.yaml") if _reads(path, extra.name)
    }
    return sorted(seen | data)


def _file(name: str) -> str | None:
    path = ROOT.joinpath(*name.split("."))
    if path.with_suffix(".py").is_file():
        return str(path.with_suffix(".py"))
    return None  # a package's own __init__.py is empty, an attribute is not a file


@functools.cache
def _imports(path: str) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(pathlib.Path(path).read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == PACKAGE]


def _reads(path: str, name: str) -> bool:
    return name in pathlib.Path(path).read_text()
