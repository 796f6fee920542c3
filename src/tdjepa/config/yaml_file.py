"""Reading YAML: no code execution, a bound on its size, no key twice, errors in one line."""

import math
from pathlib import Path

import yaml

from tdjepa.base.errors import UserError

MAX_NODES = 100_000  # values in a YAML file; params.yaml has about a thousand
MAX_DEPTH = 100  # of values inside each other: the C library composes them by recursion, and crashes where that ends
Safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times faster


class Loader(Safe):
    """YAML's safe loader takes the last of two equal keys without a word; this one refuses them."""

    def construct_mapping(self, node, deep=False):
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        keys = [key for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
        first = {key.value: key for key in reversed(keys)}
        for key in keys:
            if key is not first[key.value]:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} occurs twice", problem_mark=key.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path):
    try:
        text = Path(path).read_text()
    except OSError as error:
        hint = "run this in the project's folder or name the file with --params"
        raise UserError(f"{path}: {error.strerror}; {hint}") from None
    except ValueError:
        raise UserError(f"{path}: not text in UTF-8") from None
    try:
        depth = 0
        for event in yaml.parse(text, Safe):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise yaml.YAMLError(f"more than {MAX_DEPTH} values inside each other")
        found = Loader(text).get_single_data()
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
        known[id(value)] = math.inf  # until it is done: whoever meets it inside itself meets it for ever
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(value)]
