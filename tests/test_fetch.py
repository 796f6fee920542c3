"""Released data: downloads that survive what servers do, archives that cannot hurt, columns that land where ours are.

Every server is on localhost, every file small and of the released layout; nothing here reaches the hub.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import h5py
import hdf5plugin
import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clone import Clone
from tdjepa.base import artefacts
from tdjepa.base.errors import UserError
from tdjepa.config.records.released import RELEASED, Limits, Source
from tdjepa.config.records.released import released as released_source
from tdjepa.data import archive, convert
from tdjepa.data.chunked import ChunkedStore
from tdjepa.data.download import Broken, Expected, Failed, Patience, Remote, download
from tdjepa.data.store import Store
from tdjepa.envs.base import make
from tdjepa.steps import fetch as released

BODY = np.random.default_rng(0).bytes(50_000)
HASTY = Patience(timeout=10, retries=3, pause=0)
ANY = Expected(None, None, 10**6)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


# Servers --------------------------------------------------------------------------------------------------------------


class Mirror:
    """What a server on localhost does with each request; the defaults are a good server."""

    def __init__(self, body=BODY):
        self.body, self.etag, self.ranges = body, '"one"', True
        self.cuts = []  # how many bytes of the answer to each request are sent before the connection breaks
        self.announce = None  # Content-Length, if it is to be a lie
        self.status, self.location = None, None  # an answer without a body
        self.stop_at, self.stopped = None, threading.Event()  # send this much, then wait for the event
        self.asked = []  # (path, Range) of every request
        self.before = lambda mirror: None  # called at every request
        self.silent = set()  # numbers of the requests that get no answer at all

    @property
    def ranged(self):
        return [found for _, found in self.asked]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        mirror = self.server.mirror
        mirror.before(mirror)
        mirror.asked.append((self.path, self.headers["Range"]))
        if len(mirror.asked) in mirror.silent:
            return
        if mirror.status:
            self.send_response(mirror.status)
            self.send_header("Location", mirror.location or "")
            self.end_headers()
            return
        start, total = 0, len(mirror.body)
        if self.headers["Range"] and mirror.ranges and self.headers["If-Range"] in (None, mirror.etag):
            start = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])[1])
        self.answer(mirror, start, total)

    def answer(self, mirror, start, total):
        if start >= total:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if mirror.etag:
            self.send_header("ETag", mirror.etag)
        self.send_header("Content-Length", str(mirror.announce or total - start))
        self.end_headers()
        body = mirror.body[start:][: mirror.cuts.pop(0) if mirror.cuts else None]
        with contextlib.suppress(OSError):  # the client may go first
            if mirror.stop_at:
                self.wfile.write(body[: mirror.stop_at])
                mirror.stopped.wait(60)
            self.wfile.write(body[mirror.stop_at or 0 :])

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    """serve(mirror) -> base URL; every server ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(mirror) -> str:
            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.mirror = mirror
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join, 60)
            for end in (server.server_close, server.shutdown, mirror.stopped.set):
                stack.callback(end)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


def sha(body):
    return hashlib.sha256(body).hexdigest()


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


# Downloads ------------------------------------------------------------------------------------------------------------


def test_a_good_server_is_asked_once_and_nothing_is_left_but_the_file(serve, tmp_path):
    mirror = Mirror()
    found = download(serve(mirror) + "/x", tmp_path / "x", Expected(sha(BODY), len(BODY), 1), HASTY)
    assert (tmp_path / "x").read_bytes() == BODY
    assert found == sha(BODY)
    assert leftovers(tmp_path) == ["x"]
    assert mirror.ranged == [None]


def test_a_broken_download_goes_on_where_it_broke(serve, tmp_path):
    mirror = Mirror()
    mirror.cuts = [10_000, 15_000]
    download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert (tmp_path / "x").read_bytes() == BODY
    assert mirror.ranged == [None, "bytes=10000-", "bytes=25000-"]


def test_who_never_answers_gets_two_tries_and_who_once_did_gets_all(serve, tmp_path):
    mirror = Mirror()
    mirror.silent = {1, 2, 3}
    with pytest.raises(Failed, match=r"no sensible answer .* \(tried 2 times\)"):
        download(serve(mirror), tmp_path / "x", ANY, HASTY)
    mirror = Mirror()
    mirror.cuts, mirror.silent = [1000], {2, 3}
    download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert mirror.ranged == [None] + ["bytes=1000-"] * 3


def test_without_ranges_it_starts_again(serve, tmp_path):
    mirror = Mirror()
    mirror.ranges, mirror.cuts = False, [10_000]
    download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert (tmp_path / "x").read_bytes() == BODY
    assert mirror.ranged == [None, "bytes=10000-"]


def test_a_server_that_breaks_off_for_ever_is_given_up_with_growing_pauses_and_the_part_kept(serve, tmp_path):
    mirror, pauses = Mirror(), []
    mirror.cuts = [1000] * 50
    with pytest.raises(Failed, match=r"broke off after 4000 of 50000 bytes \(tried 4 times\)"):
        download(serve(mirror), tmp_path / "x", ANY, Patience(retries=3, pause=1, sleep=pauses.append))
    assert pauses == [1, 2, 4]
    assert leftovers(tmp_path) == ["x.part", "x.part.json"]
    assert (tmp_path / "x.part").read_bytes() == BODY[:4000]


