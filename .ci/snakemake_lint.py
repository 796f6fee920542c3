"""`snakemake --lint` without its wish for a conda environment in every rule: requirements.lock serves them all."""

from snakemake.cli import main
from snakemake.linting.rules import RuleLinter

del RuleLinter.lint_missing_software_definition
main(["--lint"])
