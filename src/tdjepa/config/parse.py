"""Raw values as records; every problem of a file is named at once, one line each."""

import difflib
import json
from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from tdjepa.base.errors import UserError
from tdjepa.config.records.base import R


def parse(record: type[R], data, source: str) -> R:
    """`data` as a `record`; a UserError with one line a problem otherwise. (JSON mode: lists become tuples.)"""
    try:
        text = json.dumps(data, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # keys that are no names, mappings that hold themselves
        raise UserError(f"{source}: {error}") from None
    try:
        return record.model_validate_json(text)
    except ValidationError as error:
        raise UserError("\n".join(dict.fromkeys(line for e in error.errors() for line in _lines(e, source)))) from None


def _lines(error: Mapping, source: str) -> list[str]:
    """One problem of pydantic's as `file: key = value: what is allowed`."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "value_error":  # our own checks carry their own text, possibly several lines
        prefix = f"{source}: {key}." if key else f"{source}: "
        return [prefix + line for line in str(error["ctx"]["error"]).splitlines()]
    if error["type"] == "extra_forbidden":
        return [
            f"{source}: {key} = {short(error['input'])}: no such key; check the spelling against the comments in params.yaml"
        ]
    if error["type"] == "missing":
        return [f"{source}: {key}: missing; a value is needed"]
    hint = ""
    if isinstance(error["input"], str) and error["type"] in ("float_type", "int_type"):
        hint = " (YAML reads 5e-5 as text: write 5.0e-5)"
    return [f"{source}: {key} = {short(error['input'])}: {error['msg'][0].lower()}{error['msg'][1:]}{hint}"]


def short(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def meant(found, known: Iterable) -> str:
    """`; did you mean 'push_t'?` if the name is nearly one of those that are known."""
    near = difflib.get_close_matches(str(found), list(map(str, known)), 1, 0.7)
    return f"; did you mean {near[0]!r}?" if near else ""
