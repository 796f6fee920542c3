"""Temporal-Distance-JEPA, reproduced: a world model whose planning cost is mined from the step order of logs.

For Python users: `tdjepa.rows`, `tdjepa.load`, `tdjepa.plan` (docs/python.md).
"""

__version__ = "0.1.0"
__all__ = ["load", "plan", "rows"]


def __getattr__(name: str):
    """They need torch, pandas and simulators, which take seconds to import: not before they are asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'tdjepa' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("tdjepa.tools.api"), name)


def __dir__():
    return sorted([*globals(), *__all__])
