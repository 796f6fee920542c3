"""Make Snakemake's up-to-date decision depend on content alone, and let it travel with Git and DVC.

Snakemake keeps its job records (parameters, code, checksums of small inputs) in .snakemake/metadata, which neither Git nor
DVC sees, and looks at a checksum only when an input's time stamp is newer. Outputs that come and go by `dvc pull`,
`dvc checkout` or `dvc repro` break that in four ways: a clone has no records; a checkout leaves the records of another
commit; DVC renews time stamps when it unprotects linked files, which hides stale outputs; the outputs of a job whose
coordinator was killed have no record at all. So:

`export` writes the records, without times, to results/<scale>/provenance/<phase>.json, an output of that DVC stage;
`reconcile`, before every run, adopts those files when DVC or Git has replaced them, gives outputs without a record a time
stamp older than any input (no record, no trust), and renews the time stamp of every input whose content is not what its
consumer recorded.

The record format is Snakemake's own and private (tested with the pinned version).
"""

import base64
import functools
import hashlib
import json
import os
import time
from pathlib import Path

METADATA = Path(".snakemake/metadata")
STATE = Path(".snakemake/provenance.json")  # digest of each provenance file as we last wrote or adopted it
VOLATILE = {"starttime", "endtime", "job_hash", "external_jobid", "incomplete"}

Phases = dict[str, list[str]]


def export(phases: Phases, scale: str) -> None:
    """Write the records of all existing outputs, phase by phase."""
    state = _state()
    for phase, files in phases.items():
        records = {f: _stable(record) for f in sorted(files) if os.path.exists(f) and (record := _load(f))}
        if not records:
            continue
        text = json.dumps(records, indent=1, sort_keys=True) + "\n"
        path = _file(scale, phase)
        if not (path.exists() and path.read_text() == text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # never write through a link into DVC's cache
            path.write_text(text)
        state[str(path)] = _digest(text)
    _save_state(state)


def reconcile(phases: Phases, scale: str) -> None:
    """Bring Snakemake's records and time stamps in line with the content of the files."""
    state, now = _state(), time.time()
    for phase, files in phases.items():
        path = _file(scale, phase)
        if path.exists():
            text = path.read_text()
            if state.get(str(path)) != _digest(text):  # DVC or Git put another version there
                _adopt(json.loads(text), files, now)
                state[str(path)] = _digest(text)
    stale = set()
    for output in (f for files in phases.values() for f in files if os.path.exists(f)):
        record = _load(output)
        if record is None:
            _touch(output, 1)
        else:
            stale |= {i for i, want in (record.get("input_checksums") or {}).items() if _differs(i, want)}
    for changed in stale:
        _touch(changed, now)
    _save_state(state)


def _adopt(records: dict, files: list[str], now: float) -> None:
    allowed = set(files)  # a name in a downloaded file must not make us write anywhere else
    for output, record in records.items():
        if output not in allowed or not os.path.exists(output):
            continue
        current = _load(output)
        if current is None or _stable(current) != record:
            path = _record_path(output)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({**record, "starttime": now, "endtime": now, "incomplete": False}))


def _stable(record: dict) -> dict:
    return {key: value for key, value in record.items() if key not in VOLATILE}


def _differs(path: str, recorded: str) -> bool:
    recorded = recorded if ":" in recorded else f"sha256:{recorded}"
    return os.path.exists(path) and recorded.startswith("sha256:") and _sha256(path) != recorded


@functools.cache
def _sha256(path: str) -> str:
    with open(path, "rb") as f:
        return "sha256:" + hashlib.file_digest(f, "sha256").hexdigest()


def _touch(path: str, when: float) -> None:
    os.utime(path, (when, when))
    os.utime(path, (when, when), follow_symlinks=False)


def _record_path(output: str) -> Path:
    """Where Snakemake keeps the record of an output: base64 of its name, cut into folders when it is too long."""
    name = base64.urlsafe_b64encode(output.encode()).decode()
    longest = os.pathconf(".", "PC_NAME_MAX") - 1
    parts = [name[i : i + longest] for i in range(0, len(name), longest)]
    return METADATA.joinpath(*("@" + part for part in parts[:-1]), parts[-1])


def _load(output: str) -> dict | None:
    path = _record_path(output)
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError:  # cut off by a kill: as good as absent
        path.unlink()
        return None


def _file(scale: str, phase: str) -> Path:
    return Path("results", scale, "provenance", f"{phase}.json")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _state() -> dict:
    try:
        return json.loads(STATE.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _save_state(state: dict) -> None:
    STATE.parent.mkdir(exist_ok=True)
    temporary = STATE.with_suffix(".part")
    temporary.write_text(json.dumps(state, indent=1, sort_keys=True))
    os.replace(temporary, STATE)
