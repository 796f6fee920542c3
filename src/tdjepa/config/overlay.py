"""Overlays: mappings that say only what differs from what they are laid over, or from what they are `like`."""

from collections.abc import Mapping

from tdjepa.base.errors import UserError
from tdjepa.config.records.keys import meant, short


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
        out = merge(out, own(entries, heir, where))
    return out


def own(entries: Mapping, name: str, where: str) -> dict:
    """What an entry says itself."""
    said = {} if entries[name] is None else entries[name]
    if not isinstance(said, Mapping):
        raise UserError(f"{where}.{name} = {short(said)}: a mapping of parameters is expected")
    return {key: value for key, value in said.items() if key != "like"}


def lineage(entries: Mapping, name: str, where: str) -> list[str]:
    """The entry, the one that it is `like`, the one that that is like, and so on."""
    chain = [name]
    while isinstance(entries[chain[-1]], Mapping) and "like" in entries[chain[-1]]:
        like = entries[chain[-1]]["like"]
        key = f"{where}.{chain[-1]}.like = {short(like)}"
        if not isinstance(like, str) or like not in entries:
            known = ", ".join(map(str, entries))[:300]
            raise UserError(f"{key}: is not defined there ({known}){meant(like, entries)}")
        if like in chain:
            raise UserError(f"{key}: leads back to itself ({' -> '.join([*chain, like])[:300]})")
        chain.append(like)
    return chain
