"""Files that are either whole or absent, each with a card that says how it was made.

`publish(path)` hands out a temporary name in the same folder and renames it at the end, so a kill or a full disk never
leaves half a file under a final name. The card (`x.h5` -> `x.card.json`) holds the sha256, the verb, its parameters and
the sha256 of its inputs; it is written after the file, so a file without a matching card is unfinished by definition.
"""

import contextlib
import errno
import fcntl
import functools
import glob
import hashlib
import json
import os
import platform
import tempfile
from pathlib import Path

from tdjepa import __version__
from tdjepa.base.errors import UserError

MISSING = "{}: no such file; run the step that makes it (snakemake -n shows which)"


def canonical(value) -> str:
    """The one JSON spelling of a value: sorted keys, no spaces; what is hashed and what Snakemake compares."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def hash_of(value) -> str:
    """sha256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def sha256(path: str | Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@contextlib.contextmanager
def publish(path: str | Path, alone: bool = False):
    """Yield a temporary path beside `path`; on success it becomes `path`, on any failure it disappears.

    What killed writers left is removed: those of this machine, and of all machines for a job that knows it is `alone`.
    """
    path = Path(path)
    here = f".{path.name}.{platform.node()[:40]}-"  # with the process, so that others can tell whether the writer lives
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{glob.escape(f'.{path.name}.')}*.part{path.suffix}"):
            if alone or _is_dead(left.name, here):
                left.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(f".part{path.suffix}", f"{here}{os.getpid()}.", path.parent)
        os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with explained(path):
            with open(temporary, "rb") as f:
                os.fsync(f.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
    except Exception as error:
        if not _is_full(error):
            raise
        raise _full(path) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(path: str | Path):
    """What the system says against writing this file, as one line."""
    try:
        yield
    except OSError as error:
        if _is_full(error):
            raise _full(path) from error
        why = f"cannot be written ({error.strerror}); make its folder writable for this user and rerun"
        raise UserError(f"{path}: {why}") from error


def _full(path: str | Path) -> UserError:
    why = "no space left to write it (the disk or a quota is full); nothing was written under that name"
    return UserError(f"{path}: {why}. Free some space and rerun.")


def _is_full(error: Exception) -> bool:
    """Whether the disk, a quota or a size limit is exhausted. HDF5 and safetensors pass the reason on as text only."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return getattr(error, "errno", None) in full or any(os.strerror(code) in str(error) for code in full)


def _is_dead(temporary: str, here: str) -> bool:
    """Whether a temporary file is of a process of this machine that is no more; others may still be at work."""
    pid = temporary.removeprefix(here).split(".")[0]
    if not temporary.startswith(here) or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # somebody else's; no number of a process
        pass
    return False


def lock(file, taken: str) -> None:
    """Keep other processes out as long as `file` is open, or say that it is `taken`. The kernel frees a dead one's lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(taken) from None
    except OSError:  # a file system without locks
        pass


def write_parquet(path: str | Path, table) -> None:
    with publish(path, alone=True) as temporary:
        table.to_parquet(temporary, index=False)


def write_text(path: str | Path, text: str) -> None:
    with publish(path) as temporary:
        temporary.write_text(text)


def write_json(path: str | Path, value) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: str | Path):
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UserError(MISSING.format(path)) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error}); delete it and rerun the step that makes it") from None


def card_path(path: str | Path) -> Path:
    return Path(path).with_name(Path(path).stem + ".card.json")


def write_card(path: str | Path, verb: str, params: dict, inputs: dict[str, str | Path] | None = None, **facts) -> dict:
    """Write the card of a finished file. `inputs` are files; only their content (sha256) goes into the card, no paths."""
    card = {"file": Path(path).name, "sha256": sha256(path), "bytes": os.path.getsize(path), "params": params}
    card |= {"verb": verb, "version": __version__, "machine": fingerprint(), **facts}
    card["inputs"] = {name: sha256_of_input(p) for name, p in (inputs or {}).items()}
    write_json(card_path(path), card)
    return card


def sha256_of_input(path: str | Path) -> str:
    """A big input is known by its card (already verified where it was opened), a small one is hashed."""
    card = card_path(path)
    return read_card(card)["sha256"] if card.exists() else sha256(path)


def read_card(path: Path) -> dict:
    card = read_json(path)
    if not isinstance(card, dict) or not isinstance(card.get("sha256"), str):
        raise UserError(f"{path}: not a card: no sha256 in it; delete it and rerun the step that makes it")
    return card


def verified(path: str | Path) -> dict:
    """The card of a file whose content is what the card says; a clear error otherwise."""
    path, card_file = Path(path), card_path(path)
    if not path.exists():
        raise UserError(MISSING.format(path))
    if not card_file.exists():
        why = f"its card {card_file.name} is missing, so nothing says that the file is whole"
        raise UserError(f"{path}: {why}; rerun the step that makes it")
    card, found = read_card(card_file), sha256(path)
    if found != card["sha256"]:
        why = f"sha256 {found[:12]}… is not the card's {card['sha256'][:12]}…; the file was changed or cut off"
        raise UserError(f"{path}: {why}. Delete it and rerun the step that makes it")
    return card


@functools.cache
def fingerprint() -> str:
    """What numbers may depend on: the processor and the thread count. Between machines they agree within tolerances only."""
    model, threads = platform.processor() or platform.machine(), os.environ.get("OMP_NUM_THREADS", "-")
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}; {platform.system()} {platform.machine()}; OMP_NUM_THREADS={threads}"