def test_a_silent_server_counts_as_broken_off(serve, tmp_path):
    mirror = Mirror()
    mirror.stop_at = 1000
    with pytest.raises(Failed, match="TimeoutError|timed out"):
        download(serve(mirror), tmp_path / "x", ANY, Patience(timeout=0.2, retries=0))


def test_a_file_that_changed_is_not_mixed(serve, tmp_path):
    """The body and its ETag change after the break; once with If-Range understood and once by a server that ignores it."""
    for ignores in (False, True):
        mirror, other, folder = Mirror(), BODY[::-1], tmp_path / str(ignores)
        folder.mkdir()
        mirror.cuts = [10_000]

        def change(m, other=other, ignores=ignores):
            if len(m.asked) == 1:
                m.body, m.etag = other, '"two"'
                if ignores:  # answers the range, but of the new file
                    m.etag = Anything('"two"')

        mirror.before = change
        download(serve(mirror), folder / "x", ANY, HASTY)
        assert (folder / "x").read_bytes() == other
        assert len(mirror.asked) == (3 if ignores else 2)


class Anything(str):
    """An ETag that a server compares equal to whatever a client sends."""

    __hash__ = str.__hash__

    def __eq__(self, _):
        return True


def test_a_length_too_long_ends_at_the_true_length(serve, tmp_path):
    """The server announces more than it has; asked for the rest, it says that there is none. The checksum decides."""
    mirror = Mirror()
    mirror.announce = len(BODY) + 500
    download(serve(mirror), tmp_path / "x", Expected(sha(BODY), None, 10**6), HASTY)
    assert (tmp_path / "x").read_bytes() == BODY
    with pytest.raises(Failed, match="announces 50500 bytes, 50000 are expected"):
        download(serve(mirror), tmp_path / "y", Expected(sha(BODY), len(BODY), 1), HASTY)
    assert leftovers(tmp_path) == ["x"]


def test_a_length_too_short_is_refused_by_the_checksum_or_the_size(serve, tmp_path):
    mirror = Mirror()
    mirror.announce = len(BODY) - 500
    for expected, why in (
        (Expected(sha(BODY), None, 10**6), "its sha256 is"),
        (Expected(None, 50_000, 1), "announces"),
    ):
        with pytest.raises(Failed, match=why):
            download(serve(mirror), tmp_path / "x", expected, HASTY)
        assert leftovers(tmp_path) == []


def test_a_wrong_checksum_leaves_nothing(serve, tmp_path):
    with pytest.raises(Failed, match=f"its sha256 is {sha(BODY)}, expected is {'0' * 64}"):
        download(serve(Mirror()), tmp_path / "x", Expected("0" * 64, None, 10**6), HASTY)
    assert leftovers(tmp_path) == []


def test_more_than_the_limit_is_not_even_begun(serve, tmp_path):
    with pytest.raises(Failed, match="announces 50000 bytes, more than the limit of 1000"):
        download(serve(Mirror()), tmp_path / "x", Expected(None, None, 1000), HASTY)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("status", [404, 403, 503])
def test_statuses(serve, tmp_path, status):
    mirror = Mirror()
    mirror.status = status
    with pytest.raises(Failed, match=f"HTTP {status}"):
        download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert len(mirror.asked) == (4 if status == 503 else 1)  # only what may pass is tried again


def test_a_redirect_is_followed_to_http_and_nowhere_else(serve, tmp_path):
    away, secret = Mirror(), tmp_path / "secret"
    secret.write_text("not to be fetched")
    away.status, away.location = 302, serve(Mirror()) + "/there"
    download(serve(away), tmp_path / "x", ANY, HASTY)
    assert (tmp_path / "x").read_bytes() == BODY
    for location in (secret.as_uri(), "ftp://127.0.0.1/x", "data:text/plain,hello"):
        away.location = location
        with pytest.raises(Failed, match="HTTP 302|refused"):
            download(serve(away), tmp_path / "y", ANY, HASTY)
    assert not (tmp_path / "y").exists()


def test_a_resume_may_change_mirrors_only_under_a_checksum():
    a, b = Remote("http://a", '"1"', 10), Remote("http://b", '"2"', 10)
    assert a.continued_by(b, checked=True)
    assert not a.continued_by(b, checked=False)
    assert not a.continued_by(Remote("http://a", '"2"', 10), checked=True)
    assert not a.continued_by(Remote("http://b", '"1"', 11), checked=True)
    assert not Remote("http://a", None, None).continued_by(Remote("http://a", None, None), checked=True)


def test_a_state_file_that_is_not_ours_starts_again(serve, tmp_path):
    for state in ("", "[]", '{"url": 1}', '{"url": "x", "validator": null, "length": "many"}'):
        mirror = Mirror()
        (tmp_path / "x.part").write_bytes(b"rubbish")
        (tmp_path / "x.part.json").write_text(state)
        download(serve(mirror), tmp_path / "x", ANY, HASTY)
        assert (tmp_path / "x").read_bytes() == BODY
        assert mirror.ranged == [None]


