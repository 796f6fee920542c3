"""What a long job has finished so far, one JSON line each, so that a killed one goes on where it stopped.

The first line says what the job is; a journal of another job is thrown away. A line that a kill cut short is dropped. What is
read back is what was written, to the last bit, so it makes no difference whether a result comes from here or from memory.
"""

import json
from pathlib import Path

from tdjepa.artefacts import canonical


class Journal:
    def __init__(self, path: Path, job: dict):
        head = canonical(job).encode() + b"\n"
        found = path.read_bytes() if path.exists() else b""
        whole = found[: found.rfind(b"\n") + 1] if found.startswith(head) else b""
        self.path, entries = path, map(json.loads, whole.splitlines()[1:])
        self.done = {tuple(entry["key"]): entry["value"] for entry in entries}
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "r+b" if whole else "wb")  # noqa: SIM115 - closed by `finish`, or by the job's death
        self.file.truncate(len(whole))
        self.file.seek(0, 2)
        if not whole:
            self.file.write(head)
        self.file.flush()

    def add(self, key: tuple, value: dict) -> None:
        line = canonical({"key": key, "value": value})
        self.file.write(line.encode() + b"\n")
        self.file.flush()
        self.done[key] = json.loads(line)["value"]

    def finish(self) -> None:
        self.file.close()
        self.path.unlink()
