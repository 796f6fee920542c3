"""What we change in a running Snakemake (9.27), and why. What its records on disk get from us is in provenance.py.

`one_look_at_a_time`: Snakemake looks for jobs to start whenever one has ended and, because of its limit on jobs per second,
again some time after each look. So every job that ends begins another endless chain of looks; after a hundred jobs they fill
a core. One look to come is enough.

`record_at_exit`: on a cluster only the coordinator writes a job's record. If it is killed, the outputs of jobs that end
later have none and are made again. So the job writes its record itself.
"""

import asyncio
import atexit
import threading

from snakemake_interface_executor_plugins.settings import ExecMode


def one_look_at_a_time(scheduler) -> None:
    """At most one later look waits; as a daemon, so that the end of the run does not wait for it."""
    waiting = threading.Lock()

    def look():
        waiting.release()
        scheduler._open_jobs.release()

    def schedule(delay):
        if waiting.acquire(blocking=False):
            timer = threading.Timer(delay, look)
            timer.daemon = True
            timer.start()

    if hasattr(scheduler, "_schedule_reevalutation"):  # spelled so; another version may have another way
        scheduler._schedule_reevalutation = schedule


def record_at_exit(workflow) -> None:
    """When this process ends: after Snakemake has given the outputs of the job their last time stamps."""

    def write():
        workflow.workflow_settings.exec_mode = ExecMode.DEFAULT  # in which Snakemake writes records
        for job in workflow.dag.finished_jobs if workflow.dag else ():
            asyncio.run(workflow.persistence.finished(job))

    atexit.register(write)