def test_words_of_a_server_reach_the_terminal_as_one_plain_line():
    assert str(Broken("bad\x1b[2J\nnews")) == "bad [2J news"


KILLED = """
import sys
from pathlib import Path
from tdjepa.data import download

class Bar:
    def __init__(self, total, what, unit, initial=0):
        self.n = initial
    def update(self, n):
        self.n += n
        print(self.n, flush=True)
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass

download.progress = Bar
download.download(sys.argv[1], Path(sys.argv[2]), download.Expected(None, None, 10**9))
"""


def test_a_killed_process_goes_on_where_it_was_killed(serve, tmp_path, two_room):
    """SIGKILL when half of the archive is there; the next fetch asks for the rest only, and finishes."""
    mirror = Mirror(two_room)
    mirror.stop_at = half = len(two_room) // 2
    source = source_of(mirror, serve(mirror))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, source.urls[0], str(tmp_path / source.file)], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert any(int(text) == half for text in process.stdout)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert leftovers(tmp_path) == ["tworoom.tar.zst.part", "tworoom.tar.zst.part.json"]
    mirror.stop_at = None
    fetch(source, tmp_path / "episodes.h5", cache=tmp_path)
    assert mirror.ranged == [None, f"bytes={half}-"]
    assert Store(tmp_path / "episodes.h5").episodes == 3


# Archives -------------------------------------------------------------------------------------------------------------


def zst(data):
    return pyarrow.compress(data, codec="zstd", asbytes=True)


def tar(*members, form=tarfile.PAX_FORMAT):
    """(name, content or type) ... -> tar"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as file:
        for name, what in members:
            info = tarfile.TarInfo(name)
            if isinstance(what, bytes) and what[:1] == b"=":
                info.size = len(what)
                file.addfile(info, io.BytesIO(what))
            else:
                info.type, info.linkname = what, "../secret"
                file.addfile(info)
    return out.getvalue()


def unpack(data, folder, name="a.tar.zst", **limits):
    (folder / name).write_bytes(data)
    return archive.unpack(folder / name, folder / "out", Limits(**limits))


def test_files_and_folders_come_out(tmp_path):
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
        folder = tmp_path / str(form)
        folder.mkdir()
        long = "/".join(["deep" * 8] * 4) + "/é.h5"
        data = tar((".", tarfile.DIRTYPE), ("./a", tarfile.DIRTYPE), ("./a/b.h5", b"=one"), (long, b"=two"), form=form)
        out = unpack(zst(data), folder)
        assert (out / "a/b.h5").read_bytes() == b"=one"
        assert (out / long).read_bytes() == b"=two"
        assert leftovers(folder) == ["a.tar.zst", "out"]


def test_a_bare_zst_is_the_file_itself(tmp_path):
    out = unpack(zst(b"=content"), tmp_path, "x.h5.zst")
    assert (out / "x.h5").read_bytes() == b"=content"


HOSTILE = {
    "traversal": ([("../x", b"=")], "leave the folder"),
    "inner traversal": ([("a/../../x", b"=")], "leave the folder"),
    "absolute": ([("/etc/x", b"=")], "absolute"),
    "backslash": ([("..\\x", b"=")], "backslash"),
    "drive": ([("C:/x", b"=")], "drive"),
    "newline": ([("a\nb", b"=")], "unprintable"),
    "long": ([("x" * 201, b"=")], "too long"),
    "long path": ([("x/" * 600 + "y", b"=")], "too long"),
    "no name": ([("./", b"=")], "without a name"),
    "symbolic link": ([("a", tarfile.SYMTYPE)], "symbolic link"),
    "hard link": ([("a", tarfile.LNKTYPE)], "hard link"),
    "character device": ([("a", tarfile.CHRTYPE)], "special file"),
    "block device": ([("a", tarfile.BLKTYPE)], "special file"),
    "fifo": ([("a", tarfile.FIFOTYPE)], "special file"),
    "contiguous": ([("a", tarfile.CONTTYPE)], "special file"),
    "twice": ([("a", b"="), ("./a", b"=")], "twice"),
    "twice but for case": ([("a", b"="), ("A", b"=")], "twice"),
    "file, then folder": ([("a", b"="), ("a/b", b"=")], "in a file"),
    "folder, then file": ([("a", tarfile.DIRTYPE), ("a", b"=")], "twice"),
    "many": ([(f"{i}", b"=") for i in range(65)], "limit of 64 members"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_members_are_refused_and_leave_nothing(tmp_path, what):
    members, why = HOSTILE[what]
    with pytest.raises(archive.Refused, match=why):
        unpack(zst(tar(("good.h5", b"=good"), *members)), tmp_path)
    assert leftovers(tmp_path) == ["a.tar.zst"]


def with_headers(**headers):
    """A tar of one empty file with these pax headers."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        info = tarfile.TarInfo("a")
        info.pax_headers = headers
        file.addfile(info)
    return out.getvalue()


