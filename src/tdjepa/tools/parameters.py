"""`tdjepa params`: check params.yaml, and show each value with where it comes from.

tdjepa params                                              check every scale
tdjepa params --resolved --scale desk                      every value of a scale
tdjepa params --resolved --env push_t --method tdjepa      every value of one training and its plans
tdjepa params --scale desk --diff smoke                    what differs between two scales
tdjepa params --schema                                     the JSON schema of the file
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tdjepa.base.errors import UserError
from tdjepa.config import origin
from tdjepa.config.load import resolve_every_scale
from tdjepa.config.schema import schema as schema_of_params
from tdjepa.config.yaml_file import read_yaml

WIDEST = 40  # characters of a column of values; a longer value pushes the rest of its line to the right


def run(
    params: str | Path = "params.yaml",
    scale: str | None = None,
    *,
    resolved: bool = False,
    env: str | None = None,
    method: str | None = None,
    diff: str | None = None,
    schema: bool = False,
) -> None:
    if schema:
        print(json.dumps(schema_of_params(), indent=1, sort_keys=True))
        return
    if (env is None) != (method is None):
        raise UserError(f"{'--method' if env else '--env'}: needed beside {'--env' if env else '--method'}")
    if env and not resolved:
        raise UserError("--env and --method: only with --resolved")
    if diff and resolved:
        raise UserError("--diff and --resolved: only one of them")
    raw, source = read_yaml(params), str(params)
    p = resolve_every_scale(raw, scale, source)
    if diff:
        rows = [
            (key, *("-" if v is None else origin.shown(v) for v in values), " | ".join(who or "-" for who in origins))
            for key, values, origins in origin.difference(raw, p.scale, diff, source)
        ]
        head = ("", p.scale, diff, f"origin at {p.scale} | {diff}")
    elif resolved:
        leaves = origin.of_training(raw, env, method, p.scale, source) if env else origin.of_scale(raw, p.scale, source)
        rows = [(key, origin.shown(value), who) for key, value, who in leaves]
        head = ("", f"{env}/{method} at {p.scale}" if env else p.scale, "origin")
    else:
        rows = [
            ("envs", ", ".join(p.envs)),
            ("methods", ", ".join(p.methods_run)),
            ("train_seeds", str(list(p.train_seeds))),
        ]
        head = ("scale", p.scale)
    print(aligned([head, *rows]))


def aligned(rows: Iterable[tuple[str, ...]]) -> str:
    """Rows as columns of plain text."""
    rows = list(rows)
    keys, *values = (max(map(len, column)) for column in zip(*rows, strict=True))
    widths = [keys, *(min(WIDEST, width) for width in values)]
    lines = ("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(f"  {line}".rstrip() for line in lines)
