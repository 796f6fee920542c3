"""All verbs: those of the steps, and those of tools.toml."""

import tomllib
from pathlib import Path

from tdjepa.steps.registry import STEPS, verbs_of

TOOLS = verbs_of(tomllib.loads(Path(__file__).with_name("tools.toml").read_text()))
VERBS = {name: step for name, step in STEPS.items() if not step.verb} | TOOLS
