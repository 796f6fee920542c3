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


def scales_of(raw: Mapping, source: str = "params.yaml") -> dict:
    """The scales of params.yaml, and every one with every entry of `overlays` laid over it, as a scale that is like it:
    desk_as_published. It has folders of its own, and is found by that name wherever a scale is named. (For DVC an empty entry
    of that name must stand under `scales`.)"""
    scales, overlays = (raw.get(key) or {} for key in ("scales", "overlays"))
    for key, found in (("scales", scales), ("overlays", overlays)):
        if not isinstance(found, Mapping):
            raise UserError(f"{source}: {key} = {short(found)}: a mapping of {key} is expected")
    out = dict(scales)
    for name in overlays:
        own(overlays, name, f"{source}: overlays")
        if overlays[name] and "like" in overlays[name]:
            raise UserError(f"{source}: overlays.{name}.like: no such key; an overlay is laid over any scale")
        for scale in scales:
            if not out.get(laid := f"{scale}_{name}") and not str(scale).endswith(f"_{name}"):
                out[laid] = {**(overlays[name] or {}), "like": scale}
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
