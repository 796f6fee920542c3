"""Which outputs `snakemake --report` shows, and under what heading."""

import os
from collections.abc import Sequence

from snakemake.io import report


def marked(files: Sequence[str], category: str, *endings: str) -> list:
    """The files, those with one of these endings marked for the report; captions: workflow/report/<category>.rst"""
    about = {"caption": f"../report/{category.lower()}.rst", "category": category}
    return [
        report(file, **about, labels={"name": os.path.basename(file)}) if file.endswith(endings) else file
        for file in files
    ]