def test_a_sparse_member_is_refused(tmp_path):
    """Its header may promise a terabyte in 512 bytes (here less, in case the test fails)."""
    sparse = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.realsize": str(10**8)}
    for data in (
        tar(("a", tarfile.GNUTYPE_SPARSE), form=tarfile.GNU_FORMAT),
        with_headers(**sparse, **{"GNU.sparse.map": "0,0"}),
    ):
        with pytest.raises(archive.Refused, match="special file"):
            unpack(zst(data), tmp_path)


def test_headers_that_upset_the_parser_are_refused(tmp_path):
    no_number = with_headers(**{"GNU.sparse.map": "x"})
    endless = tar(("a" * 150, b"="), form=tarfile.GNU_FORMAT)[:1024] * 1500  # a long name of a long name of a ...
    for data in (no_number, endless):
        with pytest.raises(archive.Refused):
            unpack(zst(data), tmp_path)
        assert leftovers(tmp_path) == ["a.tar.zst"]


def test_bombs_are_refused_before_they_fill_anything(tmp_path):
    zeros = bytes(100_000_000)
    for name, data in (("a.tar.zst", tar(("a", b"=" + zeros))), ("a.h5.zst", zeros)):
        with pytest.raises(archive.Refused, match="more than 50 times its size"):
            unpack(zst(data), tmp_path, name)
    with pytest.raises(archive.Refused, match="more than the limit of 1000 bytes"):
        unpack(zst(BODY), tmp_path, "a.h5.zst", unpacked_bytes=1000)
    with pytest.raises(archive.Refused, match="bytes of headers"):
        unpack(zst(with_headers(comment="x" * 5_000_000)), tmp_path)
    assert leftovers(tmp_path) == ["a.h5.zst", "a.tar.zst"]


def test_damage_is_refused(tmp_path):
    whole = tar(("a", b"=" + BODY))
    header = bytearray(tar(("a", b"=" + BODY), ("b", b"=")))
    header[512 + 50_176 + 10] ^= 1  # in the header of b: tarfile alone would take it for the end
    damaged = {
        "cut zstd": zst(whole)[:-100],
        "cut behind the tar": zst(whole + np.random.default_rng(0).bytes(3_000_000))[:-100],
        "not zstd": b"<html>please log in</html>",
        "empty": b"",
        "trailing rubbish": zst(whole) + b"rubbish",
        "cut tar": zst(whole[:20_000]),
        "not tar": zst(BODY),
        "bad header": zst(bytes(header)),
    }
    for what, data in damaged.items():
        with pytest.raises(archive.Refused, match="not whole|not zstd|not tar|unexpected end"):
            unpack(data, tmp_path)
        assert leftovers(tmp_path) == ["a.tar.zst"], what


NASTY = st.lists(
    st.sampled_from(
        ["..", ".", "", "a", "A", "b.h5", "C:", "\\", "\0", "\n", "~", "é", "\u202e", "x" * 300, " ", "*", "-r"]
    )
    | st.text(max_size=5),
    min_size=1,
    max_size=5,
).map("/".join)


@settings(max_examples=100, deadline=None)
@given(st.lists(NASTY, min_size=1, max_size=3))
def test_whatever_the_names_nothing_is_written_outside(names):
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.object(os, "fsync"),
    ):  # hundreds of them need not reach the disk
        inner = Path(root, "inner")
        inner.mkdir()
        try:
            data = tar(*((name, b"=x") for name in names))
        except (ValueError, UnicodeError):  # tarfile itself cannot write such a name
            return
        try:
            out = unpack(zst(data), inner)
        except archive.Refused:
            assert leftovers(inner) == ["a.tar.zst"]
        else:
            files = [path for path in out.rglob("*") if path.is_file()]
            assert len(files) == len(names)
            assert all(path.read_bytes() == b"=x" and out in path.parents for path in files)
            assert leftovers(inner) == ["a.tar.zst", "out"]
        assert leftovers(Path(root)) == ["inner"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2559), st.integers(0, 255)), min_size=1, max_size=8), st.booleans())
def test_a_damaged_tar_is_refused_or_harmless(changes, checksum):
    """Any bytes of the headers changed, with their checksums mended or not: never anything but Refused, nothing outside."""
    data = bytearray(tar(("a", tarfile.DIRTYPE), ("a/b", b"=x"), ("x" * 150, b"=y"), form=tarfile.GNU_FORMAT))
    for at, value in changes:
        data[at] = value
    if checksum:
        for at in range(0, len(data), 512):
            total = sum(data[at : at + 148]) + 8 * 32 + sum(data[at + 156 : at + 512])
            data[at + 148 : at + 156] = b"%06o\0 " % total
    with tempfile.TemporaryDirectory() as root, mock.patch.object(os, "fsync"):
        with contextlib.suppress(archive.Refused):
            unpack(zst(bytes(data)), Path(root))
        assert set(leftovers(Path(root))) <= {"a.tar.zst", "out"}
        assert not any(path.is_symlink() for path in Path(root).rglob("*"))


