"""Withdraw what a published boundary said: gaps of its claim that were found after it was published.

    |-- since ------------ claim of the newest marker ------------ boundary --|
          named gap .............. known already: nothing to say
                   gap of a later withdrawal .... known already
                                        new gap ......... PUT If-None-Match
                                                                      new gap that only begins here: the same
                                                                                  later: the next marker's affair

The publisher withdraws for batches that KCL skipped, the nightly job for what it found missing. Whoever comes second
finds the gap known, and stores nothing. A gap that was healed since is not known any more, and is withdrawn again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minutebook.completeness.objects import LOOK_BACK_MS, BoundaryObjects
from minutebook.coverage.intervals import Interval
from minutebook.format.boundaries import CompleteMarker, NamedGap, Withdrawal


class Claim(NamedTuple):
    """What readers are told: the newest marker, and its gaps with those that were withdrawn since."""

    marker: CompleteMarker
    gaps: tuple[NamedGap, ...]


def read_claim(objects: BoundaryObjects, now_ms: int) -> Claim | None:
    """Return the newest claim; None if nobody has published a boundary.

    A LIST for each of three days, and a GET of the marker and of each withdrawal unless they were read before.
    """
    listed = objects.list_markers(now_ms - LOOK_BACK_MS, now_ms + LOOK_BACK_MS)
    if not listed.boundaries:
        listed = objects.list_all()
    if not listed.boundaries:
        return None
    marker = objects.newest(listed.boundaries, now_ms)
    oldest_ms = marker.boundary_ms - LOOK_BACK_MS  # what was withdrawn before is in the gaps, or was healed
    found = (
        objects.withdrawal(each.key)
        for each in listed.withdrawals
        if each.boundary_ms >= oldest_ms and each.identity not in marker.folded
    )
    named = set(marker.gaps)
    later = [gap for withdrawal in found if withdrawal for gap in withdrawal.gaps if gap not in named]
    return Claim(marker, (*marker.gaps, *later))


def withdraw(objects: BoundaryObjects, claim: Claim, gaps: Iterable[NamedGap], why: str) -> tuple[NamedGap, ...]:
    """Say of a claim that it has those of the gaps that it covers and does not name; return them.

    One PUT if there are any. Killed before it, the next run finds the same gaps.
    """
    marker = claim.marker
    new = tuple(sorted({gap for gap in gaps if _is_claimed(gap, marker) and not is_within(gap, claim.gaps)}))
    if new:
        objects.withdraw(Withdrawal(boundary=marker.boundary, gaps=new, why=why))
    return new


def is_within(gap: NamedGap, others: Iterable[NamedGap]) -> bool:
    """Return whether a gap lies within one of the others."""
    from_ms, until_ms = gap.times_ms
    return any(
        other.shard == gap.shard and other.times_ms[0] <= from_ms and until_ms <= other.times_ms[1]
        for other in others
    )


def _is_claimed(gap: NamedGap, marker: CompleteMarker) -> bool:
    return Interval(*gap.times_ms).overlaps(Interval(marker.since_ms, marker.boundary_ms))
