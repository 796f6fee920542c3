"""Results that no job makes any more, because a method or an environment was taken out of params.yaml.

They lie in folders that DVC holds as a whole, so they would travel with every push. They are not deleted, because they may
have taken hours: they are set aside in results/<scale>/set_aside and data/<scale>/set_aside, and come back with their method.

Only files of this scale that the provenance files know, with the content that they know, are moved; what a person put there
stays.
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

from tdjepa_workflow import provenance
from tdjepa_workflow.provenance import Phases

ROOTS = ("results", "data")


def set_aside(phases: Phases, scale: str) -> list[str]:
    """Move what is left over. -> the files that were moved"""
    moved = list(_left_over(phases, scale))
    for path in moved:
        _move(Path(path), _aside(path), scale)
    return moved


def bring_back(phases: Phases, scale: str) -> None:
    """Outputs that were set aside and are wanted again. Whether they are up to date, Snakemake's records decide."""
    for output in chain(*phases.values()):
        if not os.path.lexists(output) and _of(output, scale) and _aside(output).exists():
            _move(_aside(output), Path(output), scale)


def _left_over(phases: Phases, scale: str) -> Iterator[str]:
    wanted = set(chain(*phases.values()))
    for phase in phases:
        for path, (content, _) in provenance.statements(scale, phase).items():
            if path not in wanted and _of(path, scale) and os.path.isfile(path) and provenance.content(path) == content:
                yield path


def _of(path: str, scale: str) -> bool:
    """It lies in a folder of the scale; provenance files come from elsewhere and may name anything."""
    parts = PurePosixPath(path).parts
    return len(parts) > 2 and parts[0] in ROOTS and parts[1] == scale and ".." not in parts


def _aside(path: str) -> Path:
    root, scale, *rest = PurePosixPath(path).parts
    return Path(root, scale, "set_aside", *rest)


def _move(path: Path, to: Path, scale: str) -> None:
    """Within one folder, so on one disk; time stamps stay, and with them the records of Snakemake."""
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, to)
    for folder in path.parents:
        if folder.name == scale or any(folder.iterdir()):
            break
        folder.rmdir()
