"""Results pass through each kind of DVC remote unharmed, damage is reported, and experiments run what they must.

Data and what is mined from it stand for all results: stages differ in their jobs, not in how DVC keeps their outputs.
"""

import asyncio
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

from clone import Clone

MINED = "data/smoke/mined/two_room/pairs.parquet"
pipeline = pytest.mark.pipeline


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A clone with demonstrations and mined pairs, committed to DVC and Git."""
    clone = Clone.of_project(tmp_path_factory.mktemp("sharing ") / "origin")
    clone.change("scale", "smoke")
    clone.run("git", "init", "--quiet")
    clone.dvc("repro", "mine")
    clone.commit("data")
    return clone


class Directory:
    """A remote on a disk: objects are files."""

    settings: dict[str, str] = {}

    def __init__(self, folder: Path):
        self.folder, self.url = folder, str(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def damage(self, key: str, content: bytes | None) -> None:
        """Write other content under an object's name, or remove it."""
        path = self.folder / key
        path.chmod(0o644)
        path.unlink()
        if content is not None:
            path.write_bytes(content)


class Ssh(Directory):
    """A server that speaks SFTP, in a thread; objects are files again."""

    def __enter__(self):
        import asyncssh

        class Server(asyncssh.SSHServer):
            def password_auth_supported(self):
                return True

            def validate_password(self, username, password):
                return (username, password) == ("somebody", "a secret")

        async def listen():
            key = asyncssh.generate_private_key("ssh-ed25519")
            server = {"server_factory": Server, "server_host_keys": [key], "sftp_factory": True}
            return await asyncssh.listen("127.0.0.1", 0, **server)

        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = asyncio.run_coroutine_threadsafe(listen(), self.loop).result(60)
        self.folder.mkdir()
        self.url = f"ssh://somebody@127.0.0.1:{self.server.get_port()}{self.folder}"
        self.settings = {"password": "a secret", "allow_agent": "false"}
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)


class S3(Directory):
    """An S3 server on this machine, holding its objects in memory."""

    settings = {"access_key_id": "somebody", "secret_access_key": "a secret", "region": "us-east-1"}

    def __enter__(self):
        import boto3
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.url, self.settings = "s3://results/tdjepa", {**self.settings, "endpointurl": f"http://{host}:{port}"}
        aws = {"aws_access_key_id": "somebody", "aws_secret_access_key": "a secret", "region_name": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=self.settings["endpointurl"], **aws)
        self.client.create_bucket(Bucket="results")
        return self

    def __exit__(self, *_):
        self.server.stop()

    def damage(self, key: str, content: bytes | None) -> None:
        where = {"Bucket": "results", "Key": f"tdjepa/{key}"}
        self.client.head_object(**where)  # it must be there
        if content is None:
            self.client.delete_object(**where)
        else:
            self.client.put_object(**where, Body=content)


@pytest.fixture(params=[Directory, S3, Ssh], ids=["directory", "s3", "ssh"])
def remote(request, tmp_path):
    with request.param(tmp_path / "remote") as remote:
        yield remote


def connected(clone: Clone, remote) -> Clone:
    """What `dvc remote add --local` and `dvc remote modify --local` of docs/sharing.md write, without waiting for them."""
    settings = {"url": remote.url, "verify": "true", **remote.settings}
    lines = ["[core]", "remote = store", "['remote \"store\"']", *(f"{name} = {settings[name]}" for name in settings)]
    (clone.path / ".dvc/config.local").write_text("\n".join(lines) + "\n")
    return clone


def fresh(origin: Clone, path: Path, remote) -> Clone:
    subprocess.run(["git", "clone", "--quiet", str(origin.path), str(path)], check=True)
    return connected(Clone(path), remote)


def object_of(clone: Clone, output: str) -> str:
    """The name under which a remote keeps the file of a tracked folder."""
    tracked = yaml.safe_load((clone.path / "dvc.lock").read_text())["stages"]
    (folder,) = [o for s in tracked.values() for o in s["outs"] if output.startswith(o["path"] + "/")]
    listed = clone.path / ".dvc/cache/files/md5" / folder["md5"][:2] / folder["md5"][2:]
    files = {f"{folder['path']}/{f['relpath']}": f["md5"] for f in yaml.safe_load(listed.read_text())}
    return f"files/md5/{files[output][:2]}/{files[output][2:]}"


@pipeline
def test_results_come_back_from_a_remote_and_damage_is_reported(origin, remote, tmp_path):
    pushed = connected(origin.copy(tmp_path / "pushed"), remote)
    pushed.dvc("push")
    clone = fresh(pushed, tmp_path / "pulled", remote)
    clone.dvc("pull", "mine", "--with-deps")
    assert clone.artefacts() == origin.artefacts()
    assert clone.planned("mine_all") == set()

    key = object_of(pushed, MINED)
    content = (pushed.path / MINED).read_bytes()
    for damaged in (bytes([content[0] ^ 1]) + content[1:], None):
        remote.damage(key, damaged)
        clone = fresh(pushed, tmp_path / f"damaged {damaged is None}", remote)
        said = clone.dvc("pull", "mine", "--with-deps", status=1)
        assert "failed" in said
        assert "data/smoke/mined\n" in said or key.removeprefix("files/md5/").replace("/", "") in said
        assert not (clone.path / MINED).exists()


@pipeline
def test_an_experiment_runs_the_jobs_of_its_parameter(origin, tmp_path):
    clone = origin.copy(tmp_path / "experiment")
    with clone.executed() as jobs:
        clone.dvc("exp", "run", "mine", "--set-param", "scales.smoke.mine.pairs=50")
    assert jobs == {"mine_two_room"}
    assert "scales.smoke.mine.pairs" in clone.dvc("params", "diff")
    with clone.executed() as jobs:
        clone.dvc("exp", "run", "mine", "--set-param", "mine.pairs=60")  # hidden by the scale: DVC looks, nothing runs
    assert jobs == set()
    said = clone.dvc("exp", "run", "mine", "--set-param", "scales.smoke.mine.piars=1", status=255)
    assert "piars" in said
