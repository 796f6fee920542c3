"""Writes dvc.yaml: one coarse stage per phase. Run it again when a test says so:  python -m tdjepa_workflow.dvc

The Snakefile is the only DAG. A stage asks Snakemake for its phase and watches whatever could make Snakemake run a job of
it, or a little more: then Snakemake finds nothing to do. What it must never do is to watch less.

There are only the stages of the scale in params.yaml, named after it (train@desk). So dvc.lock keeps the entries of every
scale that was run, and DVC starts no scale that is not named there.
"""

import json
from pathlib import Path

import yaml

from tdjepa.config.overlay import scales_of
from tdjepa.config.records.base import ENVS
from tdjepa.config.yaml_file import read_yaml
from tdjepa.steps.registry import PATHS, PHASES, SECTIONS, STEPS
from tdjepa_workflow.sources import LEDGER, sources, texts

TEXTS = {"paper": texts(), "judge": [LEDGER]}
RULES = {"collect": "data", "mine": "data", "train": "train", "evaluate": "evaluate", "page": "page"}  # others: report

NEEDS = {  # phase -> the phases whose outputs it reads
    "mine": ("collect",),
    "train": ("collect", "mine"),
    "evaluate": ("collect", "mine", "train"),
    "judge": ("evaluate",),
    "render": ("collect", "train", "evaluate", "judge"),
    "page": ("collect", "train", "evaluate", "judge"),
    "paper": ("render",),
}
IN_GIT = ("judge", "render")  # small text and figures: Git shows how a table changed


def outs(phase: str) -> list[str]:
    """The folders, or the one file, that the steps of a phase write: results/${item}/rows."""
    kinds = [kind.split("/")[0] for step in STEPS.values() if step.phase == phase for kind in step.gives]
    places = ["/".join(PATHS[kind].split("/")[:3]).replace("{scale}", "${item}") for kind in kinds]
    return list(dict.fromkeys(places))


CURVES = [f"results/${{scale}}/train/two_room/{method}/3072" for method in ("tdjepa", "lewm")]  # that `dvc plots` shows
HEADER = """\
# Written by workflow/tdjepa_workflow/dvc.py. One stage per phase; the DAG is the Snakefile's, which finds out the jobs of a
# phase. `foreach` only puts the scale into the name (train@desk): dvc.lock so keeps the stages of each scale. `persist` leaves
# what need not be made again. SNAKEMAKE_PROFILE=<folder> dvc repro sends the jobs to a cluster: the commands, and so
# dvc.lock, stay the same.
"""


def watched(phase: str, scales: dict[str, dict]) -> list[str]:
    """Base sections and overlays: that of the scale, all that others are `like`, and those that can be laid over any. An overlay
    may lack any section, which DVC would not accept as a parameter, so it is watched as a whole."""
    inherited = sorted({overlay["like"] for overlay in scales.values() if "like" in overlay})
    sections = SECTIONS[phase]
    laid_over = ["scales.${item}", *(f"scales.{scale}" for scale in inherited), "overlays"]
    return [*sections, *laid_over] if sections else []


def stage(phase: str, scales: dict[str, dict]) -> dict:
    steps = [name for name, step in STEPS.items() if step.phase == phase]
    code = {path for step in steps for path in sources(step, *ENVS)} | set(TEXTS.get(phase, ()))
    rules = ["workflow/tdjepa_workflow/files.py", f"workflow/rules/{RULES.get(phase, 'report')}.smk"]
    rules += ["workflow/expected_seconds.yaml"] if phase == "page" else []
    kept = {"persist": True, "cache": False} if phase in IN_GIT else {"persist": True}
    needed = [out for before in NEEDS.get(phase, ()) for out in outs(before)]
    return {
        "foreach": ["${scale}"],
        "do": {
            "cmd": f"snakemake --cores all --rerun-incomplete {phase}_all",
            "params": watched(phase, scales),
            "deps": [*needed, *sorted(code), *rules],
            "outs": [
                *({out: kept} for out in outs(phase)),
                {f"results/${{item}}/provenance/{phase}.json": {"persist": True}},
            ],
        },
    }


def text() -> str:
    raw = read_yaml("params.yaml")
    scales = {name: entry for name, entry in scales_of(raw).items() if name in raw["scales"]}
    evidence = "results/${scale}/evidence"  # outside of the stages there is no item
    plots = [{f"{evidence}/cells.csv": {"x": "epoch", "y": "mean", "template": "scatter"}}]
    plots += [{f"{curve}/curve.csv": {"x": "epoch", "y": "loss", "template": "linear"}} for curve in CURVES]
    stages = {phase: stage(phase, scales) for phase in PHASES}
    content = {"stages": stages, "metrics": [f"{evidence}/metrics.json"], "plots": plots}
    return HEADER + yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False, width=1000)  # no anchors


if __name__ == "__main__":
    Path("dvc.yaml").write_text(text())
