"""Servers on localhost, archives and small files of the released layout, for the tests of `tdjepa fetch`."""

import contextlib
import hashlib
import io
import re
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import h5py
import hdf5plugin
import numpy as np
import pyarrow

from tdjepa.data.download import Patience
from tdjepa.envs.base import make
from tdjepa.tools.released_files import LAYOUT, archive, write_hdf5

BODY = np.random.default_rng(0).bytes(50_000)
HASTY = Patience(timeout=10, retries=3, pause=0)


class Mirror:
    """What a server on localhost does with each request; the defaults are a good server."""

    def __init__(self, body=BODY, **changes):
        self.body, self.etag, self.ranges = body, '"one"', True
        self.cuts = []  # how many bytes of the answer to each request are sent before the connection breaks
        self.announce = None  # Content-Length, if it is to be a lie
        self.status, self.location = None, None  # an answer without a body
        self.stop_at, self.stopped = None, threading.Event()  # send this much, then wait for the event
        self.asked = []  # (path, Range) of every request
        self.before = lambda mirror: None  # called at every request
        self.silent = set()  # numbers of the requests that get no answer at all
        vars(self).update(changes)

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
            self.head(mirror.status, Location=mirror.location or "")
            return
        start, total = 0, len(mirror.body)
        if self.headers["Range"] and mirror.ranges and self.headers["If-Range"] in (None, mirror.etag):
            start = int(re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])[1])
        if start >= total:
            self.head(416, **{"Content-Range": f"bytes */{total}"})
            return
        part = {"Content-Range": f"bytes {start}-{total - 1}/{total}"} if start else {}
        length = {"Content-Length": str(mirror.announce or total - start)}
        self.head(206 if start else 200, ETag=mirror.etag, **part, **length)
        body = mirror.body[start:][: mirror.cuts.pop(0) if mirror.cuts else None]
        with contextlib.suppress(OSError):  # the client may go first
            if mirror.stop_at:
                self.wfile.write(body[: mirror.stop_at])
                mirror.stopped.wait(60)
            self.wfile.write(body[mirror.stop_at or 0 :])

    def head(self, status, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    """-> start(mirror) -> base URL; every server ends with the block."""
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


LENGTHS = np.array([31, 5, 28])
SIDE = 24
PACKING = {
    "gzip": {"chunks": (7, SIDE, SIDE, 3), "compression": "gzip"},
    "blosc": {"chunks": (10, SIDE, SIDE, 3), **hdf5plugin.Blosc()},
    "plain": {},
}


def columns(env, lengths=LENGTHS):
    rng, rows = np.random.default_rng(1), int(lengths.sum())
    made = {name: rng.uniform(40, 180, (rows, width)).astype(kind) for name, (width, kind) in LAYOUT[env].items()}
    made["action"][np.cumsum(lengths) - 1] = np.nan
    made["pixels"] = rng.integers(0, 256, (rows, SIDE, SIDE, 3), dtype=np.uint8)
    if env == "two_room":
        world = make(env)
        world.restore(made["proprio"])
        made["pixels"] = world.render(SIDE)
    return made


def write_released(path, made, index="ep_idx", listed=True, packing="gzip", lengths=LENGTHS):
    """A file of the released layout, or one with less about its episodes."""
    write_hdf5(path, made, lengths, index, **PACKING[packing])
    with h5py.File(path, "a") as file:
        if index:
            file[index][:] += 7  # the numbers need not begin at 0
        if not listed:
            del file["ep_len"], file["ep_offset"]
    return path


def packed(path):
    return archive(path, "x.tar.zst")
