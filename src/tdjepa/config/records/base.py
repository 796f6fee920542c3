"""The types that all parameter records share."""

from typing import Annotated, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field

Env = Literal["two_room", "reacher", "push_t", "cube"]
ENVS = get_args(Env)
Cost = Literal["d_psi", "l2", "blend", "hard_gate", "soft_gate", "rc_aux"]
Solver = Literal["cem", "icem", "mppi", "gradient"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]  # becomes a folder, so nothing that could leave one
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
ImageSize = Annotated[int, Field(ge=16, le=224)]
Storage = Literal["plain", "packed"]
Device = Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:[0-9]+)?)$")]


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


R = TypeVar("R", bound=Record)
