"""One file over HTTP(S): resumed where a connection or the whole program broke off, checked before it gets its name.

While it grows the file is `NAME.part`, and `NAME.part.json` says of which remote file it is the beginning, so a file that
changed on the server starts again instead of being mixed. Nothing here interprets what it downloads.
"""

import http.client
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from tdjepa import __version__
from tdjepa.base.artefacts import read_json, sha256, write_json
from tdjepa.base.errors import UserError
from tdjepa.base.progress import progress
from tdjepa.config.records.released import Mirror, Source

BLOCK = 1 << 20
ENOUGH = 16 << 20  # a try that brought this much was worth it: the count of failures begins again
PASSING = {408, 425, 429, *range(500, 600)}  # statuses that may be gone in a moment


class Failed(Exception):
    """This mirror will not do; the message says why in one line."""


class Broken(Exception):
    """This try failed, the next may not."""

    def __init__(self, why):
        super().__init__(line(why))


class Silent(Broken):
    """The server had not even begun to answer."""


class Patience(NamedTuple):
    """Seconds until a silent server counts as gone, tries without progress, and the first of the doubling pauses."""

    timeout: float = 30.0
    retries: int = 6
    pause: float = 1.0
    sleep: Callable[[float], None] = time.sleep


PATIENT = Patience()


def urls(source: Source, mirrors: tuple[str, ...]) -> list[str]:
    """Where the file lies on each of the mirrors, in their order. A mirror is the base URL of a hub, or a URL with {file}."""
    try:
        TypeAdapter(tuple[Mirror, ...]).validate_python(mirrors)
    except ValidationError as error:
        raise UserError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    hub = "/datasets/{repo}/resolve/{revision}/{file}"
    templates = (mirror if "{file}" in mirror else mirror.rstrip("/") + hub for mirror in mirrors)
    names = {"{repo}": source.repo, "{revision}": source.revision, "{file}": source.file}
    return [re.sub(r"\{(repo|revision|file)\}", lambda found: names[found[0]], template) for template in templates]


@dataclass(frozen=True)
class Remote:
    """Which file a server is sending: `validator` is its ETag, or else its date of change."""

    url: str
    validator: str | None
    length: int | None

    @classmethod
    def of(cls, url: str, response) -> "Remote":
        total = re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("Content-Range", ""))
        length = total[1] if total else response.headers.get("Content-Length", "") if response.status == 200 else ""
        validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if validator and not re.fullmatch(r"[\x20-\x7e]{1,200}", validator):
            validator = None
        return cls(url, validator, int(length) if re.fullmatch(r"\d{1,18}", length) else None)

    def continued_by(self, now: "Remote", checked: bool) -> bool:
        """May bytes of `now` be appended to bytes of this? Another mirror's may if a checksum will tell (`checked`)."""
        if self.length is None or self.length != now.length:
            return False
        return self.validator == now.validator if self.validator and self.url == now.url else checked


def download(url: str, target: Path, source: Source, patience: Patience = PATIENT) -> str:
    """`url` as `target`, with as many tries as `patience` has; returns its sha256 or raises Failed.

    A file that turns out wrong is removed; one that is only incomplete is kept for the next call.
    """
    part = target.with_name(target.name + ".part")
    failures, answered = 0, False
    while True:
        before = size(part)
        try:
            attempt(url, part, source, patience.timeout)
            break
        except Broken as error:
            failures = 1 if size(part) - before >= ENOUGH else failures + 1
            # a server that never answered is probably not there: being offline should not take minutes to find out
            answered = answered or not isinstance(error, Silent)
            if failures > (patience.retries if answered else min(patience.retries, 1)):
                raise Failed(f"{error} (tried {failures} times)") from None
            patience.sleep(patience.pause * 2 ** (failures - 1))
    try:
        found = check(part, source)
    except Failed:
        discard(part)
        raise
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    state_of(part).unlink(missing_ok=True)
    return found


def check(path: Path, source: Source) -> str:
    """The sha256 of a file that is as expected; Failed otherwise."""
    if source.bytes is not None and size(path) != source.bytes:
        raise Failed(f"it has {size(path)} bytes, {source.bytes} are expected")
    found = sha256(path)
    if source.sha256 is not None and found != source.sha256:
        raise Failed(f"its sha256 is {found}, expected is {source.sha256}")
    return found


