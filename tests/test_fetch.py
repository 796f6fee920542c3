"""`tdjepa fetch` from a mirror on localhost to a verified file; nothing here reaches the hub."""

import re
import signal
import socket
import subprocess
import sys

import h5py
import numpy as np
import pytest

from clone import Clone
from released_files import HASTY, LENGTHS, SIDE, Mirror, columns, leftovers, packed, sha, tar, write_released, zst
from tdjepa.base import artefacts
from tdjepa.base.errors import UserError
from tdjepa.config.records.released import RELEASED, Source
from tdjepa.config.slices import FetchSlice
from tdjepa.data import archive, convert
from tdjepa.data.store import Store
from tdjepa.steps import fetch as released


@pytest.fixture(scope="session")
def two_room(tmp_path_factory):
    """The bytes of a small tworoom.tar.zst."""
    path = write_released(tmp_path_factory.mktemp("released") / "tworoom.h5", columns("two_room"))
    return packed(path)


def slice_of(body, known=True):
    """The parameters of a job that fetches these bytes, whose checksum is known or not."""
    known = {"sha256": sha(body), "bytes": len(body)} if known else {}
    source = Source(repo="quentinll/lewm-tworooms", file="tworoom.tar.zst", **known)
    return FetchSlice(env="two_room", source=source, episodes=3, image_size=SIDE, storage="plain", goal_offset=25)


def fetch(body, out, *mirrors, known=True, cache=None, **more):
    """`tdjepa fetch` of these bytes from mirrors that may have them."""
    cache = cache or out.parent / "released"
    return released.run(slice_of(body, known), out, mirrors=mirrors, cache=cache, patience=HASTY, **more)


@pytest.fixture
def mirror(two_room):
    return Mirror(two_room)


@pytest.fixture
def url(serve, mirror):
    return serve(mirror)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "episodes.h5"


KILLED = """
import sys
from pathlib import Path
from tqdm import tqdm
from tdjepa.config.records.released import RELEASED, Source
from tdjepa.data import download

class Bar(tqdm):
    def update(self, n):
        super().update(n)
        print(self.n, flush=True)

download.progress = lambda total, what, unit, initial=0: Bar(total=total, initial=initial)
download.download(sys.argv[1], Path(sys.argv[2]), Source(repo="a/b", file="x.zst"))
"""