# Released files -------------------------------------------------------------------------------------------------------

LENGTHS = np.array([31, 5, 28])
SIDE = 24
THEIRS = {  # columns of the released files, as far as we use them, with their types
    "two_room": {"action": (2, "f4"), "proprio": (2, "f4"), "pos_agent": (2, "f4"), "pos_target": (2, "f4")},
    "reacher": {"action": (2, "f8"), "qpos": (2, "f8"), "qvel": (2, "f8"), "observation": (6, "f8")},
    "push_t": {"action": (2, "f4"), "state": (7, "f4"), "proprio": (4, "f4")},
    "cube": {
        **{"action": (5, "f4"), "qpos": (21, "f8"), "qvel": (20, "f8"), "observation": (28, "f8")},
        **{"proprio_effector_pos": (3, "f8"), "proprio_effector_yaw": (1, "f8")},
    },
}
PACKING = {
    "gzip": {"chunks": (7, SIDE, SIDE, 3), "compression": "gzip"},
    "blosc": {"chunks": (10, SIDE, SIDE, 3), **hdf5plugin.Blosc()},
    "plain": {},
}


def columns(env, lengths=LENGTHS):
    rng, rows = np.random.default_rng(1), int(lengths.sum())
    made = {name: rng.uniform(40, 180, (rows, width)).astype(kind) for name, (width, kind) in THEIRS[env].items()}
    made["action"][np.cumsum(lengths) - 1] = np.nan
    made["pixels"] = rng.integers(0, 256, (rows, SIDE, SIDE, 3), dtype=np.uint8)
    if env == "two_room":
        world = make(env)
        world.restore(made["proprio"])
        made["pixels"] = world.render(SIDE)
    return made


def write_released(path, made, index="ep_idx", listed=True, packing="gzip", lengths=LENGTHS):
    with h5py.File(path, "w") as file:
        for name, values in made.items():
            file.create_dataset(name, data=values, **(PACKING[packing] if name == "pixels" else {}))
        if index:
            file[index] = np.repeat(np.arange(len(lengths)) + 7, lengths)  # the numbers need not begin at 0
        if listed:
            file["ep_len"] = lengths.astype(np.int32)
            file["ep_offset"] = np.cumsum(lengths) - lengths
        file["step_idx"] = np.concatenate([np.arange(n) for n in lengths])
    return path


@pytest.fixture(scope="session")
def two_room(tmp_path_factory):
    """The bytes of a small tworoom.tar.zst."""
    path = write_released(tmp_path_factory.mktemp("released") / "tworoom.h5", columns("two_room"))
    return packed(path)


def packed(path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        file.add(path, path.name)
    return zst(out.getvalue())


def source_of(mirror, *urls, known=True, file="tworoom.tar.zst"):
    known = {"sha256": sha(mirror.body), "bytes": len(mirror.body)} if known else {}
    return Source(mirrors=urls, repo="quentinll/lewm-tworooms", file=file, **known)


def fetch(source, out, **more):
    return released.run("two_room", source, out, patience=HASTY, **more)


def our_state(env, made):
    """What the states of our environments hold, from a released file's columns."""

    def zeros(n):
        return np.zeros((len(made["action"]), n))

    if env == "two_room":
        return made["proprio"]
    if env == "push_t":
        return np.hstack([made["state"], zeros(3)])
    if env == "reacher":
        return np.hstack([made["qpos"], made["qvel"], zeros(2), made["qpos"]])
    pose = [made["proprio_effector_pos"], convert.facing_down(made["proprio_effector_yaw"])]
    return np.hstack([made["qpos"], made["qvel"], zeros(20), *pose])


@pytest.mark.parametrize(
    ("env", "index", "listed", "packing"),
    [
        ("two_room", "ep_idx", True, "blosc"),
        ("reacher", "ep_idx", False, "gzip"),
        ("push_t", "episode_idx", True, "plain"),
        ("push_t", "episode_idx", False, "blosc"),
        ("cube", "ep_idx", True, "gzip"),
        ("cube", None, True, "gzip"),
    ],
)
def test_the_store_opens_what_was_converted(tmp_path, monkeypatch, env, index, listed, packing):
    monkeypatch.setattr(convert, "MEMORY", 20 * SIDE * SIDE * 3)  # several blocks
    made = columns(env)
    found = convert.open_released(write_released(tmp_path / "theirs.h5", made, index, listed, packing), env)
    assert np.array_equal(found.lengths, LENGTHS)
    assert np.array_equal(found.offsets, [0, 31, 36])
    convert.convert(found, tmp_path / "ours.h5")
    store = Store(tmp_path / "ours.h5")
    assert np.array_equal(store.length, LENGTHS)
    assert np.array_equal(store.pixels, made["pixels"])
    assert np.array_equal(store.action, made["action"].astype("f4"), equal_nan=True)
    assert np.array_equal(store.state, our_state(env, made))
    assert store.state.dtype == (np.float32 if env in ("two_room", "push_t") else np.float64)
    with h5py.File(tmp_path / "ours.h5") as file:
        assert np.array_equal(file["episode_idx"][:], np.repeat([0, 1, 2], LENGTHS))
        assert np.array_equal(file["step_idx"][:], np.concatenate([np.arange(n) for n in LENGTHS]))


def test_packed_and_plain_conversions_hold_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "MEMORY", 20 * SIDE * SIDE * 3)  # several blocks
    found = convert.open_released(write_released(tmp_path / "theirs.h5", columns("push_t")), "push_t")
    for name, storage in (("a.h5", "packed"), ("b.h5", "packed"), ("plain.h5", "plain")):
        convert.convert(found, tmp_path / name, storage=storage)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    mine, plain = ChunkedStore(tmp_path / "a.h5"), Store(tmp_path / "plain.h5")
    assert np.array_equal(mine.pixels[:], plain.pixels)
    assert np.array_equal(mine.state, plain.state)


