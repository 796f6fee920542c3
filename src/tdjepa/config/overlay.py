"""Overlays: mappings that say only what differs from what they are laid over."""

from collections.abc import Mapping

from tdjepa.base.errors import UserError
from tdjepa.config.parse import meant, short


def merge(base: Mapping, overlay: Mapping) -> dict:
    """`overlay` over `base`: mappings merge key by key, everything else is replaced."""
    out = dict(base)
    for key, value in overlay.items():
        out[key] = merge(out[key], value) if isinstance(out.get(key), Mapping) and isinstance(value, Mapping) else value
    return out


def inherited(entries: Mapping, name: str, where: str) -> dict:
    """An entry laid over the one that it is `like`, and that over the one before; `where` names the section in errors.

    (No YAML anchors: DVC's -S writes out what stands behind one, and the copy no longer follows.)
    """
    out: dict = {}
    for heir in reversed(lineage(entries, name, where)):
        own = entries[heir] or {}
        if not isinstance(own, Mapping):
            raise UserError(f"{where}.{heir} = {short(own)}: a mapping of parameters is expected")
        out = merge(out, {key: value for key, value in own.items() if key != "like"})
    return out


def lineage(entries: Mapping, name: str, where: str) -> list[str]:
    """The entry, the one that it is `like`, the one that that is like, and so on."""
    chain = [name]
    while isinstance(entries[chain[-1]], Mapping) and "like" in entries[chain[-1]]:
        like = entries[chain[-1]]["like"]
        known = isinstance(like, str) and like in entries
        if not known or like in chain:
            found = "leads back to itself" if known else f"is not defined there{meant(like, entries)}"
            raise UserError(f"{where}.{chain[-1]}.like = {short(like)}: {found} ({', '.join(map(str, entries))})")
        chain.append(like)
    return chain
