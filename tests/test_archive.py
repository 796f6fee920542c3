"""Archives that cannot hurt: what is unpacked stays in its folder and within the limits, or nothing is unpacked."""

import contextlib
import io
import os
import tarfile
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from released_files import BODY, leftovers, tar, zst
from tdjepa.config.records.released import Limits
from tdjepa.data import archive


def unpack(data, folder, name="a.tar.zst", **limits):
    (folder / name).write_bytes(data)
    return archive.unpack(folder / name, folder / "out", Limits(**limits))


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_and_folders_come_out(form, tmp_path):
    long = "/".join(["deep" * 8] * 4) + "/é.h5"
    data = tar((".", tarfile.DIRTYPE), ("./a", tarfile.DIRTYPE), ("./a/b.h5", b"=one"), (long, b"=two"), form=form)
    out = unpack(zst(data), tmp_path)
    assert (out / "a/b.h5").read_bytes() == b"=one"
    assert (out / long).read_bytes() == b"=two"
    assert leftovers(tmp_path) == ["a.tar.zst", "out"]


def test_a_bare_zst_is_the_file_itself(tmp_path):
    assert (unpack(zst(b"=content"), tmp_path, "x.h5.zst") / "x.h5").read_bytes() == b"=content"


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


def test_headers_that_promise_much_or_upset_the_parser_are_refused(tmp_path):
    """A sparse member may promise a terabyte in 512 bytes (here less, in case the test fails)."""
    sparse = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.realsize": str(10**8)}
    for why, data in (
        ("special file", tar(("a", tarfile.GNUTYPE_SPARSE), form=tarfile.GNU_FORMAT)),
        ("special file", with_headers(**sparse, **{"GNU.sparse.map": "0,0"})),
        (None, with_headers(**{"GNU.sparse.map": "x"})),
        (None, tar(("a" * 150, b"="), form=tarfile.GNU_FORMAT)[:1024] * 1500),  # a long name of a long name of a ...
    ):
        with pytest.raises(archive.Refused, match=why):
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


WORDS = ["..", ".", "", "a", "A", "b.h5", "C:", "\\", "\0", "\n", "~", "é", "\u202e", "x" * 300, " ", "*", "-r"]
NASTY = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), min_size=1, max_size=5).map("/".join)


@settings(max_examples=100, deadline=None)
@given(st.lists(NASTY, min_size=1, max_size=3))
def test_whatever_the_names_nothing_is_written_outside(names):
    with tempfile.TemporaryDirectory() as root, mock.patch.object(os, "fsync"):  # hundreds need not reach the disk
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
