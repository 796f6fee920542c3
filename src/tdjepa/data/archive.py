"""Unpack a downloaded .tar.zst or .zst file, trusting nothing in it.

Only regular files and folders with harmless names come out, each once, within the limits on bytes, members and compression
ratio. Everything lands in a temporary folder that is renamed after the last byte. (tarfile's own data filter would let half
of what is refused here through: names that come twice or differ in case only, absolute ones, links inside, any size.)
"""

import os
import re
import shutil
import tarfile
import tempfile
import unicodedata
from pathlib import Path, PurePosixPath

import pyarrow

from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.config.records.released import Limits

BLOCK = 1 << 20
HEADERS = 1 << 20  # bytes that may lie between two members; tarfile holds them in memory
SLACK = 8 << 20  # unpacked bytes for which the ratio is not asked: a few zeros compress very well


def unpack(archive: Path, folder: Path, limits: Limits) -> Path:
    """The content of `archive` as a new `folder`; a kill, a full disk or a bad archive leaves nothing under that name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for leftover in folder.parent.glob(f".{folder.name}.*.part"):
        shutil.rmtree(leftover)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    packed = archive.stat().st_size
    try:
        with open(archive, "rb") as file, progress(packed, f"unpack {archive.name}", "B") as bar:
            bar.unit_scale = True
            stream = Meter(file, limits, bar)
            if archive.name.endswith(".tar.zst"):
                untar(stream, temporary, limits)
            else:
                copy(stream, temporary / archive.name.removesuffix(".zst"))
            while stream.read(BLOCK):  # to the end, where the checksum of the compressed stream is
                pass
        os.replace(temporary, folder)
    except (Bad, tarfile.TarError, ValueError, RecursionError) as error:  # the last two: tarfile on malicious headers
        raise Refused(f"{archive}: {error}; nothing was unpacked") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot be unpacked: {error.strerror or error}; nothing is left of it") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


class Refused(UserError):
    """The archive is damaged or holds something that it should not."""


class Bad(Exception):
    """What is wrong with the archive, before it is known which one."""


class Meter:
    """The unpacked bytes of a zstd file as a stream that stops where a limit is passed."""

    def __init__(self, packed, limits: Limits, bar):
        self.packed, self.limits, self.bar, self.total, self.allowed = packed, limits, bar, 0, None
        begin = packed.read(4)
        packed.seek(0)
        # a frame, or a frame that is to be skipped: pyarrow takes an empty file for an empty stream
        if not re.match(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", begin, re.DOTALL):
            raise Bad(f"not zstd: it begins with {begin!r}")
        self.stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, mode="r"), "zstd")

    def read(self, n: int) -> bytes:
        try:
            data = self.stream.read(min(n, BLOCK))
        except OSError as error:
            if error.errno is not None:
                raise
            raise Bad(f"not whole, or not zstd ({error})") from None
        read = self.packed.tell()
        self.bar.update(read - self.bar.n)
        self.total += len(data)
        if self.total > self.limits.unpacked_bytes:
            raise Bad(f"holds more than the limit of {self.limits.unpacked_bytes} bytes")
        if self.total > SLACK + self.limits.ratio * read:
            raise Bad(f"unpacks to more than {self.limits.ratio} times its size, which looks like a bomb")
        if self.allowed is not None and self.total > self.allowed:
            raise Bad(f"holds more than {HEADERS} bytes of headers before a member")
        return data

    def allow(self, n: int | None) -> None:
        """At most `n` more bytes, and a block that is read ahead, until this is called again."""
        self.allowed = None if n is None else self.total + n + BLOCK


def untar(stream: Meter, folder: Path, limits: Limits) -> None:
    """Every member of a tar stream under `folder`."""
    stream.allow(HEADERS)
    with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK, tarinfo=_Member) as tar:
        seen: dict[str, bool] = {}  # name as a file system might see it -> is it a file
        for count, member in enumerate(tar, start=1):
            if count > limits.members:
                raise Bad(f"holds more than the limit of {limits.members} members")
            if name := harmless(member):
                register(name, member.isfile(), seen)
                place = folder / name
                (place.parent if member.isfile() else place).mkdir(parents=True, exist_ok=True)
                if member.isfile():
                    stream.allow(member.size + HEADERS)
                    copy(tar.extractfile(member), place)
                stream.allow(HEADERS)
    stream.allow(None)


def harmless(member: tarfile.TarInfo) -> PurePosixPath | None:
    """The name of a member that may be unpacked, None for the archive's own folder; Bad for everything else."""
    shown = repr(member.name if len(member.name) <= 100 else member.name[:97] + "...")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE) or member.issparse():
        kind = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link"}.get(member.type, "a special file")
        raise Bad(f"member {shown} is {kind}; only files and folders are unpacked")
    name = member.name
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/"):
        raise Bad(f"member {shown} has an absolute name")
    if ".." in parts:
        raise Bad(f"member {shown} would leave the folder")
    if "\\" in name or re.match(r"[A-Za-z]:", parts[0] if parts else "") or not name.isprintable():
        raise Bad(f"member {shown} has a name with a backslash, a drive or an unprintable character")
    if len(name.encode()) > 1000 or any(len(part.encode()) > 200 for part in parts):
        raise Bad(f"member {shown} has too long a name")
    if not parts and member.isfile():
        raise Bad(f"member {shown} is a file without a name")
    return PurePosixPath(*parts) if parts else None


def register(name: PurePosixPath, is_file: bool, seen: dict[str, bool]) -> None:
    """Refuse a name twice, also where only a file system that ignores case would see it twice."""

    def key(path) -> str:
        return unicodedata.normalize("NFKC", str(path)).casefold()

    if key(name) in seen and (is_file or seen[key(name)]):
        raise Bad(f"member {str(name)!r} comes twice")
    for parent in name.parents[:-1]:
        if seen.setdefault(key(parent), False):
            raise Bad(f"member {str(name)!r} lies in a file")
    seen[key(name)] = is_file


def copy(stream, target: Path) -> None:
    with open(target, "xb") as file:
        while block := stream.read(BLOCK):
            file.write(block)
        os.fsync(file.fileno())  # the rename of the folder must not reach the disk before its content


class _Member(tarfile.TarInfo):
    """tarfile takes a damaged header for the end of the archive; it is an error."""

    @classmethod
    def fromtarfile(cls, tar):
        try:
            return super().fromtarfile(tar)
        except (tarfile.EOFHeaderError, tarfile.EmptyHeaderError):
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"not whole, or not tar ({error})") from None
