"""A shard's links, with stretches of one run taken together: what a day of 1,440 segments proves, in some dozens.

Segments that follow each other in one processor's run, and claim nothing, carry the `until` before them on. A stretch
of them proves what its last one proves, and one link may stand for it. Left as they are:

    the first and the last link, and any that does not follow so
    what lies near an edge of the scope ....... searches look there, segment by segment
    what holds, or follows, a position ........ that evidence stands on
    a stretch of more than six hours .......... a link may follow another by less than a day (`SURELY_HELD_MS`)

Where evidence turns up later that stands on a position inside of what was taken together (`hidden`), condense again.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from minutebook.coverage.evidence import EvidenceLink, Kind, in_order
from minutebook.coverage.intervals import Interval
from minutebook.coverage.joints import Joint, joint_of
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position

_EDGE_MS: Final = 6 * MINUTE_MS
_STRETCH_MS: Final = 6 * 60 * MINUTE_MS


def condense(links: Iterable[EvidenceLink], scope: Interval, positions: Iterable[Position]) -> list[EvidenceLink]:
    """Return links that prove of a scope what the given ones prove, where evidence stands on `positions` alone."""
    chain = in_order(links)
    named = sorted(positions)
    found: list[EvidenceLink] = []
    stretch: list[EvidenceLink] = []
    reached: Position | None = None
    for number, link in enumerate(chain):
        is_inner = (
            0 < number < len(chain) - 1
            and reached == chain[number - 1].last
            and not _is_near(link, scope)
            and _follows(chain[number - 1], link)
            and not _is_named(named, chain[number - 1].last, link.last)
        )
        reached = link.last if reached is None else max(reached, link.last)
        if is_inner and (not stretch or _fits(stretch, link)):
            stretch.append(link)
            continue
        found += _taken_together(stretch)
        stretch = [link] if is_inner else []
        if not is_inner:
            found.append(link)
    return [*found, *_taken_together(stretch)]


def hidden(links: Iterable[EvidenceLink], whole: Iterable[tuple[Position, Position]], position: Position) -> bool:
    """Tell whether a position lies inside a link that stands for several; `whole` are the ends of those that do."""
    inside = frozenset(whole)
    return any(link.first <= position < link.last for link in links if (link.first, link.last) in inside)


def _follows(before: EvidenceLink, link: EvidenceLink) -> bool:
    """Tell whether a segment goes on in the run of the one before it, and claims nothing of its own."""
    return (
        link.kind is before.kind is Kind.SEGMENT
        and link.claim is None
        and link.run is not None
        and link.run == before.run
        and joint_of(before, link) is Joint.FOLLOWS
        and before.last < link.first
        and before.until_ms <= link.until_ms < before.until_ms + _STRETCH_MS
    )


def _is_named(named: Sequence[Position], low: Position, high: Position) -> bool:
    """Tell whether something stands on a position from `low` to `high`, both included."""
    at = bisect_left(named, low)
    return at < len(named) and named[at] <= high


def _is_near(link: EvidenceLink, scope: Interval) -> bool:
    minute_ms = link.until_ms + MINUTE_MS
    return any(abs(minute_ms - edge_ms) <= _EDGE_MS for edge_ms in scope)


def _fits(stretch: Sequence[EvidenceLink], link: EvidenceLink) -> bool:
    return link.until_ms - stretch[0].until_ms < _STRETCH_MS


def _taken_together(stretch: Sequence[EvidenceLink]) -> list[EvidenceLink]:
    if len(stretch) < 2:  # noqa: PLR2004 - one stands for itself
        return list(stretch)
    last = stretch[-1]
    return [stretch[0]._replace(last=last.last, until_ms=last.until_ms, stored_ms=last.stored_ms)]
