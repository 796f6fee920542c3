"""The report as a PDF: latexmk in a temporary folder, so that LaTeX sees no odd path and leaves nothing behind."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tdjepa.base.artefacts import explained, publish, write_text
from tdjepa.base.errors import UserError

PACKAGES = "texlive-publishers texlive-latex-extra texlive-science latexmk"
EPOCH = "1767225600"  # 2026-01-01: any fixed date makes a second build give the same bytes


def build(paper_dir: str | Path, results_dir: str | Path, out_pdf: str | Path) -> None:
    """paper_dir: main.tex and references.bib; results_dir: what `tdjepa render` wrote; out_pdf: whole or not at all."""
    paper_dir, results_dir, out_pdf = Path(paper_dir), Path(results_dir), Path(out_pdf)
    require_latex()
    with tempfile.TemporaryDirectory(prefix="tdjepa-paper-") as folder:
        with explained(out_pdf):
            _copy_inputs(paper_dir, results_dir, Path(folder))
        result = _latexmk(Path(folder))
        made, log = Path(folder, "main.pdf"), Path(folder, "main.log")
        if result.returncode or not made.exists():
            text = log.read_text(errors="replace") if log.exists() else result.stdout + result.stderr
            kept = out_pdf.with_suffix(".log")
            write_text(kept, text)
            raise UserError(f"{paper_dir / 'main.tex'}: LaTeX failed: {first_error(text)} (log: {kept})")
        with publish(out_pdf) as temporary:
            shutil.copyfile(made, temporary)


def require_latex() -> None:
    """Say what to install before anything else happens."""
    for program in ("latexmk", "pdflatex", "bibtex", "kpsewhich"):
        if shutil.which(program) is None:
            raise UserError(f"{program}: not found, so the PDF cannot be built; {install_hint()}")
    found = subprocess.run(["kpsewhich", "acmart.cls"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if not found.stdout.strip():
        raise UserError(f"acmart.cls: not found by LaTeX, so the PDF cannot be built; {install_hint()}")


def install_hint() -> str:
    return f"install LaTeX (Debian, Ubuntu: apt-get install {PACKAGES})"


def first_error(log: str) -> str:
    """The first line of a LaTeX log that tells of an error."""
    match = re.search(r"^(! .*|[^\s:()]+\.\w+:\d+: .*)$", log, re.MULTILINE)
    return match[0].strip() if match else "no error line in the log"


def _copy_inputs(paper_dir: Path, results_dir: Path, folder: Path) -> None:
    numbers = results_dir / "numbers.tex"
    for needed in (numbers, results_dir / "tables" / "main.tex"):
        if not needed.exists():
            raise UserError(f"{needed}: no such file; run `tdjepa render` first")
    if not (paper_dir / "main.tex").exists():
        raise UserError(f"{paper_dir / 'main.tex'}: no such file; name the folder with the report's text")
    found = {".": [*paper_dir.glob("*.tex"), *paper_dir.glob("*.bib"), numbers]}  # whose numbers.tex replaces another
    found |= {name: (results_dir / name).glob(kind) for name, kind in (("tables", "*.tex"), ("figures", "*.pdf"))}
    for name, sources in found.items():
        (folder / name).mkdir(exist_ok=True)
        for source in sources:
            shutil.copyfile(source, folder / name / source.name)


def _latexmk(folder: Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH, "FORCE_SOURCE_DATE": "1", "max_print_line": "1000"}
    command = ["latexmk", "-norc", "-pdf", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error", "main.tex"]
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    return subprocess.run(command, cwd=folder, env=environment, **how)
