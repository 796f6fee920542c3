"""Reading YAML: no code execution, a bound on its size, errors in one line."""

import math
from pathlib import Path

import yaml

from tdjepa.base.errors import UserError

MAX_NODES = 100_000  # of a YAML file; params.yaml has about a thousand


def read_yaml(path: str | Path):
    """YAML without code execution, errors in one line."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; run this in the project's folder or name the file with --params"
        ) from None
    except ValueError:
        raise UserError(f"{path}: not text in UTF-8") from None
    try:
        found = yaml.safe_load(text)
    except Exception as error:  # its readers of numbers and dates let errors of their own through
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split()) or type(error).__name__}") from None
    if _size(found, {}) > MAX_NODES:
        raise UserError(f"{path}: more than {MAX_NODES} values, or one that holds itself; anchors (&) repeat too much")
    return found


def _size(value, known: dict[int, float]) -> float:
    """Values in a tree whose parts may be shared: written out, a few lines of anchors can be larger than any memory."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # until it is done: who meets it inside itself meets it for ever
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]