@pytest.mark.parametrize("env", convert.COLUMNS)
def test_converted_states_are_as_wide_as_the_environments(env):
    assert make(env).state.shape[1] == convert.COLUMNS[env]["state"].width
    assert make(env).action_dim == convert.COLUMNS[env]["action"].width


def test_a_gripper_that_faces_down_has_the_yaw_that_the_controller_reads():
    from ogbench.manipspace.lie import SO3

    yaw = np.linspace(-3, 3, 7)[:, None]
    for angle, matrix in zip(yaw[:, 0], convert.facing_down(yaw), strict=True):
        rotation = SO3.from_matrix(matrix.reshape(3, 3))
        assert np.allclose(rotation.compute_yaw_radians(), angle)
        assert np.allclose(matrix.reshape(3, 3)[2], [0, 0, -1])


def test_frames_are_resized_and_episodes_cut(tmp_path):
    from PIL import Image

    made = columns("push_t")
    found = convert.open_released(write_released(tmp_path / "theirs.h5", made), "push_t")
    convert.convert(found, tmp_path / "ours.h5", image_size=16, episodes=2)
    store = Store(tmp_path / "ours.h5")
    assert (store.episodes, store.image_size) == (2, 16)
    small = Image.fromarray(made["pixels"][35]).resize((16, 16), Image.Resampling.BILINEAR)
    assert np.array_equal(store.pixels[35], np.asarray(small))


def test_blocks_fit_into_memory_and_begin_with_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(convert, "MEMORY", 20 * SIDE * SIDE * 3)
    for packing, step in (("gzip", 14), ("plain", 20)):
        with h5py.File(write_released(tmp_path / packing, columns("push_t"), packing=packing)) as file:
            found = list(convert.blocks(file["pixels"], 50))
        assert [block.start for block in found] == list(range(0, 50, step))
        assert found[-1].stop == 50


