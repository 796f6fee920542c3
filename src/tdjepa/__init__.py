"""Temporal-Distance-JEPA, reproduced: a world model whose planning cost is mined from the step order of logs."""

__version__ = "0.1.0"
