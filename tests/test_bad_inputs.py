"""Thousands of bad inputs, made from good ones: whatever is wrong, the answer is one clear line. Never another exception,
never a crash of a library underneath, never a hang or a memory without end.

Files that C libraries parse are opened in a child process with bounds on memory and time, many files a child.
"""

import contextlib
import copy
import functools
import json
import math
import pickle
import shutil
from datetime import date
from pathlib import Path, PurePosixPath

import h5py
import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from children import Child
from conftest import ROOT
from readers import open_each, read_rows, use_episodes
from synthetic import outcomes
from tdjepa.base import artefacts
from tdjepa.base.errors import UserError
from tdjepa.base.streams import stream
from tdjepa.config.load import load, resolve_every_scale
from tdjepa.config.schema import schema
from tdjepa.config.yaml_file import read_yaml
from tdjepa.data import store
from tdjepa.evidence import rows
from tdjepa.mining import manifest, split
from tdjepa_workflow import files as phases

FILES = 1000  # damaged ones of each kind
SCHEMA = jsonschema.Draft202012Validator(schema())
MANY = settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
CHARACTERS = "aZ7 _-./\\'\"{}[]:#&*$%\0\n\t\x7fé漢\u200b\u202e\ud800😀"  # all of Unicode takes seconds to list
WORDS = st.text(CHARACTERS, max_size=3)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-(2**63), 2**63, 10**30, math.nan, math.inf, -math.inf, -0.0, 1e308, date(2026, 1, 1)]),
    st.sampled_from(["", "..", "../../etc", "a/b", "/", "$(touch x)", "a\nb", "\0", "two_room", "ü" * 300, "{x}"]),
    st.lists(st.integers(-1, 2) | WORDS, max_size=3),
    st.dictionaries(st.sampled_from(["weight", "lr", "env", "x", "../y", "épée"]), st.integers() | WORDS),
)


def clear(error: UserError) -> str:
    """A line a problem, each of them readable at a terminal."""
    text = str(error)
    assert text.strip()
    for line in text.split("\n"):
        assert 10 < len(line) < 600, line
        assert line.isprintable(), line
        assert "Traceback" not in line
    return text


def tried(read, *args):
    """What it returns; nothing if it refuses, which it does clearly."""
    try:
        return read(*args)
    except UserError as error:
        clear(error)


