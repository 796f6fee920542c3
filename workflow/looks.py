"""Snakemake looks for jobs to start whenever one has ended and, because of its limit on jobs a second, again some time after
each look. Every job that ends so begins another endless chain of looks; after a hundred jobs they fill a core (Snakemake 9.27).
One look to come is enough.
"""

import threading


def one_at_a_time(scheduler) -> None:
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
