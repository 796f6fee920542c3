"""`tdjepa release` and `tdjepa restore`: what a scale has learned and measured, as one archive, and back in its places.

tdjepa release --scale desk --out build/tdjepa-desk.tar.zst
tdjepa restore --from tdjepa-desk.tar.zst

The archive holds the last checkpoint of each training, the rows, their cards, and release.json with the sha256 of each file.
Demonstrations are left out (7 GB at desk): `tdjepa collect` makes them again to the same bytes.
"""

import os
import shutil
import tarfile
from pathlib import Path

import pyarrow

from tdjepa import __version__
from tdjepa.base.artefacts import canonical, card_path, publish, read_json, sha256, verified
from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.config import runs
from tdjepa.config.params import Params
from tdjepa.config.records.released import Limits
from tdjepa.data import archive
from tdjepa.evidence.guard import require_rows, rows_of
from tdjepa.steps.paths import path

LIST = "release.json"
LIMITS = Limits(unpacked_bytes=20 * 10**9, members=20_000, ratio=1000)
KINDS = ("train", "rows")  # the folders of results/<scale> that an archive may write to


def run(p: Params, out: Path) -> dict:
    """Write the archive; every file is compared with its card first."""
    if not out.name.endswith(".tar.zst"):
        raise UserError(f"--out {out}: the archive is a .tar.zst; name it so")
    rows = rows_of(p.scale)
    require_rows(rows, p.scale)
    of = {"scale": p.scale, "epoch": p.train.epochs}
    saved = [
        Path(path("checkpoint", env=env, method=method, seed=seed, **of)) for env, method, seed in runs.trainings(p)
    ]
    missing = [file for file in saved if not file.exists()]
    if missing:
        raise UserError(
            f"{missing[0]}: no such file ({len(missing)} are missing); run `make reproduce SCALE={p.scale}`"
        )
    files = {}
    for file in [*saved, *rows]:
        card = card_path(file)
        files |= {file.as_posix(): verified(file)["sha256"], card.as_posix(): sha256(card)}
    about = canonical({"version": __version__, "scale": p.scale, "files": files}).encode()
    with (
        publish(out) as temporary,
        pyarrow.CompressedOutputStream(str(temporary), "zstd") as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
        progress(len(files), "release", "files") as bar,
    ):
        tar.addfile(_member(LIST, len(about)), pyarrow.BufferReader(about))
        for name in sorted(files):
            with open(name, "rb") as content:
                tar.addfile(_member(name, os.path.getsize(name)), content)
            bar.update()
    return {"checkpoints": len(saved), "rows files": len(rows), "bytes": out.stat().st_size, "file": out}


def _member(name: str, size: int) -> tarfile.TarInfo:
    """Without owner and time: the same files give the same bytes."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def restore(source: Path, out: Path = Path(".")) -> dict:
    """Put the files of an archive into their places below `out`; all of them, or none."""
    if not source.is_file():
        raise UserError(f"{source}: no such file; --from names an archive of `tdjepa release`")
    if not source.name.endswith(".tar.zst"):
        raise UserError(f"{source}: an archive of `tdjepa release` is a .tar.zst")
    folder = out / f".{source.name}.restore"
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    try:
        archive.unpack(source, folder, LIMITS)
        scale, files = _checked(source, folder)
        for name, digest in files.items():
            if (there := out / name).exists() and sha256(there) != digest:
                raise UserError(f"{there}: is there and differs from the archive's; move results/{scale} away first")
        for name in sorted(files, key=lambda name: name.endswith(".card.json")):  # a card says that its file is whole
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(folder / name, out / name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"scale": scale, "files": len(files), "folder": out / "results" / scale}


def _checked(source: Path, folder: Path) -> tuple[str, dict[str, str]]:
    """Scale and files of an unpacked archive, if each is what release.json says and lies where results do."""
    if not (folder / LIST).is_file():
        raise UserError(f"{source}: holds no {LIST}, so it is no archive of `tdjepa release`")
    about = read_json(folder / LIST)
    if not isinstance(about, dict) or not isinstance(about.get("files"), dict) or not about["files"]:
        raise UserError(f"{source}: its {LIST} names no files; get it again")
    scale, files = about.get("scale"), about["files"]
    found = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()} - {LIST}
    if odd := sorted(found ^ set(files)):
        raise UserError(f"{source}: {odd[0]} is in the archive or in its {LIST}, but not in both; get it again")
    for name, digest in files.items():
        if name.split("/")[:2] != ["results", scale] or name.split("/")[2] not in KINDS:
            raise UserError(f"{source}: {name} is no checkpoint and no rows of scale {scale}; nothing was taken")
        if sha256(folder / name) != digest:
            raise UserError(f"{source}: the sha256 of {name} is not the one in its {LIST}; get it again")
    return scale, files
