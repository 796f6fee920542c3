"""Downloads that survive what servers do; every server is on localhost."""

import pytest

from released_files import BODY, HASTY, Mirror, leftovers, sha
from tdjepa.base.errors import UserError
from tdjepa.config.records.released import RELEASED, Source
from tdjepa.config.records.released import released as released_source
from tdjepa.data.convert import COLUMNS
from tdjepa.data.download import Broken, Failed, Patience, Remote, download, urls


def known(sha256=None, size=None, limit=10**6):
    """What is known about the file before it is there."""
    return Source(repo="a/b", file="x.h5", sha256=sha256, bytes=size, limits={"archive_bytes": limit})


ANY = known()


def test_a_good_server_is_asked_once_and_nothing_is_left_but_the_file(serve, tmp_path):
    mirror = Mirror()
    assert download(serve(mirror) + "/x", tmp_path / "x", known(sha(BODY), len(BODY), 1), HASTY) == sha(BODY)
    assert leftovers(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == BODY
    assert mirror.ranged == [None]


@pytest.mark.parametrize(
    ("does", "asked"),
    [
        ({"cuts": [10_000, 15_000]}, ["bytes=10000-", "bytes=25000-"]),
        ({"cuts": [10_000], "ranges": False}, ["bytes=10000-"]),  # it starts again
        ({"cuts": [1000], "silent": {2, 3}}, ["bytes=1000-"] * 3),  # who once answered gets all tries
    ],
)
def test_a_broken_download_goes_on_where_it_broke(serve, tmp_path, does, asked):
    mirror = Mirror(**does)
    download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert (tmp_path / "x").read_bytes() == BODY
    assert mirror.ranged == [None, *asked]


def test_who_never_answers_gets_two_tries(serve, tmp_path):
    with pytest.raises(Failed, match=r"no sensible answer .* \(tried 2 times\)"):
        download(serve(Mirror(silent={1, 2, 3})), tmp_path / "x", ANY, HASTY)


def test_a_server_that_breaks_off_for_ever_is_given_up_with_growing_pauses_and_the_part_kept(serve, tmp_path):
    mirror, pauses = Mirror(cuts=[1000] * 50), []
    with pytest.raises(Failed, match=r"broke off after 4000 of 50000 bytes \(tried 4 times\)"):
        download(serve(mirror), tmp_path / "x", ANY, Patience(retries=3, pause=1, sleep=pauses.append))
    assert pauses == [1, 2, 4]
    assert leftovers(tmp_path) == ["x.part", "x.part.json"]
    assert (tmp_path / "x.part").read_bytes() == BODY[:4000]


def test_a_silent_server_counts_as_broken_off(serve, tmp_path):
    with pytest.raises(Failed, match="TimeoutError|timed out"):
        download(serve(Mirror(stop_at=1000)), tmp_path / "x", ANY, Patience(timeout=0.2, retries=0))


@pytest.mark.parametrize("ignores", [False, True])
def test_a_file_that_changed_is_not_mixed(serve, tmp_path, ignores):
    """The body and its ETag change after the break; If-Range is understood, or ignored by the server."""

    def change(m):
        if len(m.asked) == 1:  # who ignores If-Range answers the range, but of the new file
            m.body, m.etag = BODY[::-1], (Anything if ignores else str)('"two"')

    mirror = Mirror(cuts=[10_000], before=change)
    download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert (tmp_path / "x").read_bytes() == BODY[::-1]
    assert len(mirror.asked) == (3 if ignores else 2)


class Anything(str):
    """An ETag that a server compares equal to whatever a client sends."""

    __hash__ = str.__hash__

    def __eq__(self, _):
        return True


def test_a_length_too_long_ends_at_the_true_length(serve, tmp_path):
    """The server announces more than it has; asked for the rest, it says that there is none. The checksum decides."""
    download(serve(Mirror(announce=len(BODY) + 500)), tmp_path / "x", known(sha(BODY)), HASTY)
    assert (tmp_path / "x").read_bytes() == BODY


REFUSED = [  # announced length, what is known, what is said
    (None, known("0" * 64), f"its sha256 is {sha(BODY)}, expected is {'0' * 64}"),
    (len(BODY) - 500, known(sha(BODY)), "its sha256 is"),
    (len(BODY) - 500, known(None, 50_000, 1), "announces 49500 bytes, 50000 are expected"),
    (len(BODY) + 500, known(sha(BODY), len(BODY), 1), "announces 50500 bytes, 50000 are expected"),
    (None, known(limit=1000), "announces 50000 bytes, more than the limit of 1000"),
]


@pytest.mark.parametrize(("announced", "expected", "why"), REFUSED)
def test_a_wrong_length_or_checksum_leaves_nothing(serve, tmp_path, announced, expected, why):
    with pytest.raises(Failed, match=why):
        download(serve(Mirror(announce=announced)), tmp_path / "x", expected, HASTY)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("status", [404, 403, 503])
def test_statuses(serve, tmp_path, status):
    mirror = Mirror(status=status)
    with pytest.raises(Failed, match=f"HTTP {status}"):
        download(serve(mirror), tmp_path / "x", ANY, HASTY)
    assert len(mirror.asked) == (4 if status == 503 else 1)  # only what may pass is tried again


def test_a_redirect_is_followed_to_http_and_nowhere_else(serve, tmp_path):
    away, secret = Mirror(status=302, location=serve(Mirror()) + "/there"), tmp_path / "secret"
    secret.write_text("not to be fetched")
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


def test_the_four_released_files_have_a_checksum_columns_and_an_address_on_the_hub():
    assert set(RELEASED) == set(COLUMNS) == {"two_room", "reacher", "push_t", "cube"}
    for env, source in RELEASED.items():
        assert source.sha256, env
        assert source.bytes < source.limits.archive_bytes
        hub = f"https://huggingface.co/datasets/{source.repo}"
        assert urls(source, source.mirrors) == [f"{hub}/resolve/main/{source.file}"]


def test_mirrors_are_hubs_or_templates_and_another_checksum_drops_the_size():
    assert urls(RELEASED["cube"], ("http://mirror.test/hf/", "file:///data/{file}")) == [
        "http://mirror.test/hf/datasets/quentinll/lewm-cube/resolve/main/cube_single_expert.tar.zst",
        "file:///data/cube_single_expert.tar.zst",
    ]
    assert released_source("cube", sha256="0" * 64).bytes is None


def test_a_mirror_that_is_none_and_a_file_name_that_could_leave_its_folder_are_refused():
    for mirror in ("ftp://x", "x", "https://user:word@x", "https://x?token=1", "javascript:1", "http://"):
        with pytest.raises(UserError, match="mirror"):
            urls(RELEASED["two_room"], (mirror,))
    for name in ("../x.h5", "/x.h5", "a/../x.h5", "x.zip", "x y.h5", "{repo}.h5"):
        with pytest.raises(ValueError, match="file"):
            Source(repo="a/b", file=name)
