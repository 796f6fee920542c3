"""Train, validation and test by EPISODE, so that no start, goal or frame that is evaluated was ever trained on.

The exception is a method that asks for it (`trains_on: all`), to measure what the leak of the published protocol is worth.
"""

from itertools import combinations
from pathlib import Path

import numpy as np

from tdjepa.base.artefacts import read_json
from tdjepa.base.errors import UserError, shown
from tdjepa.base.streams import stream

PARTS = ("train", "validation", "test")


def split(episodes: int, shares: dict[str, float], seed: int) -> dict[str, list[int]]:
    """Episode numbers of each part, sorted; every episode is in exactly one part, and no part is empty."""
    order = stream(seed, "split").permutation(episodes)
    first = round(shares["train"] * episodes)
    second = first + round(shares["validation"] * episodes)
    parts = {n: sorted(part.tolist()) for n, part in zip(PARTS, np.split(order, [first, second]), strict=True)}
    check(parts, episodes, "split")
    return parts


def read(path: str | Path, episodes: int) -> dict[str, list[int]]:
    """The split from its file, checked again, because a file may have been edited."""
    parts = read_json(path)
    if not isinstance(parts, dict) or set(parts) != set(PARTS):
        found = f"has parts {shown(', '.join(parts))}" if isinstance(parts, dict) else f"is a {type(parts).__name__}"
        raise UserError(f"{path}: {found}, expected {', '.join(PARTS)}")
    if odd := [name for name, part in parts.items() if not isinstance(part, list)]:
        raise UserError(f"{path}: the {odd[0]} part is {shown(parts[odd[0]])}, expected a list of episodes")
    check(parts, episodes, str(path))
    return parts


def trained_on(parts: dict[str, list[int]], which: str) -> list[int]:
    """The episodes that a training may see: one part, or `all` if it leaks on purpose."""
    return sorted(e for part in parts.values() for e in part) if which == "all" else parts[which]


def check(parts: dict[str, list[int]], episodes: int, source: str) -> None:
    """No episode in two parts, none outside the data, no empty part."""
    for name, part in parts.items():
        if not len(part):
            raise UserError(f"{source}: the {name} part is empty; collect more episodes or change mine.split")
        if outside := [e for e in part if type(e) is not int or not 0 <= e < episodes]:
            found = f"{source}: episode {shown(outside[0])} of the {name} part"
            raise UserError(f"{found} is not among the {episodes} episodes")
    for a, b in combinations(PARTS, 2):
        if both := set(parts[a]) & set(parts[b]):
            found = f"{source}: episode {min(both)} is in both {a} and {b} ({len(both)} are): the split leaks"
            raise UserError(f"{found}; delete the file and run `tdjepa mine` again")
