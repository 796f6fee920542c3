# The DAG. One rule file a phase; what decides a number is in params.yaml, what computes it in src/tdjepa.
#   snakemake --cores 8 all                          everything of the scale in params.yaml
#   snakemake train_all --cores 8 --config scale=smoke
#   snakemake extras --cores 8                       a group of methods beside the run, and the report with them
#   snakemake -n                                     what would run
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/pictures.smk"


rule all:
    default_target: True
    input:
        list(PHASES.values()),
    localrule: True
    message:
        "all: complete"


# Methods beside the run (`groups` in params.yaml), and the report with them.
for group in P.groups:
    announce.free_name(group, workflow)

    rule:
        name:
            group
        input:
            FILES.group(group),
            *(PHASES[phase] for phase in ("judge", "render", "page", "paper")),
        localrule: True
        message:
            f"{group}: complete"


# collect_all, mine_all, ...: what a DVC stage asks for, and what a person can ask for.
for phase in PHASES:

    rule:
        name:
            f"{phase}_all"
        input:
            PHASES[phase],
        localrule: True
        message:
            f"{phase}_all: complete"


# What is measured beside success, each by its name (docs/diagnostics.md): the steps of the phase evaluate, each sweep by
# itself,
MEASURED = {
    "alignment": FILES.all("pairs"),
    **{
        step.name: FILES.all(*step.gives)
        for step in STEPS.values()
        if step.phase == "evaluate" and step.name not in PHASES
    },
    **{
        f"sweep_{name}": files
        for name in P.evaluate.sweeps
        if (files := FILES.all("sweep", sweep=name))
    },
}
# and what of the report is a query on them, by the table or figure that shows it
SHOWN = ("calibration", "epoch_curve", "phases", "geometry", "disagreement")
MEASURED |= {name: FILES.shown(name) for name in SHOWN}
for name in MEASURED:

    rule:
        name:
            f"{name}_all"
        input:
            MEASURED[name],
        localrule: True
        message:
            f"{name}_all: complete"
