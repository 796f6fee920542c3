# For the files beside this one: the checked parameters, the files of each phase, the slice of a job, the sources of a verb.
import os
import sys
from importlib.util import find_spec

from snakemake.utils import validate

# whichever Snakefile was named: the one beside this folder, or the one in it
ROOT = os.path.dirname(
    os.path.dirname(workflow.current_basedir.get_path_or_uri(secret_free=True))
)
for package, folder in (("tdjepa", "src"), ("tdjepa_workflow", "workflow")):
    found = find_spec(package)
    wanted = os.path.join(ROOT, folder, package)
    if not found or not os.path.samefile(os.path.dirname(found.origin), wanted):
        print(
            f"tdjepa: Python imports {package} from {os.path.dirname(found.origin) if found else 'nowhere'}, not from {wanted};",
            f"run `make setup` in {ROOT} and use its .venv, or set PYTHONPATH=src:workflow",
            file=sys.stderr,
            flush=True,
        )
        os._exit(2)

from tdjepa.config.records.base import ENVS
from tdjepa.steps.paths import card
from tdjepa.steps.registry import STEPS
from tdjepa_workflow import announce, leftovers, locks, patches, provenance
from tdjepa_workflow.files import Files, ancients, groups_of_run
from tdjepa_workflow.marks import marked
from tdjepa_workflow.sources import LEDGER, slice_of, sources, texts

announce.readable("params.yaml")


report: "../report/workflow.rst"


container: "build/tdjepa.sif"  # used with workflow/profiles/container only


configfile: "params.yaml"


P = announce.parameters(config, workflow.config_settings)
validate(config, os.path.join(ROOT, "workflow/schemas/params.schema.json"))
announce.ledger(LEDGER, P)
S = P.scale
FILES = Files(P, groups_of_run(P, workflow.is_main_process))
PHASES, KNOWN = FILES.phases(), FILES.known()

# Jobs end at their time limit, and run the sources of this folder, which are those that the rules name as inputs, whatever
# else is installed.
shell.prefix(announce.job_prefix(ROOT, P.runtime.job_minutes))


wildcard_constraints:
    env="|".join(ENVS),
    method="|".join(FILES.methods),
    seed=r"\d+",
    sweep="|".join(P.evaluate.sweeps),
    part=r"\d+",


def job(step):
    """The slice of one job as ONE canonical string: Snakemake compares the set of values without their names."""
    return lambda wildcards: slice_of(P, step, wildcards)


if workflow.is_main_process:
    # beside another run it would judge the files that the other one is writing
    if locks.hold(workflow):
        announce.written(leftovers.bring_back, KNOWN, S)
        if not workflow.output_settings.dryrun:
            announce.set_aside(announce.written(leftovers.set_aside, KNOWN, S), S)
        announce.written(provenance.reconcile, KNOWN, S)
    announce.shadowed(S)
elif workflow.remote_exec:
    patches.record_at_exit(workflow)


onstart:
    locks.describe(workflow)
    patches.one_look_at_a_time(workflow.scheduler)
    announce.start(P, workflow)


onsuccess:
    provenance.export(KNOWN, S)
    announce.finish(P, workflow)


onerror:
    provenance.export(KNOWN, S)
