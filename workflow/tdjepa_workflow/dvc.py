"""Writes dvc.yaml: one coarse stage a phase. Run it again when a test says so:  python -m tdjepa_workflow.dvc

The Snakefile is the only DAG. A stage asks Snakemake for its phase and watches whatever could make Snakemake run a job of
it, or a little more: then Snakemake finds nothing to do. What it must never do is to watch less.
"""

from pathlib import Path

import yaml

from tdjepa.config.records.base import ENVS
from tdjepa_workflow.files import PHASES
from tdjepa_workflow.sources import LEDGER, sources, texts

SECTIONS = {  # the sections of params.yaml that a phase's slices and file names are cut from
    "collect": ("envs", "collect", "fetch", "mine"),
    "mine": ("envs", "mine"),
    "train": ("envs", "methods_run", "train_seeds", "mine", "model", "train", "recipes", "methods"),
    "evaluate": ("envs", "methods_run", "train_seeds", "mine", "train", "methods", "evaluate", "diagnose"),
    "judge": ("envs", "methods_run", "train_seeds", "evaluate", "diagnose", "judge"),
    "render": (
        *("envs", "methods_run", "train_seeds", "collect", "fetch", "mine", "model", "train", "recipes", "methods"),
        *("evaluate", "diagnose", "judge", "render"),
    ),
    "page": (
        *("envs", "methods_run", "train_seeds", "collect", "fetch", "mine", "model", "train", "recipes", "methods"),
        *("evaluate", "diagnose", "judge", "render"),
    ),
    "paper": (),
}
VERBS = {phase: (phase,) for phase in PHASES} | {
    "collect": ("collect", "fetch"),
    "evaluate": ("evaluate", "diagnose", "probe", "ceiling"),
    "judge": ("judge", "claims"),
    "render": ("render", "tables", "figures", "numbers"),
}
TEXTS = {"paper": texts(), "judge": [LEDGER]}
RULES = {"collect": "data", "mine": "data", "train": "train", "evaluate": "evaluate", "page": "page"}  # others: report

EPISODES, MINED = "data/${scale}/episodes", "data/${scale}/mined"
TRAIN, ROWS, DIAGNOSTICS = "results/${scale}/train", "results/${scale}/rows", "results/${scale}/diagnostics"
EVIDENCE, REPORT, PAPER = "results/${scale}/evidence", "results/${scale}/report", "results/${scale}/paper.pdf"
PAGE = "results/${scale}/page"
INS = {
    "collect": [],
    "mine": [EPISODES],
    "train": [EPISODES, MINED],
    "evaluate": [EPISODES, MINED, TRAIN],
    "judge": [ROWS, DIAGNOSTICS],
    "render": [EPISODES, TRAIN, ROWS, DIAGNOSTICS, EVIDENCE],
    "page": [EPISODES, TRAIN, ROWS, DIAGNOSTICS, EVIDENCE],
    "paper": [REPORT],
}
OUTS = {
    "collect": [EPISODES],
    "mine": [MINED],
    "train": [TRAIN],
    "evaluate": [ROWS, DIAGNOSTICS],
    "judge": [EVIDENCE],
    "render": [REPORT],
    "page": [PAGE],
    "paper": [PAPER],
}
IN_GIT = {EVIDENCE, REPORT}  # small text and figures: Git shows how a table changed

CURVES = [f"results/${{scale}}/train/two_room/{method}/3072" for method in ("tdjepa", "lewm")]  # that `dvc plots` shows
HEADER = """\
# Written by workflow/tdjepa_workflow/dvc.py. One stage a phase; the DAG is the Snakefile's, which finds out the jobs of a phase.
# `persist` leaves what need not be made again. SNAKEMAKE_PROFILE=<folder> dvc repro sends the jobs to a cluster: the
# commands, and so dvc.lock, stay the same.
"""


def stage(phase: str) -> dict:
    code = {path for verb in VERBS[phase] for path in sources(verb, *ENVS)} | set(TEXTS.get(phase, ()))
    rules = ["workflow/tdjepa_workflow/files.py", f"workflow/rules/{RULES.get(phase, 'report')}.smk"]
    sections = SECTIONS[phase]
    rules += ["workflow/expected_seconds.yaml"] if phase == "page" else []
    return {
        "cmd": f"snakemake --cores all --rerun-incomplete {phase}_all",
        "params": ["scale", *sections, *("scales.${scale}." + section for section in sections)],
        "deps": [*INS[phase], *sorted(code), *rules],
        "outs": [
            *({out: {"persist": True, **({"cache": False} if out in IN_GIT else {})}} for out in OUTS[phase]),
            {f"results/${{scale}}/provenance/{phase}.json": {"persist": True}},
        ],
    }


def text() -> str:
    stages = {phase: stage(phase) for phase in PHASES}
    plots = [{f"{EVIDENCE}/cells.csv": {"x": "epoch", "y": "mean", "template": "scatter"}}]
    plots += [{f"{curve}/curve.csv": {"x": "epoch", "y": "loss", "template": "linear"}} for curve in CURVES]
    content = {"stages": stages, "metrics": [f"{EVIDENCE}/metrics.json"], "plots": plots}
    return HEADER + yaml.safe_dump(content, sort_keys=False, width=1000)


if __name__ == "__main__":
    Path("dvc.yaml").write_text(text())
