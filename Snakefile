# The DAG. One rule file a phase; what decides a number is in params.yaml, what computes it in src/tdjepa.
#   snakemake --cores 8 all                          everything of the scale in params.yaml
#   snakemake --cores 8 --config scale=smoke train_all
from snakemake.utils import min_version

min_version("9.27")


configfile: "params.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"


# Phase targets: what a DVC stage asks for, and what a person can ask for.
rule all:
    default_target: True
    input:
        PHASES["paper"],
    localrule: True


rule collect_all:
    input:
        PHASES["collect"],
    localrule: True


rule mine_all:
    input:
        PHASES["mine"],
    localrule: True


rule train_all:
    input:
        PHASES["train"],
    localrule: True


rule evaluate_all:
    input:
        PHASES["evaluate"],
    localrule: True


rule judge_all:
    input:
        PHASES["judge"],
    localrule: True


rule render_all:
    input:
        PHASES["render"],
    localrule: True


rule paper_all:
    input:
        PHASES["paper"],
    localrule: True
