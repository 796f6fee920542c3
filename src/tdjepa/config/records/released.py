"""Where the released data of an environment comes from, how it is recognised, and what it may at most contain.

The four files are the LeWM authors' (MIT licence). Three are tar archives around one HDF5 file, Push-T's is the compressed
HDF5 file itself. Checksums and sizes are those of the hub's own file records as several independent users of the files
wrote them down; the project could not download the files itself. A wrong checksum refuses the file, it never lets one in.
"""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from tdjepa.base.errors import UserError
from tdjepa.config.records.base import Record

HUB = "https://huggingface.co"
SCHEMES = ("https", "http", "file")


def _mirror(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file"):
        raise ValueError(f"{url}: a mirror is a URL that begins with https://, http:// or file:///")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"{parts.hostname}: a mirror may not hold a password or a query: it is written into cards")
    return url


def _relative(name: str) -> str:
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)*", name) or {".", ".."} & set(name.split("/")):
        raise ValueError(f"{name!r}: letters, digits and . _ - with / between, nothing that leaves a folder")
    return name


Mirror = Annotated[str, AfterValidator(_mirror)]
Relative = Annotated[str, AfterValidator(_relative)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Bytes = Annotated[int, Field(ge=1)]


class Limits(Record):
    """What a download may at most be; more is taken for an attack or a mistake."""

    archive_bytes: Bytes = Field(60 * 10**9, description="of the file to download, where its size is not known")
    unpacked_bytes: Bytes = Field(150 * 10**9, description="of everything in the archive together")
    members: Bytes = Field(64, description="files and folders in the archive")
    ratio: Bytes = Field(50, description="unpacked bytes per compressed byte; the released files have 2 to 4")


class Source(Record):
    """One released file. Mirrors are tried in order; a mirror is the base URL of a hub, or a URL with {file} in it (and
    {repo}, {revision} if it likes)."""

    mirrors: Annotated[tuple[Mirror, ...], Field(min_length=1)] = (HUB,)
    repo: Relative
    file: Relative = Field(pattern=r"\.(tar\.zst|zst|h5|hdf5)$")
    revision: Relative = "main"
    sha256: Sha256 | None = Field(None, description="of the file as it is downloaded")
    bytes: Bytes | None = None
    limits: Limits = Limits()


RELEASED = {
    "two_room": Source(
        repo="quentinll/lewm-tworooms",
        file="tworoom.tar.zst",
        sha256="494b1a02f0765cd9a0d9daf1786c419ced1009977fc45d01e3158932f8d080ca",
        bytes=3_425_937_909,
    ),
    "reacher": Source(
        repo="quentinll/lewm-reacher",
        file="reacher.tar.zst",
        sha256="4ff2385e49712caa89f21b8e0a246e2614b621d3f22cf2d1224d845e879a1cc2",
        bytes=23_750_614_946,
    ),
    "push_t": Source(
        repo="quentinll/lewm-pusht",
        file="pusht_expert_train.h5.zst",
        sha256="7cfbd6d90fa2f27876379a5ff169715a36ed82edbda64f9e5b5bfa34d212f318",
        bytes=13_136_247_974,
    ),
    "cube": Source(
        repo="quentinll/lewm-cube",
        file="cube_single_expert.tar.zst",
        sha256="3725d6a01abd492164441ef0a27e588f52b94a118fab56b96987b1a34a6c2600",
        bytes=46_184_624_478,
    ),
}


def released(env: str, mirrors: tuple[str, ...] | None = None, sha256: str | None = None) -> Source:
    """The released file of an environment, from other mirrors or with another checksum if they are given."""
    if env not in RELEASED:
        raise UserError(f"env = {env!r}: no released data; there is some for {', '.join(RELEASED)}")
    given = RELEASED[env].model_dump()
    if mirrors:
        given["mirrors"] = tuple(mirrors)
    if sha256 and sha256 != given["sha256"]:
        given |= {"sha256": sha256, "bytes": None}  # another file: the known size is not its size
    try:
        return Source.model_validate(given)
    except ValueError as error:
        raise UserError(f"fetch of {env}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
