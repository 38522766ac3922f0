"""Until when is the archive complete? By the newest marker, less what was withdrawn since."""

import enum
from typing import NamedTuple

from minutebook.completeness.objects import BoundaryObjects
from minutebook.completeness.withdrawing import read_claim
from minutebook.coverage.intervals import Interval
from minutebook.format.boundaries import NamedGap


class Completeness(NamedTuple):
    """Every record that arrived in [since, until) is archived once, but for the gaps. Epoch milliseconds."""

    since_ms: int
    until_ms: int
    gaps: tuple[NamedGap, ...]


class Answer(enum.Enum):
    """Whether a time is complete."""

    COMPLETE = "complete"
    GAPS = "gaps"
    NOT_YET = "not yet"


class JudgedTime(NamedTuple):
    """The answer about a time. `gaps` lie in it; `is_before_since`: its begin is older than all boundaries."""

    answer: Answer
    gaps: tuple[NamedGap, ...] = ()
    is_before_since: bool = False


def read_completeness(objects: BoundaryObjects, now_ms: int) -> Completeness | None:
    """Return what the newest marker says, less later withdrawals; None if nobody has published a boundary."""
    claim = read_claim(objects, now_ms)
    return None if claim is None else Completeness(claim.marker.since_ms, claim.marker.boundary_ms, claim.gaps)


def judge(known: Completeness, from_ms: int, until_ms: int) -> JudgedTime:
    """Judge what arrived in [from, until): of what lies before all boundaries nobody has said anything."""
    is_before = from_ms < known.since_ms or until_ms <= known.since_ms
    asked = Interval(from_ms, until_ms)
    gaps = tuple(sorted(gap for gap in known.gaps if asked.overlaps(Interval(*gap.times_ms))))
    if gaps or is_before:
        return JudgedTime(Answer.GAPS, gaps, is_before)
    return JudgedTime(Answer.COMPLETE if until_ms <= known.until_ms else Answer.NOT_YET)
