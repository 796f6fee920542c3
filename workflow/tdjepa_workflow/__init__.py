"""What the Snakefile needs beside its rules: everything that reads, patches or asks Snakemake and DVC is in this package."""
