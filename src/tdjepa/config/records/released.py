"""Where the released data of an environment comes from, how it is recognised, and what it may at most contain."""

import re
import tomllib
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from tdjepa.base.errors import UserError
from tdjepa.config.records.base import Count, Record, Some

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

    mirrors: Some[Mirror] = (HUB,)
    repo: Relative
    file: Relative = Field(pattern=r"\.(tar\.zst|zst|h5|hdf5)$")
    revision: Relative = "main"
    sha256: Sha256 | None = Field(None, description="of the file as it is downloaded")
    bytes: Bytes | None = None
    episodes: Count | None = Field(None, description="that the file holds")
    rows: Count | None = Field(None, description="of all its episodes together")
    limits: Limits = Limits()


FILE = Path(__file__).with_name("released.toml")
RELEASED = {env: Source(**entry) for env, entry in tomllib.loads(FILE.read_text()).items()}


def released(env: str, mirrors: tuple[str, ...] | None = None, sha256: str | None = None) -> Source:
    """The released file of an environment, from other mirrors or with another checksum if they are given."""
    given = RELEASED[env].model_dump()
    if mirrors:
        given["mirrors"] = tuple(mirrors)
    if sha256 and sha256 != given["sha256"]:
        # another file: the known sizes are not its sizes
        given |= {"sha256": sha256, "bytes": None, "episodes": None, "rows": None}
    try:
        return Source.model_validate(given)
    except ValueError as error:
        raise UserError(f"fetch of {env}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
