"""What a run says to a person: what is wrong with the parameters, the plan at the start, the results at the end."""

import os
import shlex
import sys
from pathlib import Path

import yaml

from tdjepa import params
from tdjepa.errors import UserError
from tdjepa.status import expected_text


def readable(path: str) -> None:
    """End the run if the file is missing or no YAML; Snakemake's own message does not name the line."""
    try:
        params.read_yaml(path)
    except UserError as error:
        _refuse(error)


def parameters(config: dict) -> params.Params:
    """The checked parameters. The other scales are checked too: better now than on the cluster."""
    try:
        chosen = params.resolve(config)
        for scale in config["scales"]:
            params.resolve(config, scale, f"params.yaml, scale {scale}")
    except UserError as error:
        _refuse(error)
    return chosen


def _refuse(error: UserError) -> None:
    """One line a problem and exit status 2, before any job or lock."""
    say("\n".join(f"tdjepa: {line}" for line in str(error).splitlines()))
    os._exit(2)  # Snakemake would turn any exception into a stack trace and status 1


def job_prefix(folder: str) -> str:
    """What a job's shell does first: fail at the first error, and run the sources of this folder."""
    command = f"set -euo pipefail; export PYTHONPATH={shlex.quote(os.path.join(folder, 'src'))}; "
    return command.replace("{", "{{").replace("}", "}}")  # Snakemake formats it


def start(p: params.Params, workflow) -> None:
    """Which scale, how many jobs, how long."""
    jobs = [job.rule.name for job in workflow.dag.needrun_jobs() if not job.rule.norun]
    if not workflow.local_exec:
        say(f"scale {p.scale}: {_count(len(jobs), 'job')} for the cluster")
        return
    cores = workflow.resource_settings.cores or 1
    seconds = yaml.safe_load(Path(workflow.basedir, "workflow/expected_seconds.yaml").read_text()).get(p.scale, {})
    say(
        f"scale {p.scale}: {_count(len(jobs), 'job')} on {_count(cores, 'core')}, {expected_text(jobs, cores, seconds)}"
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def finish(p: params.Params, workflow) -> None:
    """The results on one screen, if this run was asked for them."""
    if not any(job.rule.name == "tables" for job in workflow.dag.jobs):
        return
    from tdjepa.render import collected

    try:
        collected.show(p)
    except UserError as error:  # the run itself has succeeded
        say(f"tdjepa: {error}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
