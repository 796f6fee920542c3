"""Packed frames: the same windows as the memory map for any number of threads, bounded memory, clear about damage."""

import gc
import os
import shutil
import threading
import tracemalloc

import h5py
import hdf5plugin
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT
from library import HDF5Dataset
from tdjepa.base import artefacts
from tdjepa.base.errors import UserError
from tdjepa.cli import main
from tdjepa.config.slices import collect_slice, diagnose_slice, evaluate_slice, mine_slice
from tdjepa.data import store as stores
from tdjepa.data.chunked import Frames
from tdjepa.data.reader import window_stream
from tdjepa.data.store import Store, create, pack
from tdjepa.mining import windows
from tdjepa.steps import collect, mine
from tdjepa.steps import diagnose as diagnosis
from tdjepa.steps import evaluate as evaluation
from tdjepa.tools import contact_sheet as sheet

WINDOW, FRAMESKIP, BATCH = 4, 5, 16


@pytest.fixture(scope="module")
def plain(data):
    return Store(data / "episodes.h5")


@pytest.fixture(scope="module")
def packed(plain, tmp_path_factory):
    path = tmp_path_factory.mktemp("packed") / "episodes.h5"
    pack(plain.path, path)
    return path


@pytest.fixture(scope="module")
def order(plain):
    first = windows.starts(plain.length, plain.offset, np.arange(plain.episodes), WINDOW, FRAMESKIP, "at_last_frame")
    return np.random.default_rng(0).permutation(first)[: 12 * BATCH + 5]  # the last batch is a short one


@pytest.fixture
def copy(packed, tmp_path):
    shutil.copy(packed, tmp_path / "x.h5")
    return tmp_path / "x.h5"


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("reader")]


def stream(store, order, workers, memory_mb=4.0):
    return window_stream(store, order, BATCH, WINDOW, FRAMESKIP, workers, memory_mb)


