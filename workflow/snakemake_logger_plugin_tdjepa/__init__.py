"""The events of a run as JSON lines, for programs: `tdjepa status` reads them. Snakemake finds this package by its name.

One file per run: .snakemake/tdjepa/<time and process>.jsonl. A dry run writes only to a file that is named by
--logger-tdjepa-file. Each line has `event` and `time` (seconds since 1970), and by event:

    run       cores            the run has begun; on a cluster `cores` is how many jobs may be in the queue
    plan      jobs             how many jobs of each rule will run
    planned   a job            it would run (dry runs only)
    started   a job            it has begun, or begun again
    finished  id
    failed    id

A job is its `id` in this run, `rule`, `wildcards`, `threads`, and `job`, its name: that of its log.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from logging import LogRecord
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

FOLDER = Path(".snakemake/tdjepa")


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    file: Path | None = field(default=None, metadata={"help": "write the events to this file", "type": Path})


class LogHandler(LogHandlerBase):
    writes_to_stream = writes_to_file = needs_rulegraph = (
        False  # the file is no log that Snakemake should name at its end
    )
    has_filter = has_formatter = True  # --quiet is for people

    def __post_init__(self) -> None:
        self.dry = self.common_settings.dryrun
        self.path = self.settings.file if self.settings else None
        if not self.path and not self.dry:
            self.path = FOLDER / f"{time.strftime('%Y-%m-%dT%H%M%S', time.gmtime())}-{os.getpid()}.jsonl"

    def emit(self, record: LogRecord) -> None:
        lines = "".join(json.dumps({**event, "time": record.created}) + "\n" for event in self._events(record))
        if not lines or not self.path:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a") as file:
                file.write(lines)
        except OSError:  # a full disk: the run itself will say so
            self.path = None

    def _events(self, record: LogRecord) -> Iterator[dict]:
        match getattr(record, "event", None):
            case LogEvent.RESOURCES_INFO:
                cores = getattr(record, "cores", None) or getattr(record, "nodes", None)
                if cores:
                    yield {"event": "run", "cores": cores}
            case LogEvent.RUN_INFO if not self.dry:
                jobs = {rule: n for rule, n in record.stats.items() if rule != "total" and not _is_target(rule)}
                yield {"event": "plan", "jobs": jobs}
            case LogEvent.JOB_INFO if not _is_target(record.rule_name):
                name = Path(record.log[0]).stem if record.log else record.rule_name
                job = {"id": record.jobid, "rule": record.rule_name, "job": name, "threads": record.threads}
                yield {"event": "planned" if self.dry else "started", **job, "wildcards": dict(record.wildcards)}
            case LogEvent.JOB_FINISHED:
                yield {"event": "finished", "id": record.job_id}
            case LogEvent.JOB_ERROR:
                yield {"event": "failed", "id": record.jobid}


def _is_target(rule: str) -> bool:
    """It only asks for files of others."""
    return rule == "all" or rule.endswith("_all")
