"""`tdjepa mirror`: a hub of one's own on localhost, with small files of the released layout; the scale rehearsal fetches there.

    tdjepa mirror --scale rehearsal --run snakemake all --cores 2 --config scale=rehearsal --configfile build/mirror/params.yaml

The folder has the hub's addresses: `datasets/<repository>/resolve/main/<archive>`, and the released checkpoint's `weights.pt`
and `config.json` in `<repository>/resolve/main`. `params.yaml` beside them holds the checksums, as an overlay of the parameters.
The server lives as long as the command: it ends with it, whatever happens to it.
"""

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tdjepa.base.artefacts import card_path, publish, read_card, write_card, write_json
from tdjepa.base.errors import UserError
from tdjepa.config.params import Params
from tdjepa.config.records.released import RELEASED
from tdjepa.config.runs import jobs
from tdjepa.config.slices import collect_slice, train_slice
from tdjepa.tools import released_files

CHECKPOINT = "lewm"  # what the released checkpoints are


def run(p: Params, out: Path, command: Sequence[str] = ()) -> int | dict:
    """Write what is missing of the mirror; with a command, serve it where `fetch.mirrors` points to while the command runs."""
    envs = [job["env"] for job in jobs(p, "released")]
    if not envs:
        raise UserError(f"scale {p.scale}: collect.source is generated everywhere, so there is nothing to serve")
    made = {env: data_of(p, env, out) for env in envs}
    for env in envs:
        checkpoint_of(p, env, out)
    checksums = {env: card["sha256"] for env, card in made.items()}
    write_json(out / "params.yaml", {"scales": {p.scale: {"fetch": {"sha256": checksums}}}})  # JSON is YAML
    if not command:
        return {env: f"{card['bytes'] / 1e6:.1f} MB" for env, card in made.items()} | {"checksums": out / "params.yaml"}
    with serving(out, p.fetch.mirrors[0]):
        return beside(command, urlsplit(p.fetch.mirrors[0]).hostname)


def beside(command: Sequence[str], host: str) -> int:
    """The status of the command, which asks no proxy for what is on the host."""
    direct = ",".join(filter(None, (os.environ.get("no_proxy"), host)))
    try:
        child = subprocess.Popen(command, env=os.environ | {"no_proxy": direct})
    except OSError as error:
        raise UserError(f"--run {command[0]}: cannot be started ({error.strerror})") from None
    try:
        return child.wait()
    except KeyboardInterrupt:  # of a terminal it reached the command too; a SIGTERM did not
        child.terminate()
        child.wait()
        raise


def data_of(p: Params, env: str, out: Path) -> dict:
    """The archive of an environment, unless it is there; returns its card."""
    source, cfg = RELEASED[env], collect_slice(p, env)
    path = out / "datasets" / source.repo / "resolve" / source.revision / source.file
    asked = cfg.model_dump(mode="json")
    if path.exists() and card_path(path).exists() and read_card(card_path(path))["params"] == asked:
        return read_card(card_path(path))
    with tempfile.TemporaryDirectory() as folder, publish(path, alone=True) as temporary:
        temporary.write_bytes(released_files.demonstrations(cfg, source, Path(folder)))
    return write_card(path, "mirror", asked)


def checkpoint_of(p: Params, env: str, out: Path) -> None:
    """A released checkpoint of the environment with random weights."""
    from tdjepa.envs.base import make
    from tdjepa.model.released import write_released
    from tdjepa.model.world_model import build

    folder = out / RELEASED[env].repo / "resolve" / RELEASED[env].revision
    if not (folder / "weights.pt").exists():
        cfg, size = train_slice(p, env, CHECKPOINT, 0), getattr(p.collect, env).image_size
        block = cfg.frameskip * make(env).action_dim
        write_released(build(cfg.model, "none", size, block, cfg.seed), cfg.model, size, block, folder)


@contextlib.contextmanager
def serving(folder: Path, address: str):
    """Serve the files of a folder at this address of our own machine."""
    where = urlsplit(address)
    if where.scheme != "http" or not where.port:
        raise UserError(f"fetch.mirrors: {address}: a mirror of one's own is http://127.0.0.1:PORT or another own name")
    try:
        server = ThreadingHTTPServer((where.hostname, where.port), partial(Quiet, directory=folder))
    except OSError as error:
        why = f"cannot be served there ({error.strerror}); choose another port"
        raise UserError(f"fetch.mirrors: {address}: {why}") from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
