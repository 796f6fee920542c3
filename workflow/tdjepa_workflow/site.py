"""What differs between clusters, for workflow/profiles/slurm: the words of site.example.yaml, over them those of site.yaml.

site.yaml lies beside the profile and is nobody else's business: Git ignores it. The profile takes these values by name (YTE,
which Snakemake reads profiles with), because a second profile would replace whole sections of the first.
"""

import difflib
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "profiles" / "slurm"


def read(folder: Path = FOLDER) -> dict:
    """Every word with its value; a word that nobody asked for is a mistake."""
    usual = yaml.safe_load((folder / "site.example.yaml").read_text())
    own = folder / "site.yaml"
    said = yaml.safe_load(own.read_text()) if own.exists() else None
    if not isinstance(said, dict | None):
        raise ValueError(f"{own}: words with their values are expected, as in site.example.yaml")
    for word in said or {}:
        if word not in usual:
            near = difflib.get_close_matches(str(word), usual, 1, 0.6)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{own}: {word!r} must be one of {', '.join(usual)}{meant}")
    return usual | (said or {})
