"""Snakemake's later looks for jobs: one waits at a time, however often one is asked for."""

import threading

from snakemake.scheduling.job_scheduler import JobScheduler

from tdjepa_workflow.patches import one_look_at_a_time


class Scheduler:
    def __init__(self):
        self._open_jobs = threading.Semaphore(0)

    def _schedule_reevalutation(self, delay):
        raise AssertionError("replaced")


def test_one_look_waits_and_the_next_can_be_asked_for_when_it_has_come():
    scheduler = Scheduler()
    one_look_at_a_time(scheduler)
    for _ in range(3):
        before = threading.active_count()
        for _ in range(100):
            scheduler._schedule_reevalutation(0.1)
        assert threading.active_count() <= before + 1
        assert scheduler._open_jobs.acquire(timeout=60)
        assert not scheduler._open_jobs.acquire(timeout=0.3)


def test_the_pinned_snakemake_asks_so():
    assert callable(JobScheduler._schedule_reevalutation)