def attempt(url: str, part: Path, source: Source, timeout: float) -> None:
    """One request for what is missing of `part`; returns when the file is complete as far as the server tells."""
    had, have = begun(part, url, source), size(part)
    if had and have == had.length:
        return  # killed between the last byte and the check
    headers = {"User-Agent": f"tdjepa/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if had.url == url and had.validator and not had.validator.startswith("W/"):
            headers["If-Range"] = had.validator
    response = request(urllib.request.Request(url, headers=headers), have, timeout)
    if response is None:
        return
    with response:
        now = Remote.of(url, response)
        start = position(response, part, had, now, have, source)
        missing, free = (now.length or source.bytes or 0) - start, shutil.disk_usage(part.parent).free
        if missing > free:
            raise UserError(f"{part.parent}: {missing / 1e9:.1f} GB are to be downloaded, {free / 1e9:.1f} GB are free")
        write_json(state_of(part), asdict(now))
        receive(response, part, start, now.length or source.bytes, source.limits.archive_bytes)
    if now.length is not None and size(part) < now.length:
        raise Broken(f"the connection broke off after {size(part)} of {now.length} bytes")


def begun(part: Path, url: str, source: Source) -> Remote | None:
    """Of which remote file `part` is the beginning; a part that cannot be continued is removed."""
    try:
        had = Remote(**read_json(state_of(part)))
        usable = had.continued_by(Remote(url, had.validator, had.length), source.sha256 is not None)
        if part.exists() and usable and size(part) <= had.length:
            return had
    except (UserError, TypeError):  # no state, or not one that we wrote
        pass
    discard(part)
    return None


def request(asked: urllib.request.Request, have: int, timeout: float):
    """The open response, or None if the server says that the `have` bytes already there are all."""
    try:
        return urllib.request.build_opener(_Redirect).open(asked, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if have and error.code == 416 and error.headers.get("Content-Range") == f"bytes */{have}":
            return None
        kind = Broken if error.code in PASSING else Failed
        raise kind(line(f"HTTP {error.code} {error.reason}")) from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise Failed(line(error.reason)) from None
        raise Silent(getattr(error.reason, "strerror", None) or error.reason) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Silent(f"no sensible answer ({type(error).__name__}: {error})") from None


def position(response, part: Path, had: Remote | None, now: Remote, have: int, source: Source) -> int:
    """Where in the file the body of this response begins; Failed or Broken if it cannot be used."""
    limit = source.limits.archive_bytes
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Failed("the server packs the file once more, although it was asked not to")
    if source.bytes is not None and now.length not in (None, source.bytes):
        raise Failed(f"the server announces {now.length} bytes, {source.bytes} are expected")
    if (now.length or 0) > (source.bytes or limit):
        raise Failed(f"the server announces {now.length} bytes, more than the limit of {limit}")
    if response.status == 200:
        return 0  # the whole file: the server knows no ranges, or the file is another one by now
    begins = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    right = response.status == 206 and have and begins and int(begins[1]) == have
    if not right or not had.continued_by(now, source.sha256 is not None):
        discard(part)
        raise Broken("the server's file is not the one that was begun; it is started again")
    return have


def receive(response, part: Path, start: int, total: int | None, limit: int) -> None:
    """Append the body to `part` from `start` on. Flushed block by block, so that a kill leaves what the bar shows."""
    most, have = total or limit, start
    try:
        with open(part, "ab") as file, progress(total, f"fetch {part.stem}", "B", start) as bar:
            bar.unit_scale = True
            file.truncate(start)
            while block := next_block(response, have):
                have += len(block)
                if have > most:
                    raise Failed(f"the server sends more than the {most} bytes that it may")
                file.write(block)
                file.flush()
                bar.update(len(block))
    except OSError as error:
        raise UserError(f"{part}: {error.strerror}; what is there is kept, the same command goes on") from None


def next_block(response, have: int) -> bytes:
    try:
        return response.read1(BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise Broken(f"the connection broke off after {have} bytes ({type(error).__name__})") from None


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def state_of(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    state_of(part).unlink(missing_ok=True)


def line(text) -> str:
    """A server's or library's words as one printable line."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:300].strip()


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Other places are fine (the hub's files lie on another host), other protocols or giving up encryption are not."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        old, new = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if new not in ("http", "https") or (old, new) == ("https", "http"):
            raise Failed(f"it redirects from {old} to {line(new)}, which is refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
