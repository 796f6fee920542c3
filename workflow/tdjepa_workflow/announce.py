"""What a run says to a person: what is wrong with the parameters, the plan at the start, the results at the end."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml
from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

from tdjepa.base.errors import UserError
from tdjepa.config import origin, part
from tdjepa.config.load import resolve_every_scale
from tdjepa.config.params import Params
from tdjepa.config.yaml_file import read_yaml
from tdjepa.report.pdf import require_latex
from tdjepa.tools.status import expected_text


def readable(path: str) -> None:
    """End the run if the file is missing or no YAML; Snakemake's own message does not name the line."""
    try:
        read_yaml(path)
    except UserError as error:
        _refuse(error)


def parameters(config: dict, settings) -> Params:
    """The checked parameters. The other scales are checked too: better now than on the cluster.

    `--config methods=lewm` names a part of the scale: Snakemake would put the word in the place of the section.
    """
    given = settings.config or {}
    words = {word: given[word] for word in part.WORDS if word in given and not isinstance(given[word], Mapping)}
    if words:
        config.clear()
        for layer in (read_yaml("params.yaml"), *map(load_configfile, settings.configfiles or ())):
            update_config(config, layer)
        update_config(config, {key: value for key, value in given.items() if key not in words})
    try:
        return part.choose(resolve_every_scale(config, None, "params.yaml"), words)
    except UserError as error:
        _refuse(error)


def ledger(path: str, p: Params) -> None:
    """End the run if the claims name a cell that cannot exist: better now than when all is evaluated."""
    from tdjepa.evidence import known_cells, ledger

    try:
        known_cells.require(ledger.read(path), p, path)
    except UserError as error:
        _refuse(error)


def written(work, *arguments):
    """Do what writes files; end the run if a folder may not be written or the disk is full."""
    try:
        return work(*arguments)
    except OSError as error:
        folder = os.path.dirname(str(error.filename)) or "."
        _refuse(UserError(f"{folder}: cannot be written ({error.strerror}); the records of the results are kept there"))


def set_aside(files: list[str], scale: str) -> None:
    if files:
        say(
            f"scale {scale}: no job makes {_count(len(files), 'file')} any more, such as {files[0]}. They are set aside in "
            f"results/{scale}/set_aside and data/{scale}/set_aside, and come back with their method; delete them there."
        )


def shadowed(scale: str) -> None:
    """Say which values were changed in the base since the last run although the scale overlays them: they change nothing."""
    if _last_params(scale).exists():
        for line in origin.shadowed(read_yaml(_last_params(scale)), read_yaml("params.yaml"), scale):
            say(f"tdjepa: {line}")


def _last_params(scale: str) -> Path:
    return Path(".snakemake/tdjepa", f"params.{scale}.yaml")


def _keep_params(scale: str) -> None:
    _last_params(scale).parent.mkdir(parents=True, exist_ok=True)
    _last_params(scale).write_bytes(Path("params.yaml").read_bytes())


def _refuse(error: UserError) -> None:
    """One line per problem and exit status 2."""
    say("\n".join(f"tdjepa: {line}" for line in str(error).splitlines()))
    os._exit(2)  # Snakemake would turn any exception into a stack trace and status 1


def free_name(group: str, workflow) -> None:
    """A group of methods is a target, beside those that are there."""
    if workflow.is_rule(group) or group.endswith("_all"):
        _refuse(UserError(f"params.yaml: groups.{group}: is the name of another target; choose another one"))


def job_prefix(folder: str, minutes: float, grace: int = 60) -> str:
    """What a job's shell does first: fail at the first error, run the sources of this folder, and end at the time limit.

    A job that hangs is asked to stop (a training saves itself) and killed `grace` seconds later. It stays in the run's
    process group, so that whoever ends the run ends it too. A machine without coreutils' `timeout` has no limit.
    SIGTERM to all processes of a job, as clusters send it, must not end this shell before a training has saved itself: what
    is left then is killed. The trap waits for it, and the job is for another attempt (75).
    """
    command = f"set -euo pipefail; trap 'exit 75' TERM; export PYTHONPATH={shlex.quote(os.path.join(folder, 'src'))}; "
    if minutes:
        said = (
            f"tdjepa: stopped after {minutes:g} minutes, the time limit of a job (runtime.job_minutes in params.yaml). The lines "
            "above are the last that it said. If it is only slow, raise the limit: the same command goes on."
        )
        command += LIMITED.format(seconds=max(1, round(minutes * 60)), grace=grace, said=shlex.quote(said))
    return command.replace("{", "{{").replace("}", "}}")  # Snakemake formats it


LIMITED = """\
python() {{
    command -v timeout >/dev/null || {{ command python "$@"; return; }}
    local began=$SECONDS status=0
    timeout --foreground --kill-after={grace} {seconds} python "$@" || status=$?
    if [ $status -eq 124 ] || [ $status -eq 137 -a $((SECONDS - began)) -ge {seconds} ]; then echo {said} >&2; fi
    return $status
}}
"""


def start(p: Params, workflow) -> None:
    """Which scale, how many jobs, how long; or at once what will not work, not after hours."""
    jobs = [job.rule.name for job in workflow.dag.needrun_jobs() if not job.rule.norun]
    try:
        _check_tools(jobs, workflow.local_exec)
    except UserError as error:
        workflow.persistence.unlock()
        _refuse(error)
    written(_keep_params, p.scale)
    name = f"scale {p.scale}" + (f", part {part.text(p)}" if part.text(p) else "")
    if part.text(p) and "judge" in jobs:
        report = f"results/{part.place(p)}"
        say(f"{name}: its report is made in {report}; that of the whole scale stays as it is")
    if not workflow.local_exec:
        say(f"{name}: {_count(len(jobs), 'job')} for the cluster")
        return
    if p.runtime.gpu and "gpu" not in workflow.global_resources and {"train", "evaluate", "sweep"} & {*jobs}:
        say(f"{name}: jobs take {p.runtime.gpu} GPU each; --resources gpu=1 holds them back where there is one")
    cores = workflow.resource_settings.cores or 1
    seconds = yaml.safe_load(Path(__file__).parents[1].joinpath("expected_seconds.yaml").read_text()).get(p.scale, {})
    say(f"{name}: {_count(len(jobs), 'job')} on {_count(cores, 'core')}, {expected_text(jobs, cores, seconds)}")


def _check_tools(jobs: list[str], local: bool) -> None:
    if not local and " " in sys.executable:  # the executor plugin writes it into the job's script without quotes
        raise UserError(f"{sys.executable}: SLURM jobs cannot start a Python whose path has a space; move it")
    if local and "paper" in jobs:
        try:
            require_latex()
        except UserError as error:
            raise UserError(f"{error}; or make all but the paper: snakemake render_all page_all") from None


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def finish(p: Params, workflow) -> None:
    """The results on one screen, if this run was asked for them."""
    if not any(job.rule.name == "tables" for job in workflow.dag.jobs):
        return
    from tdjepa.report import gather as collected

    try:
        collected.show(p)
    except UserError as error:  # the run itself has succeeded
        say(f"tdjepa: {error}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
