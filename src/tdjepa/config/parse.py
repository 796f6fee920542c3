"""Raw values as records. Every problem of a file is named at once, in one line each."""

import re
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import to_json

from tdjepa.base.errors import UserError
from tdjepa.config.records.base import R
from tdjepa.config.records.keys import keys_at, meant, short


def parse(record: type[R], data, source: str, under: str = "") -> R:
    """`data` as a `record`, or a UserError with one line per problem; `under` is put before its keys."""
    try:
        return record.model_validate_json(to_json(data, fallback=str, inf_nan_mode="constants"))  # lists become tuples
    except ValidationError as error:
        lines = (line for problem in error.errors() for line in _lines(problem, record))
        raise UserError("\n".join(dict.fromkeys(f"{source}: {under}{line}" for line in lines))) from None
    except ValueError as error:  # no JSON: bytes that are no text, mappings that hold themselves
        raise UserError(f"{source}: {error}") from None


def _lines(error: Mapping, record: type[R]) -> list[str]:
    """One of pydantic's problems as `key = value: what is allowed`."""
    place = tuple(part for part in error["loc"] if part != "[key]")
    key, kind, found = ".".join(map(str, place)), error["type"], error["input"]
    if kind == "value_error":  # our own checks carry their own text, possibly several lines
        return [f"{key}.{line}" if key else line for line in str(error["ctx"]["error"]).splitlines()]
    if kind == "missing":
        return [f"{key}: missing; a value is needed"]
    if kind == "extra_forbidden":
        near = meant(place[-1], keys_at(record, place[:-1]))
        near = near or "; check the spelling against the comments in params.yaml"
        return [f"{key} = {short(found)}: no such key{near}"]
    if kind == "too_short" and found:  # because of its bad items, which have their own lines
        return []
    allowed = error["msg"][0].lower() + error["msg"][1:]
    near = meant(found, re.findall("'([^']*)'", error["ctx"]["expected"])) if kind == "literal_error" else ""
    return [f"{key} = {short(found)}: {allowed}{near}"]
