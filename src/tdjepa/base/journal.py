"""What a long job has finished so far, one JSON line each, so that a killed one goes on where it stopped.

The first line says what the job is; a journal of another job is thrown away. A line that a kill cut short is dropped. What is
read back is what was written, to the last bit, so it makes no difference whether a result comes from here or from memory.
"""

import fcntl
import json
from pathlib import Path

from tdjepa.base.artefacts import canonical, explained
from tdjepa.base.errors import UserError


class Journal:
    def __init__(self, path: Path, job: dict):
        head = canonical(job).encode() + b"\n"
        self.path, self.done = path, {}
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(path, "a+b")  # noqa: SIM115 - closed by `finish`, or by the job's death
            self._only_writer()
            self.file.seek(0)
            found = self.file.read()
            whole = len(head) + self._read(found[len(head) :]) if found.startswith(head) else 0
            self.file.truncate(whole)
            if not whole:
                self._write(head)

    def _only_writer(self) -> None:
        """Two writers would tear each other's lines; the kernel frees the lock of a dead one."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{self.path}: another process is writing this journal; wait for it, or write elsewhere with --out"
            ) from None
        except OSError:  # a file system without locks
            pass

    def _read(self, lines: bytes) -> int:
        """Take over the entries up to the first that is torn or damaged; -> their bytes."""
        whole = 0
        for line in lines.splitlines(keepends=True):
            try:
                entry = json.loads(line) if line.endswith(b"\n") else None
                self.done[tuple(entry["key"])] = entry["value"]
            except (ValueError, KeyError, TypeError):
                break
            whole += len(line)
        return whole

    def _write(self, line: bytes) -> None:
        with explained(self.path):
            self.file.write(line)
            self.file.flush()

    def add(self, key: tuple, value: dict) -> None:
        line = canonical({"key": key, "value": value})
        self._write(line.encode() + b"\n")
        self.done[key] = json.loads(line)["value"]

    def finish(self) -> None:
        self.file.close()
        self.path.unlink()
