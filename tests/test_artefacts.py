"""Files are whole or absent; cards tell the truth."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from children import LIMIT
from tdjepa.base import artefacts
from tdjepa.base.errors import UserError
from tdjepa.config.slices import collect_slice, evaluate_slice, slice_json, train_slice


@pytest.mark.parametrize(
    ("raised", "expected", "said"),
    [
        (RuntimeError("boom"), RuntimeError, "boom"),
        (OSError(errno.ENOSPC, "full"), UserError, r"x\.txt: no space left to write it .*; nothing was written"),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_no_trace(raised, expected, said, tmp_path):
    def half(temporary):
        temporary.write_text("half")
        raise raised

    artefacts.write_text(tmp_path / "x.txt", "old")
    with pytest.raises(expected, match=said), artefacts.publish(tmp_path / "x.txt") as temporary:
        half(temporary)
    assert (tmp_path / "x.txt").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full exists on Linux only")
def test_a_really_full_device(tmp_path):
    refused = pytest.raises(UserError, match="no space left")
    with refused, artefacts.publish(tmp_path / "x"), open("/dev/full", "w") as full:
        full.write("x" * 100_000)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["collect", "train", "evaluate"])
def test_no_space_for_a_whole_artefact(verb, smoke, data, trained, tmp_path):
    """Each writer (HDF5, safetensors, parquet) under a file-size limit: one line, status 2, nothing left behind."""
    slices = {
        "collect": collect_slice(smoke, "two_room"),
        "train": train_slice(smoke, "two_room", "tdjepa", 3072),
        "evaluate": evaluate_slice(smoke, "two_room", "floors", 0),
    }
    out = tmp_path / ("out" if verb == "train" else "out.bin")
    files = {"train": [f"--split={data}/mined/split.json"], "evaluate": [f"--manifest={data}/mined/test.json"]}
    arguments = [verb, "--slice", slice_json(slices[verb]), "--out", str(out), *files.get(verb, ())]
    arguments += [f"--episodes={data}/episodes.h5"] if verb in files else []
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)); "
    code += "from tdjepa.cli import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode == 2, result.stderr
    assert "no space left to write it" in result.stderr
    assert "Traceback" not in result.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_kill_during_a_write_leaves_no_half_file_and_the_next_run_tidies(tmp_path):
    code = """
import sys, time
from tdjepa.base.artefacts import publish
with publish(sys.argv[1]) as temporary:
    with open(temporary, "w") as f:
        f.write("half"); f.flush()
        print("writing", flush=True)
        time.sleep(60)
"""
    target = tmp_path / "big.bin"
    writer = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait(60)
    assert not target.exists()
    assert len(list(tmp_path.iterdir())) == 1  # a hidden temporary
    artefacts.write_text(target, "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["big.bin"]
    (tmp_path / ".big.bin.elsewhere-1.x.part.bin").touch()  # of another machine, where the writer may still be at work
    for alone, left in ((False, 2), (True, 1)):
        with artefacts.publish(target, alone) as temporary:
            temporary.touch()
        assert len(list(tmp_path.iterdir())) == left


def test_cards_notice_a_changed_file(tmp_path):
    target = tmp_path / "x.bin"
    artefacts.write_text(target, "content")
    artefacts.write_card(target, "test", {"a": 1})
    assert artefacts.verified(target)["params"] == {"a": 1}
    target.write_text("c0ntent")
    with pytest.raises(UserError, match="is not the card's"):
        artefacts.verified(target)
    artefacts.card_path(target).unlink()
    with pytest.raises(UserError, match="card x.card.json is missing"):
        artefacts.verified(target)


def test_cards_hold_no_paths_and_no_times(tmp_path):
    texts = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        artefacts.write_text(folder / "x", "x")
        artefacts.write_card(folder / "x", "test", {}, {"input": folder / "x"})
        texts.append(artefacts.card_path(folder / "x").read_text())
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]