def damage(path, row):
    begin, size = Store(path).pixels._begin[row], Store(path).pixels._size[row]
    content = bytearray(path.read_bytes())
    content[begin + size // 2] ^= 1
    path.write_bytes(content)


def test_a_packed_store_answers_like_the_mapped_one(plain, packed):
    store = Store(packed)
    assert isinstance(store.pixels, Frames)
    assert isinstance(plain.pixels, np.memmap)
    assert store.pixels.shape == plain.pixels.shape
    assert store.image_size == plain.image_size
    for name in ("length", "offset", "action", "state"):
        assert np.array_equal(getattr(store, name), getattr(plain, name), equal_nan=True)
    assert np.array_equal(store.row([3, 1], [2, 0]), plain.row([3, 1], [2, 0]))
    for ours, theirs in zip(store.action_statistics([0, 2]), plain.action_statistics([0, 2]), strict=True):
        assert np.array_equal(ours, theirs)


def test_frames_are_indexed_like_an_array(plain, packed):
    frames, rows = Store(packed).pixels, np.array([[5, 3], [3, len(plain.pixels) - 1]])
    mask = np.zeros(len(plain.pixels), bool)
    mask[7:9] = True
    for key in (4, np.int64(4), -1, rows, rows.tolist(), slice(2, 9, 3), slice(None), mask, rows[:0]):
        assert np.array_equal(frames[key], plain.pixels[key])
    with pytest.raises(IndexError, match="out of bounds"):
        frames[[0, len(frames)]]


def test_all_columns_and_facts_are_kept_and_bytes_are_reproduced(plain, packed, tmp_path):
    card = pack(plain.path, tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == packed.read_bytes()
    assert card["raw_bytes"] == plain.pixels.nbytes > card["bytes"]
    assert (card["env"], card["rows"], card["verb"]) == ("two_room", len(plain.pixels), "pack")
    assert artefacts.verified(tmp_path / "again.h5") == card
    with h5py.File(packed) as ours, h5py.File(plain.path) as theirs:
        assert set(ours) == set(theirs)
        for name in theirs:  # through HDF5's own filters, so its checksum agrees too
            assert np.array_equal(ours[name][:], theirs[name][:], equal_nan=theirs[name].dtype.kind == "f")


def test_the_verb_packs_and_unpacks(plain, packed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    there, back = tmp_path / "there.h5", tmp_path / "back.h5"
    assert main(["pack", "--episodes", str(plain.path), "--out", str(there)]) == 0
    assert main(["pack", "--episodes", str(there), "--storage", "plain", "--out", str(back)]) == 0
    assert there.read_bytes() == packed.read_bytes()
    assert back.read_bytes() == plain.path.read_bytes()
    card = artefacts.verified(back)
    assert card["storage"] == "plain"
    assert card["length_mean"] == artefacts.verified(plain.path)["length_mean"]
    assert main(["pack", "--episodes", str(back), "--out", str(back)]) == 2
    assert "is the file that is read" in capsys.readouterr().err


def test_a_collection_written_packed_is_the_packed_collection(smoke, packed, tmp_path):
    cfg = collect_slice(smoke, "two_room").model_copy(update={"storage": "packed"})
    for name in ("a.h5", "b.h5"):
        card = collect.run(cfg, tmp_path / name)
        assert card["storage"] == "packed"
        assert (tmp_path / name).read_bytes() == packed.read_bytes()


def test_every_verb_reads_packed_episodes(smoke, data, packed, trained, tmp_path):
    """Mined, evaluated and drawn from the packed file, all is as from the mapped one."""
    mine.run(mine_slice(smoke, "two_room"), packed, tmp_path / "mined")
    for name in ("split.json", "pairs.parquet"):
        assert (tmp_path / "mined" / name).read_bytes() == (data / "mined" / name).read_bytes()
    tables = []
    for episodes, mined in ((packed, tmp_path / "mined"), (data / "episodes.h5", data / "mined")):
        cfg = evaluate_slice(smoke, "two_room", "floors", 0)
        tables.append(evaluation.run_floors(cfg, episodes, mined / "test.json", tmp_path / "rows.parquet"))
        cfg = diagnose_slice(smoke, "two_room", "lewm", 3072)
        checkpoints = [trained / f"lewm/epoch_0{epoch}.safetensors" for epoch in cfg.epochs]
        files = (tmp_path / "p.parquet", tmp_path / "a.json")
        diagnosis.run(cfg, episodes, mined / "pairs.parquet", checkpoints, *files)
        tables.append(pd.read_parquet(files[0]))
        sheet.run(episodes, tmp_path / f"{len(tables)}.png")
    pd.testing.assert_frame_equal(tables[0], tables[2])
    pd.testing.assert_frame_equal(tables[1], tables[3])
    assert (tmp_path / "2.png").read_bytes() == (tmp_path / "4.png").read_bytes()


@pytest.mark.parametrize("storage", ["plain", "packed"])
def test_the_library_opens_the_file_and_sees_the_same_windows(plain, packed, storage):
    store = plain if storage == "plain" else Store(packed)
    library = HDF5Dataset(path=store.path, frameskip=5, num_steps=4, keys_to_load=["pixels", "action"])
    assert np.array_equal(library.lengths, store.length)
    for k in (0, 17, len(library) - 1):
        episode, start = library.clip_indices[k]
        frames, blocks = windows.gather(store.pixels, store.action, store.row([episode], [start]), 4, 5)
        item = library[k]
        assert np.array_equal(item["pixels"].permute(0, 2, 3, 1).numpy(), frames[0])
        assert np.array_equal(item["action"][:3].numpy(), blocks[0])  # the library loads one block more than is used


def test_frames_that_cannot_be_made_smaller_and_an_unfinished_file(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (6, 21, 17, 3), np.uint8)
    noise[3] = 0
    columns = {"pixels": (noise.shape[1:], "u1"), "action": ((2,), "f4"), "state": ((2,), "f4")}
    for name, n in (("noise", 6), ("half", 2)):
        with create(tmp_path / f"{name}.h5", np.array([2, 4]), columns, "packed") as file:
            file["pixels"][:n] = noise[:n]
            file["action"][:] = file["state"][:] = 0
    assert np.array_equal(Store(tmp_path / "noise.h5").pixels[:], noise)
    with pytest.raises(UserError, match=r"half\.h5: the frame of row 2 is not in the file \(4 of 6 are missing\)"):
        Store(tmp_path / "half.h5")


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
def test_batches_and_their_order_do_not_depend_on_the_workers(plain, packed, order, workers):
    for store in (Store(packed), plain):
        with stream(store, order, workers) as batches:
            for k in range(13):
                frames, blocks = next(batches)
                first = order[k * BATCH : (k + 1) * BATCH]
                expected = windows.gather(plain.pixels, plain.action, first, WINDOW, FRAMESKIP)
                assert np.array_equal(frames, expected[0])
                assert np.array_equal(blocks, expected[1], equal_nan=True)
            assert next(batches, None) is None
    assert not threads()


def test_decoded_frames_stay_within_the_bound(plain, packed, order):
    store = Store(packed)
    batch = BATCH * WINDOW * plain.pixels[0].nbytes
    memory_mb = 3.5 * batch / 1e6
    tracemalloc.start()
    try:
        with stream(store, order, 2, memory_mb) as batches:
            for _ in batches:
                pass
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # a ring of three batches, the frame of each worker and the small change of reading; no fourth batch
    assert 3 * batch <= peak < 3 * batch + 0.3 * batch


def test_a_bound_that_is_too_small_says_what_is_needed_and_a_stream_of_nothing_is_empty(packed, order):
    with pytest.raises(UserError, match=r"memory_mb = 0\.1: a batch of 16 windows of 4 frames of 32 px needs 1 MB"):
        stream(Store(packed), order, 2, memory_mb=0.1)
    with stream(Store(packed), np.arange(0), 2) as batches:
        assert list(batches) == []


def test_closing_early_leaves_no_threads(packed, order):
    store = Store(packed)
    with stream(store, order, 3) as batches:
        next(batches)
        assert threads()
    assert not threads()
    assert next(batches, None) is None
    dropped = stream(store, order, 3).thing
    next(dropped)
    del dropped
    gc.collect()
    assert not threads()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_flipped_bit_is_found_and_named(copy, order, workers):
    row = int(order[3 * BATCH + 2]) + FRAMESKIP
    damage(copy, row)
    why = rf"x\.h5: the frame of row {row} cannot be read: its checksum is wrong"
    with pytest.raises(UserError, match=why), stream(Store(copy), order, workers) as batches:
        for _ in batches:
            pass
    assert not threads()


def test_a_file_that_is_cut_off_while_it_is_read(copy, order):
    store = Store(copy)
    os.truncate(copy, int(store.pixels._begin.min()))
    why = r"the frame of row \d+ cannot be read: the file ends \d+ bytes before"
    with pytest.raises(UserError, match=why), stream(store, order, 2) as batches:
        next(batches)
    assert not threads()


def test_foreign_files(plain, tmp_path):
    (tmp_path / "text.h5").write_text("not HDF5 at all")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["observations"] = np.zeros(3)
    reasons = {"text": r"text\.h5: cannot be read as HDF5", "absent": "no such file"}
    reasons["foreign"] = "not an episodes file: column ep_len, ep_offset, pixels"
    for name, why in reasons.items():
        with pytest.raises(UserError, match=why):
            Store(tmp_path / f"{name}.h5")
    with h5py.File(plain.path) as theirs, h5py.File(tmp_path / "blosc.h5", "w") as file:
        for name in theirs:
            packing = dict(chunks=(10, 32, 32, 3), **hdf5plugin.Blosc()) if name == "pixels" else {}
            file.create_dataset(name, data=theirs[name][:], **packing)
    with pytest.raises(UserError, match=r"blosc\.h5: pixels has chunks \(10, 32, 32, 3\).*one frame per chunk"):
        Store(tmp_path / "blosc.h5")


def test_a_full_disk_leaves_nothing(plain, tmp_path, monkeypatch):
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(UserError, match="no space left"):
        pack(plain.path, tmp_path / "full.h5")
    assert not list(tmp_path.iterdir())
