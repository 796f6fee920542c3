"""What a long job has finished so far, one JSON line each, so that a killed one goes on where it stopped.

The first line says what the job is; a journal of another job is thrown away. A line that a kill cut short is dropped. What
is read back equals what was written, to the last bit, so it does not matter whether a result comes from here or from memory.
"""

import json
from pathlib import Path

from tdjepa.base.artefacts import canonical, explained, lock


class Journal:
    def __init__(self, path: Path, job: dict):
        head = canonical(job).encode() + b"\n"
        self.path, self.done = path, {}
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(path, "a+b")  # noqa: SIM115 - closed by `finish`, or by the job's death
            # two writers would tear each other's lines
            taken = "another process is writing this journal; wait for it, or write elsewhere with --out"
            lock(self.file, f"{path}: {taken}")
            self.file.seek(0)
            found = self.file.read()
            whole = len(head) + self._read(found[len(head) :]) if found.startswith(head) else 0
            self.file.truncate(whole)
            if not whole:
                self._write(head)

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
