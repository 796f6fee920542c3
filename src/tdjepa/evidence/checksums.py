"""`tdjepa verify --bytes`: are the files of a scale ours, byte for byte?

Same parameters, same code and the same kind of machine give the same bytes. `workflow/checksums/<scale>.json` holds the
checksums of one run, with what it depends on: where files differ, that says whether they should have been equal.
"""

import hashlib
from pathlib import Path

from tdjepa.base.artefacts import fingerprint, read_json, sha256, write_json
from tdjepa.base.errors import UserError
from tdjepa.base.source_files import HERE

# What is compared: manifests, weights, rows, statistics and tables; not logs, times or files with dates.
PATTERNS = (
    "data/{scale}/mined/*/*",
    "results/{scale}/train/*/*/*/*.safetensors",
    "results/{scale}/rows/**/*.parquet",
    "results/{scale}/evidence/*.json",
    "results/{scale}/report/tables/*",
)
DATED = (".card.json", "claims.json", "claims.md", "claims.tex")  # they have a date, or name the commit of the ledger


def found(scale: str, root: Path = Path()) -> dict[str, str]:
    """{path: sha256} of the files of a scale that are there."""
    paths = {path for pattern in PATTERNS for path in root.glob(pattern.format(scale=scale)) if path.is_file()}
    names = sorted(path.relative_to(root).as_posix() for path in paths)
    return {name: sha256(root / name) for name in names if not name.endswith(DATED)}


def code(params: Path) -> str:
    """One hash over the parameter file and every source file."""
    digest = hashlib.sha256(params.read_bytes())
    for path in sorted((HERE / "tdjepa").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def write(scale: str, params: Path, path: Path, root: Path = Path()) -> int:
    files = found(scale, root)
    if not files:
        raise UserError(f"{path}: there are no results of scale {scale}; run it first")
    write_json(path, {"machine": fingerprint(), "code": code(params), "files": files})
    return len(files)


def compare(scale: str, params: Path, path: Path, root: Path = Path()) -> tuple[bool, str]:
    """(whether all files are there and equal, what to tell a person)"""
    how = "`tdjepa verify --bytes --write` makes"
    if not path.exists():
        raise UserError(f"{path}: no checksums are committed for this scale; {how} them")
    ours, kinds = read_json(path), {"machine": str, "code": str, "files": dict}
    if not isinstance(ours, dict) or not all(isinstance(ours.get(key), kind) for key, kind in kinds.items()):
        raise UserError(f"{path}: no list of checksums, which has {', '.join(kinds)}; {how} one")
    theirs, n = found(scale, root), len(ours["files"])
    other = [name for name, wanted in ours["files"].items() if theirs.get(name) != wanted]
    lines = [f"{'differs' if name in theirs else 'not there':<10} {name}" for name in other]
    if lines and ours["code"] != code(params):
        lines.append("code or params.yaml are not those of the list: files may differ")
    if lines and ours["machine"] != fingerprint():
        lines.append(f"the list was made on: {ours['machine']}; this is: {fingerprint()}; last digits may differ")
    return not other, "\n".join([*lines, f"{n - len(other)} of {n} files equal, byte for byte"])