def paths(tree, path=()):
    """Every place in a tree of mappings and lists."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths(value, (*path, key))


NAMES = st.sampled_from(["x", "../x", "lr", 7, True, None, date(2026, 1, 1), ("a", 1)])
DONE = st.sampled_from(["replace", "replace", "remove", "add"])


def changed(tree):
    """The tree with one to three places replaced, removed or added to; what is not changed is shared with it."""
    places = st.sampled_from(list(paths(tree)))  # listed once: it takes longer than a change
    steps = st.lists(st.tuples(places, DONE, NAMES, ODD), min_size=1, max_size=3)
    return steps.map(lambda drawn: functools.reduce(change, drawn, tree))


def change(tree, step):
    (key, *rest), done, name, value = step
    tree = copy.copy(tree)
    there = range(len(tree)) if isinstance(tree, list) else tree
    if key not in there:
        return tree  # an earlier step removed it
    if rest:
        tree[key] = change(tree[key], (rest, done, name, value)) if isinstance(tree[key], dict | list) else value
    elif done == "replace":
        tree[key] = value
    elif done == "remove":
        del tree[key]
    elif isinstance(tree, dict):
        tree[name] = value
    else:
        tree.append(value)
    return tree


# Parameters -----------------------------------------------------------------------------------------------------------


def raw() -> dict:
    content = yaml.safe_load((ROOT / "params.yaml").read_text())
    smoke = content["scales"]["smoke"] | {"methods_run": ["tdjepa", "lewm"], "train_seeds": [3072]}
    scales = {"smoke": smoke, "mine": {"like": "smoke", "train": {"lr": 1.0e-4}}}
    return content | {"scale": "smoke", "scales": scales}


@MANY
@given(changed(raw()))
def test_parameters(content):
    if (p := tried(resolve_every_scale, content, "smoke")) is None:
        return
    SCHEMA.validate(content)  # it never refuses what is right
    for path in (path for listed in phases.Files(p).phases().values() for path in listed):  # and no file is elsewhere
        parts = PurePosixPath(path).parts
        assert parts[:2] in (("data", "smoke"), ("results", "smoke"))
        assert ".." not in parts


@settings(MANY, max_examples=300)
@given(st.data())
def test_a_damaged_parameter_file(tmp_path_factory, data):
    """Characters cut out, put in or exchanged anywhere in a YAML file; the small one is read by the same function."""
    text = (ROOT / "workflow/bands/desk.yaml").read_bytes()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        put = data.draw(st.sampled_from([b"", b"\0", b"\xff", b"&a", b"*a", b"!!python/name:os.dup", b"!!int x", b"{"]))
        text = text[:at] + put + text[at + data.draw(st.integers(0, 3)) :]
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_bytes(text)
    tried(read_yaml, path)


LAUGHS = zip("abcdefghijk", "bcdefghijkl", strict=True)  # each line holds ten times the one before
HOSTILE = {
    "laughs": "a: &a [x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in LAUGHS),
    "itself": "a: &a [*a]",
    "itself mapped": "a: &a {b: *a}",
    "deep": "[" * 1_000_000,
    "deep block": "- " * 1_000_000,
    "date": "a: 2026-99-99",
    "stamp": "!!timestamp x",
    "bool": "!!bool maybe",
    "keys": "? [1, 2]\n: 3\n? {a: b}\n: 3",
    "twice": "a: {b: 1, c: 2, b: 3}",
    "no map": "!!map [1]",
    "digits": "a: " + "9" * 5000,
    "code": "!!python/object/apply:os.mkdir [owned]",
    "utf-16": "\ud800".encode("utf-16", "surrogatepass"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_yaml(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "params.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as error:
        load(path, "smoke")
    clear(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["params.yaml"]


# Manifests, splits and cards ------------------------------------------------------------------------------------------

LENGTHS = np.array([30, 40, 50])
ENTRIES = np.array([[0, 2], [1, 3], [2, 20]])
LOCKED = manifest.to_json("two_room", "test", 7, 25, ENTRIES, np.array([False, True, False]), "ab" * 32)


def json_of(tree) -> str:
    return json.dumps(tree, default=str, skipkeys=True)


@MANY
@given(changed(LOCKED), st.booleans())
def test_manifests(tmp_path_factory, content, hashed):
    if hashed and isinstance(content, dict):  # who forges a manifest forges its hash too
        with contextlib.suppress(TypeError, ValueError, KeyError, OverflowError):
            content["sha256_of_lines"] = manifest.lines_sha256(np.asarray(content["entries"], np.int64).reshape(-1, 2))
    path = tmp_path_factory.getbasetemp() / "manifest.json"
    path.write_text(json_of(content))
    if (found := tried(manifest.read, path, "two_room", LENGTHS, 25, "ab" * 32)) is None:
        return
    episode, start = found["entries"].T
    assert ((episode >= 0) & (start >= 0)).all()
    assert (start + 25 < LENGTHS[episode]).all()
    assert len(found["trivial"]) == len(found["entries"])


@settings(MANY, max_examples=500)
@given(changed({"train": [0, 1, 2], "validation": [3], "test": [4, 5]}))
def test_splits(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "split.json"
    path.write_text(json_of(content))
    if (found := tried(split.read, path, 6)) is not None:
        assert {e for part in found.values() for e in part} <= set(range(6))
        assert all(found.values())


@settings(MANY, max_examples=300)
@given(changed({"file": "x", "sha256": "00" * 32, "params": {"a": 1}, "inputs": {}}))
def test_cards(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "x.bin"
    path.write_text("x")
    artefacts.card_path(path).write_text(json_of(content))
    with pytest.raises(UserError) as error:
        artefacts.verified(path)
    clear(error.value)


def test_json_that_is_none(tmp_path):
    for content in (b"[" * 100_000, b"\xff\xfe", b"", b"9" * 5000, b'{"a": 1,}'):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(UserError, match=r"x\.json: not JSON") as error:
            artefacts.read_json(tmp_path / "x.json")
        clear(error.value)
    with pytest.raises(UserError, match="cannot be read"):
        artefacts.read_json(tmp_path)


# Row files and episodes: parsed by C libraries ------------------------------------------------------------------------


def outcomes_of(opened, files: list[Path], folder: Path) -> list[str]:
    """ "" or the message of the UserError for each file; a child process opens them (readers.py)."""
    log = folder / "answers"
    log.write_bytes(b"")
    child = Child(open_each, opened, files, log, said=folder / "said")
    status, answers = child.wait(), []
    with open(log, "rb") as file:
        while file.peek():
            answers.append(pickle.load(file))
    assert status == 0, f"{files[len(answers)]}: exit {status}\n{child.said.read_text()}"
    return answers


def damage(whole: bytes, rng: np.random.Generator) -> bytes:
    """Bytes flipped, runs overwritten, the end cut off, or a number replaced by a large or negative one."""
    content = bytearray(whole)
    match rng.integers(4):
        case 0:
            return bytes(content[: rng.integers(len(content))])
        case 1:
            for at in rng.integers(len(content), size=rng.integers(1, 5)):
                content[at] ^= 1 << rng.integers(8)
        case 2:
            at, n = rng.integers(len(content)), rng.integers(1, 40)
            content[at : at + n] = rng.bytes(len(content[at : at + n]))
        case 3:
            at = 8 * rng.integers(len(content) // 8)
            content[at : at + 8] = int(rng.choice([-1, 2**31, 2**40, 2**62])).to_bytes(8, "little", signed=True)
    return bytes(content)


def refusals(opened, whole: Path, folder: Path) -> list[str]:
    """What is said of damaged copies of the file; the others differ in what may be so, or in bytes that nobody reads."""
    rng, files = stream(7, "damage", whole.name), [folder / f"{k}_{whole.name}" for k in range(FILES)]
    for path in files:
        path.write_bytes(damage(whole.read_bytes(), rng))
    answers = outcomes_of(opened, files, folder)
    assert all(answer.startswith(f"{path}: ") for path, answer in zip(files, answers, strict=True) if answer)
    return [clear(UserError(answer)) for answer in answers if answer]


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    outcomes(np.ones((1, 2, 3))).to_parquet(path, index=False)
    return path


def test_damaged_row_files(rows_file, tmp_path):
    assert len(refusals(read_rows, rows_file, tmp_path)) > FILES / 2


ARRAYS = {
    **{"nothing": None, "text": "x", "numbers": -5, "nan": math.nan, "huge": np.uint64(2**64 - 1), "lists": [1]},
    **{"booleans": True, "times": date(2026, 1, 1), "bytes": b"\xff", "mappings": {"a": 1}},
}


@pytest.mark.parametrize("kind", [*ARRAYS, "remove", "twice", "no rows", "some empty"])
def test_row_files_with_other_columns(tmp_path, rows_file, kind):
    whole, path = pq.read_table(rows_file), tmp_path / "changed.parquet"
    for name in (*rows.COLUMNS, *rows.OPTIONAL, "other"):
        pq.write_table(with_other_column(whole, name, kind), path)
        if (found := tried(rows.read, [path])) is None:
            continue
        assert set(rows.COLUMNS) <= set(found.columns)
        assert found["success"].dtype == bool
        whole_numbers = found[["train_seed", "plan_seed", "episode", "start", "epoch", "steps"]]
        assert whole_numbers.dtypes.map(pd.api.types.is_integer_dtype).all()


def with_other_column(table: pa.Table, name: str, kind: str) -> pa.Table:
    exists, n = name in table.column_names, len(table)
    if kind == "no rows":
        return table.slice(0, 0)
    if kind == "twice":
        table = table.append_column(name, pa.array(["x"] * n))
        return table.append_column(name, pa.array([1.0] * n))
    if kind in ARRAYS:
        without = table.drop_columns([name]) if exists else table
        return without.append_column(name, pa.array([ARRAYS[kind]] * n))
    if exists:
        _, *column = table.column(name).to_pylist()
        table = table.drop_columns([name])
        return table if kind == "remove" else table.append_column(name, pa.array([None, *column]))
    return table


@pytest.fixture(scope="module", params=["plain", "packed"])
def episodes_file(request, tmp_path_factory):
    """Two small episodes in either storage."""
    path = tmp_path_factory.mktemp("episodes") / f"{request.param}.h5"
    columns = {"pixels": ((16, 16, 3), "u1"), "action": ((2,), "f4"), "state": ((3,), "f4")}
    rng = stream(1, "episodes")
    with store.create(path, np.array([4, 3]), columns, request.param) as file:
        for name in columns:
            file[name][:] = rng.integers(0, 255, file[name].shape)
    return path


def test_damaged_episodes(episodes_file, tmp_path):
    assert len(refusals(use_episodes, episodes_file, tmp_path)) > FILES / 4  # half of a plain file are frames


def replaced(make):
    """Take a column out and put in what make(file, name, old shape, old type) makes."""

    def change(file, name):
        shape, dtype = file[name].shape, file[name].dtype
        del file[name]
        make(file, name, shape, dtype)

    return change


def link(to):
    return replaced(lambda file, name, *_: file.__setitem__(name, to))


def other_kind(kind, shape=None):
    return replaced(lambda file, name, old, _: file.create_dataset(name, old if shape is None else shape, kind))


PASSWD = [("/etc/passwd", 0, h5py.h5f.UNLIMITED)]
CHANGES = {
    "link": link(h5py.ExternalLink("other.h5", "state")),
    "soft link": link(h5py.SoftLink("/nowhere")),
    "other file": replaced(lambda file, name, old, kind: file.create_dataset(name, old, kind, external=PASSWD)),
    "endless": replaced(
        lambda file, name, old, kind: file.create_dataset(name, (10**13, *old[1:]), kind, chunks=(1, *old[1:]))
    ),
    "group": replaced(lambda file, name, *_: file.create_group(name)),
    "missing": replaced(lambda *_: None),
    "text": other_kind(h5py.string_dtype()),
    "pairs": other_kind(np.dtype([("a", "f4"), ("b", "i4")])),
    "scalar": other_kind("f4", ()),
    "complex": other_kind("c8"),
    "no rows": other_kind("f4", (0, 2)),
    "five dimensions": other_kind("f4", (7, 1, 1, 1, 1)),
    "negative": lambda file, name: file[name].__setitem__(..., -1) if name[:3] == "ep_" else file.__delitem__(name),
}


@pytest.mark.parametrize("name", ["ep_len", "ep_offset", "pixels", "action", "state"])
def test_episodes_with_other_columns(name, episodes_file, tmp_path):
    files = []
    for kind, change in CHANGES.items():
        files.append(tmp_path / f"{kind}.h5")
        shutil.copyfile(episodes_file, files[-1])
        with h5py.File(files[-1], "a") as file:
            change(file, name)
    answers = outcomes_of(use_episodes, files, tmp_path)
    for path, answer in zip(files, answers, strict=True):
        assert answer, path.name
        assert clear(UserError(answer)).startswith(f"{path}: ")
        assert "root:" not in answer
