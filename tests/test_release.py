"""`tdjepa release` and `tdjepa restore`: the same files come back, or none."""

import io
import json
import shutil
import tarfile

import pyarrow
import pytest

from released_files import leftovers
from tdjepa.base.errors import UserError
from tdjepa.tools import release


def archive(path, about, **files):
    """An archive of somebody else's."""
    out, members = io.BytesIO(), {release.LIST: json.dumps(about).encode(), **files}
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members.items():
            tar.addfile(release._member(name, len(content)), io.BytesIO(content))
    path.write_bytes(pyarrow.compress(out.getvalue(), codec="zstd", asbytes=True))
    return path


NAME = "results/smoke/rows/two_room/a.parquet"
BAD = {
    "another sum": ({"scale": "smoke", "files": {NAME: "0" * 64}}, {NAME: b"x"}, "sha256 of results/smoke"),
    "not listed": ({"scale": "smoke", "files": {NAME: "0" * 64}}, {"other": b"x"}, "but not in both"),
    "elsewhere": (
        {"scale": "smoke", "files": {"src/x.py": "0" * 64}},
        {"src/x.py": b"x"},
        "is no checkpoint and no rows",
    ),
    "nothing": ({}, {}, "names no files"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_release_changes_nothing(name, tmp_path):
    about, files, why = BAD[name]
    source = archive(tmp_path / "x.tar.zst", about, **files)
    with pytest.raises(UserError, match=why):
        release.restore(source, tmp_path)
    assert leftovers(tmp_path) == ["x.tar.zst"]


@pytest.mark.pipeline
def test_a_run_goes_into_an_archive_and_comes_back(small_run, tmp_path):
    first, again = tmp_path / "first.tar.zst", tmp_path / "again.tar.zst"
    for out in (first, again):
        small_run.run("python", "-m", "tdjepa", "release", "--scale", "smoke", "--out", str(out))
    assert first.read_bytes() == again.read_bytes()
    found = release.restore(first, tmp_path / "other")
    for file in (tmp_path / "other/results").rglob("*.*"):
        if file.is_file():
            assert file.read_bytes() == (small_run.path / file.relative_to(tmp_path / "other")).read_bytes()
    names = {
        file.relative_to(tmp_path / "other").as_posix() for file in (tmp_path / "other").rglob("*.*") if file.is_file()
    }
    assert found["files"] == len(names)
    last = "results/smoke/train/two_room/tdjepa/3072/epoch_02"
    assert {f"{last}.safetensors", f"{last}.card.json", "results/smoke/rows/two_room/lewm_3072.parquet"} <= names
    assert f"{last.replace('02', '01')}.safetensors" not in names
    release.restore(first, tmp_path / "other")  # what is there already is the same
    changed = tmp_path / "other" / f"{last}.card.json"
    changed.write_text("{}")
    with pytest.raises(UserError, match="is there and differs"):
        release.restore(first, tmp_path / "other")
    assert changed.read_text() == "{}"
    shutil.rmtree(tmp_path / "other")
