"""Which keys a record knows, and what a misspelt name was probably meant to be."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args, get_origin

from pydantic import BaseModel


def short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def meant(found, known: Iterable) -> str:
    """`; did you mean 'push_t'?` if the name is nearly one of those that are known."""
    near = difflib.get_close_matches(str(found), list(map(str, known)), 1, 0.7)
    return f"; did you mean {near[0]!r}?" if near else ""


def keys_at(kind, place: tuple = ()) -> list[str]:
    """The keys that a mapping may have at a place inside a record, or inside whatever its annotation holds."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if not place:
            return list(kind.model_fields)
        field = kind.model_fields.get(place[0])
        return keys_at(field.annotation, place[1:]) if field else []
    inside = place[1:] if get_origin(kind) in (dict, tuple) else place
    return [key for part in get_args(kind) for key in keys_at(part, inside)]


def unknown_keys(kind, overlay: Mapping, place: tuple = ()) -> Iterator[str]:
    """One line per key of an overlay that the record does not know."""
    known = keys_at(kind, place)
    for key, value in overlay.items():
        if known and key not in known:
            yield f"{'.'.join((*place, key))} = {short(value)}: no such key{meant(key, known)}"
        elif isinstance(value, Mapping):
            yield from unknown_keys(kind, value, (*place, key))
