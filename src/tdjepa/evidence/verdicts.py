"""The rules: what an interval says to a test, to a published number, and what several tests say to their claim.

Direction and size are two verdicts. A direction is reproduced when the interval lies where the test says, and contradicted when
it leaves no room for it. There is no meaningful difference when the interval holds zero and stays within the margin. A size
is reproduced when the whole interval stays within the margin of the published number, and contradicted when it leaves that
number out. docs/statistics.md says why.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

REPRODUCED, CONTRADICTED, SAME = "reproduced", "contradicted", "no meaningful difference"
PREMISE, INCONCLUSIVE, NOT_RUN = "premise not met", "inconclusive", "not run"
VERDICTS = (REPRODUCED, CONTRADICTED, SAME, PREMISE, INCONCLUSIVE, NOT_RUN)  # as they are counted
DECIDED = (REPRODUCED, CONTRADICTED, SAME)
WORST = (CONTRADICTED, SAME, NOT_RUN, INCONCLUSIVE, REPRODUCED)  # of several tests, the first of these decides
RELATIONS = ("above", "below", "at_least", "at_most", "as_good", "equal")


class Interval(Protocol):
    effect: float
    low: float | None
    high: float | None


def direction(found: Interval | None, test: Mapping) -> str:
    """What an interval says to a test, which has `is`, `bound` (what it is held against) and `margin`."""
    if found is None:
        return NOT_RUN
    if found.low is None or found.high is None:
        return INCONCLUSIVE
    low, high, margin = found.low - test["bound"], found.high - test["bound"], test["margin"]
    within = -margin <= low and high <= margin
    if test["is"] == "equal":
        outside = low > margin or high < -margin
        return REPRODUCED if within else CONTRADICTED if outside else INCONCLUSIVE
    if test["is"] in ("below", "at_most"):
        low, high = -high, -low
    strict = test["is"] in ("above", "below")
    if low > 0 or (low == 0 and not strict):
        return REPRODUCED
    if high < 0:
        return CONTRADICTED
    return SAME if strict and within else INCONCLUSIVE


def size(found: Interval | None, published: float | None, test: Mapping) -> tuple[str | None, str]:
    """(the verdict on the published number, "smaller" or "larger" where it is contradicted); None without one, and where the
    test is about a size itself."""
    margin = test["margin"]
    if published is None or test["is"] == "equal":
        return None, ""
    if found is None:
        return NOT_RUN, ""
    if found.low is None or found.high is None:
        return INCONCLUSIVE, ""
    if published - margin <= found.low and found.high <= published + margin:
        return REPRODUCED, ""
    if found.low <= published <= found.high:
        return INCONCLUSIVE, ""
    beyond = found.low > published if published >= 0 else found.high < published
    return CONTRADICTED, "larger" if beyond else "smaller"


def shown_from(test: Mapping, detectable: float) -> float:
    """The true value from which (for "less": below which) a test is reproduced four times of five."""
    return test["bound"] + (-detectable if test["is"] in ("below", "at_most") else detectable)


def holds(estimate: float, test: Mapping) -> bool:
    """Whether an estimate alone meets a premise."""
    off = estimate - test["bound"]
    if test["is"] == "equal":
        return abs(off) <= test["margin"]
    off = -off if test["is"] in ("below", "at_most") else off
    return off > 0 or (off == 0 and test["is"] not in ("above", "below"))


def clearance(found: Interval | None, test: Mapping) -> float:
    """How far on the claim's side an effect lies, in half-widths of its interval: units differ between tests."""
    if found is None or found.low is None or found.high is None:
        return 0.0
    off, half = found.effect - test["bound"], (found.high - found.low) / 2
    if test["is"] == "equal":
        off = test["margin"] - abs(off)
    off = -off if test["is"] in ("below", "at_most") else off
    return off / half if half > 0 else math.copysign(math.inf, off) if off else 0.0


def deciding(verdicts: Sequence[str], clear: Sequence[float]) -> int:
    """Which of several tests decides their claim: of the worst verdict, the one whose interval is least on the claim's side."""
    order = [(WORST.index(verdict), c) for verdict, c in zip(verdicts, clear, strict=True)]
    return order.index(min(order))