def broken_files(folder):
    """Files that are not as they should be -> what the message says"""
    made = columns("push_t")

    def write(name, **more):
        return write_released(folder / name, made, **more)

    without = {name: values for name, values in made.items() if name != "state"}
    yield (
        write_released(folder / "a.h5", without),
        "no column state for state of push_t; it holds action, ep_idx, ep_len",
    )
    yield write("b.h5", index=None, listed=False), "no column ep_len, episode_idx or ep_idx"
    yield (
        write_released(folder / "c.h5", {**made, "state": made["proprio"]}),
        "state of push_t has 10 numbers a row, found are 7",
    )
    yield write_released(folder / "d.h5", {**made, "pixels": made["pixels"].astype("f4")}), "expected uint8"
    with h5py.File(write("e.h5"), "a") as file:
        file["ep_idx"][3] = 99  # in the middle of an episode
    yield folder / "e.h5", "does not number"
    with h5py.File(write("f.h5"), "a") as file:
        file["ep_len"][:2] = [30, 6]
    yield folder / "f.h5", "do not add up|disagree"
    (folder / "g.h5").write_bytes(b"not HDF5")
    yield folder / "g.h5", "cannot be read as HDF5"
    secret = folder / "secret"
    secret.write_bytes(bytes(int(LENGTHS.sum()) * 2 * 4))
    for name, link in (("h.h5", h5py.ExternalLink("other.h5", "/x")), ("i.h5", h5py.SoftLink("/state"))):
        with h5py.File(write(name), "a") as file:
            del file["action"]
            file["action"] = link
        yield folder / name, "action is a link"
    with h5py.File(write("j.h5"), "a") as file:
        del file["action"]
        file.create_dataset("action", (LENGTHS.sum(), 2), "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
    yield folder / "j.h5", "takes its data from other files"


def test_files_that_are_not_as_they_should_be_are_named_with_what_was_found(tmp_path):
    for path, why in broken_files(tmp_path):
        with pytest.raises(UserError, match=why) as caught:
            convert.open_released(path, "push_t")
        assert path.name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_missing_action_inside_an_episode_is_refused(tmp_path):
    made = columns("push_t")
    made["action"][33] = np.nan
    found = convert.open_released(write_released(tmp_path / "x.h5", made), "push_t")
    with pytest.raises(UserError, match=r"NaN action inside episode 1 \(step 2\)"):
        convert.convert(found, tmp_path / "ours.h5")


# The whole verb -------------------------------------------------------------------------------------------------------


def test_fetch_from_the_hub_layout_to_a_verified_file_with_its_card(serve, tmp_path, two_room):
    mirror = Mirror(two_room)
    card = fetch(source_of(mirror, serve(mirror)), tmp_path / "episodes.h5")
    assert mirror.asked == [("/datasets/quentinll/lewm-tworooms/resolve/main/tworoom.tar.zst", None)]
    assert (
        artefacts.verified(tmp_path / "episodes.h5")
        == json.loads((tmp_path / "episodes.card.json").read_text())
        == card
    )
    assert (card["episodes"], card["rows"], card["image_size"]) == (3, 64, SIDE)
    assert card["released"] == {"sha256": sha(two_room), "bytes": len(two_room)}
    assert card["checksum"] == "known before"
    assert card["columns"]["goal_state"] == ["pos_target"]
    assert card["renderer_difference"] == {"mean": 0.0, "max": 0}  # its frames are our world
    assert 0 <= card["trivial_share"] <= 1
    assert 0 <= card["success_share"] <= 1
    assert Store(tmp_path / "episodes.h5").episodes == 3
    assert leftovers(tmp_path / "released") == [".tworoom.tar.zst.lock", "tworoom.tar.zst"]


def test_a_second_fetch_needs_no_network_and_gives_the_same_bytes(serve, tmp_path, two_room):
    mirror = Mirror(two_room)
    source = source_of(mirror, serve(mirror))
    first = fetch(source, tmp_path / "episodes.h5")
    (tmp_path / ".episodes.h5.killed.part.h5").touch()
    assert fetch(source, tmp_path / "episodes.h5") == first
    assert len(mirror.asked) == 1
    assert leftovers(tmp_path) == ["episodes.card.json", "episodes.h5", "released"]
    (tmp_path / "released/tworoom.tar.zst").write_bytes(b"changed")
    with pytest.raises(UserError, match="bytes, .* are expected; delete the file"):
        fetch(source, tmp_path / "episodes.h5")


def test_an_unknown_checksum_is_refused_unless_the_first_use_is_trusted(serve, tmp_path, two_room):
    mirror = Mirror(two_room)
    source = source_of(mirror, serve(mirror), known=False)
    with pytest.raises(UserError, match="--trust-first-use"):
        fetch(source, tmp_path / "episodes.h5")
    assert not mirror.asked
    card = fetch(source, tmp_path / "episodes.h5", trust_first_use=True)
    assert card["released"]["sha256"] == sha(two_room)
    assert card["checksum"] == "trusted at first use"


def test_what_does_not_open_is_not_trusted_at_first_use(serve, tmp_path, two_room):
    mirror = Mirror(two_room[:-1000])
    with pytest.raises(UserError, match="Truncated"):
        fetch(source_of(mirror, serve(mirror), known=False), tmp_path / "episodes.h5", trust_first_use=True)
    assert leftovers(tmp_path / "released") == [".tworoom.tar.zst.lock"]
    assert leftovers(tmp_path) == ["released"]


def test_mirrors_are_tried_in_order_and_a_local_one_is_read_where_it_lies(serve, tmp_path, two_room):
    wrong, right = Mirror(b"another file"), tmp_path / "mirror"
    right.mkdir()
    (right / "tworoom.tar.zst").write_bytes(two_room)
    source = source_of(Mirror(two_room), serve(wrong), "file:///nowhere/{file}", right.as_uri() + "/{file}")
    card = fetch(source, tmp_path / "out/episodes.h5")
    other = source.model_copy(update={"mirrors": (right.as_uri() + "/{file}",)})
    assert (
        fetch(other, tmp_path / "out/episodes.h5") == card
    )  # the same file from elsewhere: nothing is to be made again
    assert len(wrong.asked) == 1
    assert leftovers(tmp_path / "out/released") == [".tworoom.tar.zst.lock"]
    assert (right / "tworoom.tar.zst").read_bytes() == two_room


def test_when_nothing_is_reachable_the_message_names_each_mirror_and_the_generator(serve, tmp_path, two_room):
    gone = Mirror()
    gone.status = 404
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    source = source_of(Mirror(two_room), f"http://127.0.0.1:{port}", serve(gone), "file:///nowhere/{file}")
    with pytest.raises(UserError) as caught:
        fetch(source, tmp_path / "episodes.h5")
    text = str(caught.value)
    assert "\n" not in text
    assert re.search(
        f"127.0.0.1:{port}/.*Connection refused .tried 2 times.*HTTP 404.*nowhere/tworoom.tar.zst: no such file", text
    )
    assert "`tdjepa collect --env two_room` generates data instead" in text
    assert "collect.source.two_room: generated in params.yaml" in text


def test_an_interrupted_conversion_leaves_no_file_and_starts_from_what_was_unpacked(
    serve, tmp_path, two_room, monkeypatch
):
    mirror = Mirror(two_room)
    source = source_of(mirror, serve(mirror))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(convert, "resized", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch(source, tmp_path / "episodes.h5")
    assert leftovers(tmp_path) == ["released"]
    with monkeypatch.context() as patch:
        patch.setattr(archive, "unpack", interrupt)  # not needed again
        fetch(source, tmp_path / "episodes.h5")
    assert Store(tmp_path / "episodes.h5").episodes == 3


def test_two_fetches_of_a_file_do_not_meet(serve, tmp_path, two_room):
    mirror = Mirror(two_room)
    source = source_of(mirror, serve(mirror))
    (tmp_path / "released").mkdir()
    with (
        released.locked(tmp_path / "released/.tworoom.tar.zst.lock"),
        pytest.raises(UserError, match="another `tdjepa fetch`"),
    ):
        fetch(source, tmp_path / "episodes.h5")
    assert not mirror.asked


def test_one_hdf5_file_is_expected(serve, tmp_path):
    mirror = Mirror(zst(tar(("a.h5", b"="), ("b.h5", b"="), ("._a.h5", b"="))))
    with pytest.raises(UserError, match=r"one HDF5 file is expected in it, found: a\.h5, b\.h5"):
        fetch(source_of(mirror, serve(mirror)), tmp_path / "episodes.h5")


def test_a_machine_without_the_simulator_still_gets_the_data(serve, tmp_path, two_room, monkeypatch):
    def no_graphics(_):
        raise RuntimeError("no display")

    monkeypatch.setattr(released, "make", no_graphics)
    mirror = Mirror(two_room)
    card = fetch(source_of(mirror, serve(mirror)), tmp_path / "episodes.h5")
    assert card["simulator"] == "not asked: RuntimeError: no display"
    assert card["trivial_share"] is None


# In the workflow ------------------------------------------------------------------------------------------------------


@pytest.mark.pipeline
def test_one_word_chooses_the_source_and_another_mirror_makes_nothing_again(serve, data, tmp_path):
    """A data set of ours, served as if it were the released one: it has the columns."""
    mirror = Mirror(packed(data / "episodes.h5"))
    clone = Clone.of_project(tmp_path / "a clone")
    clone.change("scale", "smoke")
    clone.change("scales.smoke.envs", ["two_room", "reacher"])
    assert clone.planned("collect_all") == {"collect_two_room", "collect_reacher"}
    clone.change("scales.smoke.collect.source.two_room", "released")
    clone.change("scales.smoke.collect.storage", "packed")
    clone.change("scales.smoke.envs", ["two_room"])
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nowhere = f"http://127.0.0.1:{unused.getsockname()[1]}"
    clone.change("fetch.mirrors", [nowhere])
    said = clone.snakemake("mine_all", status=1)
    assert "Connection refused" in said
    assert "collect.source.two_room: generated in params.yaml" in said
    clone.change("fetch.mirrors", [serve(mirror)])
    clone.change("fetch.sha256", {"two_room": sha(mirror.body)})
    with clone.executed() as jobs:
        clone.snakemake("mine_all")
    assert jobs == {"fetch_two_room", "mine_two_room"}
    got, given = ChunkedStore(clone.path / "data/smoke/episodes/two_room/episodes.h5"), Store(data / "episodes.h5")
    assert np.array_equal(got.pixels[:], given.pixels)
    assert np.array_equal(got.state, given.state)
    clone.change("fetch.mirrors", [nowhere])
    assert clone.planned("mine_all") == set()
    clone.change("scales.smoke.collect.source.two_room", "generated")
    assert clone.planned("mine_all") == {"collect_two_room", "mine_two_room"}


# Sources --------------------------------------------------------------------------------------------------------------


def test_the_four_released_files_have_a_checksum_columns_and_an_address_on_the_hub():
    assert set(RELEASED) == set(convert.COLUMNS) == {"two_room", "reacher", "push_t", "cube"}
    for env, source in RELEASED.items():
        assert source.sha256, env
        assert source.bytes < source.limits.archive_bytes
        assert source.urls == (f"https://huggingface.co/datasets/{source.repo}/resolve/main/{source.file}",)


def test_another_mirror_keeps_the_checksum_and_another_checksum_drops_the_size():
    there = released_source("cube", ("http://mirror.test/hf/", "file:///data/{file}"))
    assert there.sha256 == RELEASED["cube"].sha256
    assert there.urls[0] == "http://mirror.test/hf/datasets/quentinll/lewm-cube/resolve/main/cube_single_expert.tar.zst"
    assert there.urls[1] == "file:///data/cube_single_expert.tar.zst"
    assert released_source("cube", sha256="0" * 64).bytes is None


@pytest.mark.parametrize(
    "mirror", ["ftp://x", "x", "https://user:word@x", "https://x?token=1", "javascript:1", "http://"]
)
def test_a_mirror_that_is_none_is_refused(mirror):
    with pytest.raises(UserError, match="mirror"):
        released_source("two_room", (mirror,))


@pytest.mark.parametrize("name", ["../x.h5", "/x.h5", "a/../x.h5", "x.zip", "x y.h5", "{repo}.h5"])
def test_a_file_name_that_could_leave_its_folder_is_refused(name):
    with pytest.raises(ValueError, match="file"):
        Source(repo="a/b", file=name)
