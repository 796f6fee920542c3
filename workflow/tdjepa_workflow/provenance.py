"""Make Snakemake's up-to-date decision depend on content alone, and let it travel with Git and DVC.

Snakemake keeps its job records (parameters, code, checksums of small inputs) in .snakemake/metadata, which neither Git nor
DVC sees, and looks at a checksum only when an input's time stamp is newer. Outputs that come and go by `dvc pull`,
`dvc checkout` or `dvc repro` break that in four ways: a clone has no records; a checkout leaves the records of another
commit; DVC renews time stamps when it unprotects linked files, which hides stale outputs; the outputs of a cluster job
whose coordinator was killed have no record at all, because the coordinator writes them. So:

`export` writes, for every job, its record without times and the checksums of its outputs to
results/<scale>/provenance/<phase>.json, an output of that DVC stage. Each entry is a statement that stays true wherever
the file goes: an output of this content was made by this record.

`reconcile`, before every run, gives each output the record that fits its content, from Snakemake or from those files. An
output that neither knows (a killed coordinator, a file changed by hand) loses its record and gets a time stamp older than
any input, so its job runs again. And an input whose content is not what its consumer recorded gets a new time stamp.

`patches.record_at_exit`, in a job on a cluster, writes its record from there, so that a night's work outlives its coordinator.

The record format is Snakemake's own and private: the version is pinned, and tests/test_workflow.py runs all of this.
"""

import base64
import functools
import hashlib
import json
import os
import shutil
import time
from pathlib import Path

SNAKEMAKE = Path(".snakemake")
STATE = SNAKEMAKE / "provenance.json"  # digest of each provenance file as we last wrote or read it
VOLATILE = {"starttime", "endtime", "job_hash", "external_jobid", "incomplete"}
BIG = 1_000_000  # bytes; such a file is known by its size here and by the sha256 in its card, an output of the same job

Phases = dict[str, list[str]]
Statements = dict[str, tuple[str, dict]]  # output -> (its content, the record of the job that made it)


def export(phases: Phases, scale: str) -> None:
    """Write what is known of all existing outputs, phase by phase."""
    state = _read_json(STATE, {})
    for phase, outputs in phases.items():
        path = _file(scale, phase)
        known = {output: known for output, known in statements(scale, phase).items() if os.path.exists(output)}
        for output in filter(os.path.exists, outputs):
            if record := _load(output):
                known[output] = (content(output), _stable(record))
        if known:
            text = _text(known)
            if not path.exists() or path.read_text() != text:
                _write(path, text)
            state[str(path)] = _digest(text)
    _write(STATE, json.dumps(state, indent=1, sort_keys=True))


def reconcile(phases: Phases, scale: str) -> None:
    """Bring Snakemake's records and time stamps in line with the content of the files."""
    state, known, unknown = _read_json(STATE, {}), [], []
    _leave_the_future(phases)
    for phase, outputs in phases.items():
        path = _file(scale, phase)
        stated = statements(scale, phase)
        replaced = path.exists() and state.get(str(path)) != _digest(path.read_text())  # by DVC
        for output in filter(os.path.exists, outputs):
            fits = _settle(output, stated.get(output), replaced)
            (known if fits else unknown).append(output)
    for output in unknown:
        _set_time(output, 1)
    _renew_changed_inputs(known, set(unknown))
    export(phases, scale)


def _leave_the_future(phases: Phases) -> None:
    """Files of a clock that was ahead get the present time: Snakemake fails a job whose input is newer than its output."""
    outputs = {output for listed in phases.values() for output in listed}
    sources = (str(path) for folder in ("src", "paper", "workflow") for path in Path(folder).rglob("*"))
    now = time.time()
    for path in (*filter(os.path.isfile, sources), *filter(os.path.exists, outputs)):
        made = os.path.getmtime(path)
        if made > now:
            record = _load(path) if path in outputs else None
            _set_time(path, now)
            if record and record.get("endtime") == made:  # it stays the one that Snakemake wrote
                new = os.path.getmtime(path)
                _write(_record_path("metadata", path), json.dumps({**record, "starttime": new, "endtime": new}))


