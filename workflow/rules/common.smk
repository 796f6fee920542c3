# For the files beside this one: the checked parameters, the files of each phase, the slice of a job, the sources of a verb.
import os
import sys

from snakemake.utils import validate

sys.path.insert(0, os.path.join(workflow.basedir, "workflow"))
sys.path.insert(0, os.path.join(workflow.basedir, "src"))
import announce
import locks
import looks
import phases
import provenance
from sources import LEDGER, sources, texts
from tdjepa import layout, params as tdjepa_params
from tdjepa.base.artefacts import card_path

announce.readable("params.yaml")


configfile: "params.yaml"


P = announce.parameters(config)
validate(config, os.path.join(workflow.basedir, "workflow/schemas/params.schema.json"))
S = P.scale
FILES = phases.Files(P)
PHASES = FILES.phases()

# Jobs end at their time limit, and run the sources of this folder, which are those that the rules name as inputs, whatever
# else is installed.
shell.prefix(announce.job_prefix(workflow.basedir, P.runtime.job_minutes))


wildcard_constraints:
    env="|".join(tdjepa_params.ENVS),
    method="|".join(P.methods_run),
    seed=r"\d+",
    sweep="|".join(P.evaluate.sweeps),


def job(make):
    """The slice of one job as ONE canonical string: Snakemake compares the set of values without their names."""
    return lambda wildcards: tdjepa_params.slice_json(make(wildcards))


if workflow.is_main_process:
    # beside another run it would judge the files that the other one is writing
    if locks.hold(workflow):
        announce.written(provenance.reconcile, PHASES, S)
elif workflow.remote_exec:
    provenance.record_at_exit(workflow)


onstart:
    locks.describe(workflow)
    looks.one_at_a_time(workflow.scheduler)
    announce.start(P, workflow)


onsuccess:
    provenance.export(PHASES, S)
    announce.finish(P, workflow)


onerror:
    provenance.export(PHASES, S)
