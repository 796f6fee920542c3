"""Where everything lies: the templates of the registry, filled in."""

from pathlib import PurePosixPath

from tdjepa.steps.registry import PATHS


def path(kind: str, scale: str, **names) -> PurePosixPath:
    """The file of that kind; `names` fill its template. "evidence/stats.json" is a file of a folder kind."""
    kind, _, name = kind.partition("/")
    return PurePosixPath(PATHS[kind].format(scale=scale, **{"name": name, **names}))


def card(file: str | PurePosixPath) -> str:
    """The card beside a big file."""
    return str(PurePosixPath(file).with_suffix(".card.json"))
