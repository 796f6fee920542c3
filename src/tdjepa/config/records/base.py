"""The types that all parameter records share."""

import re
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

Env = Literal["two_room", "reacher", "push_t", "cube"]
ENVS = get_args(Env)
Cost = Literal["d_psi", "l2", "blend", "hard_gate", "soft_gate", "rc_aux", "policy"]  # policy: by a head
Storage = Literal["plain", "packed"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]  # becomes a folder, so nothing that could leave one
Device = Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:[0-9]+)?)$")]
Whole = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
Several = Annotated[int, Field(ge=2)]
Seed = Whole
ImageSize = Annotated[int, Field(ge=16, le=224)]

T = TypeVar("T")
Some = Annotated[tuple[T, ...], Field(min_length=1)]


def _number(value):
    """1e-05 as a number: DVC's -S writes it, and YAML 1.1 reads it as text."""
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]+e[-+]?[0-9]{1,3}", value, re.IGNORECASE):
        return float(value)
    return value


Written = BeforeValidator(_number)
Positive = Annotated[float, Field(gt=0), Written]
Weight = Annotated[float, Field(ge=0), Written]
Share = Annotated[float, Field(ge=0, le=1), Written]
BelowOne = Annotated[float, Field(ge=0, lt=1), Written]


def _named(value):
    """Named entries without those that were left empty. The entries of a list are named by their place."""
    if isinstance(value, list):
        value = {f"entry_{n}": entry for n, entry in enumerate(value, 1)}
    if isinstance(value, dict):
        return {name: entry for name, entry in value.items() if entry is not None}
    return value


def entries(kind, *more):
    """Named entries whose order counts. Canonical JSON sorts keys, so they are written as a list."""
    named = BeforeValidator(_named, json_schema_input_type=dict[Name, kind | None] | list[kind])
    in_order = PlainSerializer(lambda found: list(found.values()), return_type=list)
    return Annotated[dict[Name, kind], *more, named, in_order]


Filled = Annotated[dict[Name, T | None], AfterValidator(_named)]  # the same where order does not count


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


R = TypeVar("R", bound=Record)