def test_a_killed_process_goes_on_where_it_was_killed(mirror, url, out, tmp_path):
    """SIGKILL when half of the archive is there; the next fetch asks for the rest only, and finishes."""
    mirror.stop_at = half = len(mirror.body) // 2
    argv = [sys.executable, "-c", KILLED, url + "/tworoom.tar.zst", str(tmp_path / "tworoom.tar.zst")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert any(int(text) == half for text in process.stdout)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert leftovers(tmp_path) == ["tworoom.tar.zst.part", "tworoom.tar.zst.part.json"]
    mirror.stop_at = None
    fetch(mirror.body, out, url + "/{file}", cache=tmp_path)
    assert mirror.ranged == [None, f"bytes={half}-"]
    assert Store(out).episodes == 3


def test_fetch_from_the_hub_layout_to_a_verified_file_with_its_card(mirror, url, out, two_room):
    card = fetch(two_room, out, url)
    assert mirror.asked == [("/datasets/quentinll/lewm-tworooms/resolve/main/tworoom.tar.zst", None)]
    assert artefacts.verified(out) == artefacts.read_json(out.with_name("episodes.card.json")) == card
    assert (card["episodes"], card["rows"], card["image_size"]) == (3, 64, SIDE)
    assert card["released"] == {"sha256": sha(two_room), "bytes": len(two_room)}
    assert card["checksum"] == "known before"
    assert card["columns"]["goal_state"] == ["pos_target"]
    assert card["renderer_difference"] == {"mean": 0.0, "max": 0}  # its frames are our world
    assert 0 <= card["trivial_share"] <= 1
    assert 0 <= card["success_share"] <= 1
    assert Store(out).episodes == 3
    assert leftovers(out.parent / "released") == [".tworoom.tar.zst.lock", "tworoom.tar.zst"]


def test_a_second_fetch_needs_no_network_and_gives_the_same_bytes(mirror, url, out, tmp_path):
    first = fetch(mirror.body, out, url)
    (tmp_path / ".episodes.h5.killed.part.h5").touch()
    assert fetch(mirror.body, out, url) == first
    assert len(mirror.asked) == 1
    assert leftovers(tmp_path) == ["episodes.card.json", "episodes.h5", "released"]
    (tmp_path / "released/tworoom.tar.zst").write_bytes(b"changed")
    with pytest.raises(UserError, match="bytes, .* are expected; delete the file"):
        fetch(mirror.body, out, url)


def test_an_unknown_checksum_is_refused_unless_the_first_use_is_trusted(mirror, url, out):
    with pytest.raises(UserError, match="--trust-first-use"):
        fetch(mirror.body, out, url, known=False)
    assert not mirror.asked
    card = fetch(mirror.body, out, url, known=False, trust_first_use=True)
    assert card["released"]["sha256"] == sha(mirror.body)
    assert card["checksum"] == "trusted at first use"


def test_what_does_not_open_is_not_trusted_at_first_use(mirror, url, out, tmp_path):
    mirror.body = mirror.body[:-1000]
    with pytest.raises(UserError, match="Truncated"):
        fetch(mirror.body, out, url, known=False, trust_first_use=True)
    assert leftovers(tmp_path / "released") == [".tworoom.tar.zst.lock"]
    assert leftovers(tmp_path) == ["released"]


def test_mirrors_are_tried_in_order_and_a_local_one_is_read_where_it_lies(serve, out, tmp_path, two_room):
    wrong, right = Mirror(b"another file"), tmp_path / "mirror"
    right.mkdir()
    (right / "tworoom.tar.zst").write_bytes(two_room)
    local = right.as_uri() + "/{file}"
    card = fetch(two_room, out, serve(wrong), "file:///nowhere/{file}", local)
    assert fetch(two_room, out, local) == card  # the same file from elsewhere: nothing is to be made again
    assert len(wrong.asked) == 1
    assert leftovers(tmp_path / "released") == [".tworoom.tar.zst.lock"]
    assert (right / "tworoom.tar.zst").read_bytes() == two_room


def test_when_nothing_is_reachable_the_message_names_each_mirror_and_the_generator(serve, out, two_room):
    offline = nowhere()
    with pytest.raises(UserError) as caught:
        fetch(two_room, out, offline, serve(Mirror(status=404)), "file:///nowhere/{file}")
    text = str(caught.value)
    assert "\n" not in text
    each = f"{offline}/.*Connection refused .tried 2 times.*HTTP 404.*nowhere/tworoom.tar.zst: no such file"
    assert re.search(each, text)
    assert "`tdjepa collect --env two_room` generates data instead" in text
    assert "collect.source.two_room: generated in params.yaml" in text


def nowhere():
    """The address of a server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_an_interrupted_conversion_leaves_no_file_and_starts_from_what_was_unpacked(url, out, two_room, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(convert, "resized", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch(two_room, out, url)
    assert leftovers(out.parent) == ["released"]
    monkeypatch.setattr(archive, "unpack", interrupt)  # not needed again
    fetch(two_room, out, url)
    assert Store(out).episodes == 3


def test_two_fetches_of_a_file_do_not_meet(mirror, url, out, tmp_path):
    (tmp_path / "released").mkdir()
    with open(tmp_path / "released/.tworoom.tar.zst.lock", "w") as held:
        artefacts.lock(held, "held by nobody before")
        with pytest.raises(UserError, match="another `tdjepa fetch`"):
            fetch(mirror.body, out, url)
    assert not mirror.asked


def damaged(two_room, tmp_path):
    """What a mirror may send instead of the released file -> what the message says, with the known checksum or without"""
    made, path = columns("two_room"), tmp_path / "tworoom.h5"

    def file(made, lengths=LENGTHS, **more):
        return packed(write_released(path, made, lengths=lengths, **more))

    shorter = {name: values[:-28] for name, values in made.items()}
    yield file(shorter, LENGTHS[:2]), False, "has 2 episodes, the released file of two_room has 3"
    longer = {name: np.concatenate([values[:1], values]) for name, values in made.items()}
    yield file(longer, LENGTHS + [1, 0, 0]), False, "has 65 rows, the released file of two_room has 64"
    yield (
        file({**made, "action": made["action"][:-1]}),
        False,
        r"action is float32 \(63, 2\), expected numbers, 64 rows",
    )
    blind = {name: values for name, values in made.items() if name not in ("proprio", "pos_agent")}
    yield file(blind), False, "no column proprio or pos_agent for state of two_room; it holds action, ep_idx"
    write_released(path, made)
    with h5py.File(path, "a") as older:  # a group per episode, as other collections have it
        for name in list(older):
            older.move(name, f"episode_0/{name}")
    yield packed(path), False, "no column pixels; it holds episode_0"
    yield two_room[: len(two_room) // 2], False, "Truncated"
    yield two_room[: len(two_room) // 2], True, f"announces {len(two_room) // 2} bytes, {len(two_room)} are expected"
    yield two_room[:-1] + b"x", True, "its sha256 is"


def test_another_file_than_the_released_one_is_one_line_and_nothing_is_half_written(serve, two_room, tmp_path):
    for number, (body, known, why) in enumerate(damaged(two_room, tmp_path)):
        place = tmp_path / str(number)
        cfg = slice_of(two_room, known)
        cfg = cfg.model_copy(update={"source": cfg.source.model_copy(update={"episodes": 3, "rows": 64})})
        how = {"mirrors": (serve(Mirror(body)),), "cache": place / "released", "patience": HASTY}
        with pytest.raises(UserError, match=why) as caught:
            released.run(cfg, place / "episodes.h5", trust_first_use=not known, **how)
        assert "\n" not in str(caught.value)
        assert set(leftovers(place)) == {"released"}
        assert set(leftovers(place / "released")) <= {".tworoom.tar.zst.lock", "tworoom.tar.zst"}


def test_more_episodes_than_the_file_has_are_refused(url, out, two_room):
    cfg = slice_of(two_room).model_copy(update={"episodes": 4})
    with pytest.raises(UserError, match=r"has 3 episodes, collect\.two_room\.episodes asks for 4"):
        released.run(cfg, out, mirrors=(url,), cache=out.parent / "released", patience=HASTY)


def test_an_archive_with_another_checksum_does_not_lie_where_the_released_one_does(two_room):
    """So that a rehearsal and the paper's scale can be run in one folder."""
    other = slice_of(two_room).source
    assert released.cache_of("two_room", RELEASED["two_room"]) == released.CACHE
    assert released.cache_of("two_room", other) == released.CACHE / other.sha256[:16]


def test_one_hdf5_file_is_expected(mirror, url, out):
    mirror.body = zst(tar(("a.h5", b"="), ("b.h5", b"="), ("._a.h5", b"=")))
    with pytest.raises(UserError, match=r"one HDF5 file is expected in it, found: a\.h5, b\.h5"):
        fetch(mirror.body, out, url)


def test_a_machine_without_the_simulator_still_gets_the_data(url, out, two_room, monkeypatch):
    def no_graphics(_):
        raise RuntimeError("no display")

    monkeypatch.setattr(released, "make", no_graphics)
    card = fetch(two_room, out, url)
    assert card["simulator"] == "not asked: RuntimeError: no display"
    assert card["trivial_share"] is None


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
    clone.change("fetch.mirrors", [nowhere()])
    said = clone.snakemake("mine_all", status=1)
    assert "Connection refused" in said
    assert "collect.source.two_room: generated in params.yaml" in said
    clone.change("fetch.mirrors", [serve(mirror)])
    clone.change("fetch.sha256", {"two_room": sha(mirror.body)})
    with clone.executed() as jobs:
        clone.snakemake("mine_all")
    assert jobs == {"fetch_two_room", "mine_two_room"}
    got, given = Store(clone.path / "data/smoke/episodes/two_room/episodes.h5"), Store(data / "episodes.h5")
    assert np.array_equal(got.pixels[:], given.pixels)
    assert np.array_equal(got.state, given.state)
    clone.change("fetch.mirrors", [nowhere()])
    assert clone.planned("mine_all") == set()
    clone.change("scales.smoke.collect.source.two_room", "generated")
    assert clone.planned("mine_all") == {"collect_two_room", "mine_two_room"}
