"""One progress bar for all long work: what, how far, rate, ETA. On a terminal it moves; in a log it is a line now and then."""

import sys


def progress(total: int, what: str, unit: str, initial: int = 0):
    from tqdm import tqdm

    quiet = not sys.stderr.isatty()
    pace = {"mininterval": 15, "maxinterval": 60} if quiet else {"mininterval": 0.2, "maxinterval": 5}
    pace |= {"dynamic_ncols": not quiet, "ascii": quiet, "smoothing": 0.1}
    return tqdm(total=total, desc=what, unit=unit, initial=initial, **pace)
