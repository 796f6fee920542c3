"""What a run says to a person: problems in the parameters before anything starts, the plan at the start, the result at the end."""

import os
import sys
from pathlib import Path

import yaml

from tdjepa import params
from tdjepa.errors import UserError


def parameters(config: dict) -> params.Params:
    """The checked parameters; a mistake ends the run here, one line a problem, exit status 2, before any job or lock."""
    try:
        return params.resolve(config)
    except UserError as error:
        print("\n".join(f"tdjepa: {line}" for line in str(error).splitlines()), file=sys.stderr, flush=True)
        os._exit(2)  # Snakemake would turn any exception into a stack trace and status 1


def start(p: params.Params, workflow) -> None:
    jobs = [job.rule.name for job in workflow.dag.needrun_jobs() if not job.rule.name.endswith("all")]
    cores = workflow.resource_settings.cores or 1
    seconds = yaml.safe_load(Path(workflow.basedir, "workflow/expected_seconds.yaml").read_text()).get(p.scale, {})
    known = [seconds[name] for name in jobs if name in seconds]
    expected = max(sum(known) / min(cores, max(len(jobs), 1)), max(known, default=0))
    say(f"scale {p.scale}: {len(jobs)} jobs on {cores} cores, {_minutes(expected, len(known), len(jobs))}")


def _minutes(expected: float, known: int, jobs: int) -> str:
    if known < jobs:
        return "no measured time for this scale yet"
    return f"about {expected / 60:.0f} min" if expected >= 90 else f"about {max(expected, 1):.0f} s"


def finish(p: params.Params) -> None:
    from tdjepa.render import collected

    collected.show(p)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