def _settle(output: str, statement: tuple[str, dict] | None, replaced: bool) -> bool:
    """Give an output the record that is true of it; False if there is none."""
    record, now = _load(output), os.path.getmtime(output)
    ours = record is not None and record.get("endtime") == now  # untouched since Snakemake wrote both
    if ours and not replaced:
        return True
    if statement and statement[0] == content(output):
        if not ours or _stable(record) != statement[1]:
            adopted = {**statement[1], "starttime": now, "endtime": now, "incomplete": False}
            _write(_record_path("metadata", output), json.dumps(adopted))
        return True
    if ours or _record_path("incomplete", output).exists():  # what to do about unfinished jobs, Snakemake knows
        return True
    _record_path("metadata", output).unlink(missing_ok=True)
    return False


def _renew_changed_inputs(outputs: list[str], but: set[str]) -> None:
    """Snakemake compares checksums only of inputs that are newer than the output; make the others newer."""
    now, sha256 = time.time(), functools.cache(_sha256)
    for output in outputs:
        made = os.lstat(output).st_mtime
        for path, recorded in ((_load(output) or {}).get("input_checksums") or {}).items():
            hidden = os.path.exists(path) and max(os.stat(path).st_mtime, os.lstat(path).st_mtime) <= made
            if hidden and path not in but and sha256(path) != recorded.removeprefix("sha256:"):
                _set_time(path, now)


def _set_time(path: str, when: float) -> None:
    """Never through a link: DVC's cache may be shared with others, and hold the same file for other commits."""
    if os.path.islink(path) or os.stat(path).st_nlink > 1:
        copy = os.path.join(os.path.dirname(path), f".{os.getpid()}.part")
        shutil.copyfile(path, copy)
        os.replace(copy, path)
    os.utime(path, (when, when))


def _stable(record: dict) -> dict:
    return {key: value for key, value in record.items() if key not in VOLATILE}


def content(path: str) -> str:
    size = os.path.getsize(path)
    return f"bytes:{size}" if size >= BIG else f"sha256:{_sha256(path)}"


def _sha256(path: str) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _record_path(kind: str, output: str) -> Path:
    """Where Snakemake keeps something on an output: base64 of its name, cut into folders when it is too long."""
    name = base64.urlsafe_b64encode(output.encode()).decode()
    longest = os.pathconf(".", "PC_NAME_MAX") - 1
    parts = [name[i : i + longest] for i in range(0, len(name), longest)]
    return SNAKEMAKE.joinpath(kind, *("@" + part for part in parts[:-1]), parts[-1])


def _load(output: str) -> dict | None:
    return _read_json(_record_path("metadata", output), None)


def _file(scale: str, phase: str) -> Path:
    return Path("results", scale, "provenance", f"{phase}.json")


def _text(known: Statements) -> str:
    """One entry per job: its outputs share a record."""
    jobs: dict[str, dict] = {}
    for output, (digest, record) in sorted(known.items()):
        key = json.dumps(record, sort_keys=True)
        jobs.setdefault(key, {"outputs": {}, "record": record})["outputs"][output] = digest
    return json.dumps(list(jobs.values()), indent=1, sort_keys=True) + "\n"


def statements(scale: str, phase: str) -> Statements:
    jobs = _read_json(_file(scale, phase), [])
    if not isinstance(jobs, list):  # not written by this version
        return {}
    return {output: (digest, job["record"]) for job in jobs for output, digest in job["outputs"].items()}


def _read_json(path: Path, default):
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):  # cut off by a kill: as good as absent
        return default


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and never through a link into DVC's cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.part")  # short: the name of a record may be as long as names can be
    temporary.write_text(text)
    os.replace(temporary, path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
