"""Merge consecutive links of one processor run: a day of 1,440 segments becomes some dozens of links.

Segments that follow each other in one run, without a claim, extend the `until` before them. A sequence of them proves
what its last one proves, so one link may replace it. Not merged are:

    the first and the last link, and any that does not follow in this way
    links near an edge of the scope ........... searches examine them one by one
    links that hold, or follow, a position .... that evidence refers to
    more than six hours ....................... a link may follow another by less than a day (`SURELY_HELD_MS`)

If later evidence refers to a position within a merged link (`hidden`), the caller condenses again.
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
_LONGEST_MS: Final = 6 * 60 * MINUTE_MS


def condense(links: Iterable[EvidenceLink], scope: Interval, positions: Iterable[Position]) -> list[EvidenceLink]:
    """Return fewer links that prove the same of a scope, if evidence refers to no position but `positions`."""
    chain = in_order(links)
    references = sorted(positions)
    condensed: list[EvidenceLink] = []
    run: list[EvidenceLink] = []
    reached: Position | None = None
    for number, link in enumerate(chain):
        is_inner = (
            0 < number < len(chain) - 1
            and reached == chain[number - 1].last
            and not _is_near(link, scope)
            and _follows(chain[number - 1], link)
            and not _is_referenced(references, chain[number - 1].last, link.last)
        )
        reached = link.last if reached is None else max(reached, link.last)
        if is_inner and (not run or link.until_ms - run[0].until_ms < _LONGEST_MS):
            run.append(link)
            continue
        condensed += _merged(run)
        run = [link] if is_inner else []
        if not is_inner:
            condensed.append(link)
    return [*condensed, *_merged(run)]


def hidden(links: Iterable[EvidenceLink], whole: Iterable[tuple[Position, Position]], position: Position) -> bool:
    """Return whether a position lies within a merged link; `whole` are the (first, last) of merged links."""
    merged = frozenset(whole)
    return any(link.first <= position < link.last for link in links if (link.first, link.last) in merged)


def _follows(before: EvidenceLink, link: EvidenceLink) -> bool:
    """Return whether a segment follows in the run of the one before it, without a claim of its own."""
    return (
        link.kind is before.kind is Kind.SEGMENT
        and link.claim is None
        and link.run is not None
        and link.run == before.run
        and joint_of(before, link) is Joint.FOLLOWS
        and before.last < link.first
        and before.until_ms <= link.until_ms < before.until_ms + _LONGEST_MS
    )


def _is_referenced(references: Sequence[Position], low: Position, high: Position) -> bool:
    """Return whether evidence refers to a position from `low` to `high`, both included."""
    at = bisect_left(references, low)
    return at < len(references) and references[at] <= high


def _is_near(link: EvidenceLink, scope: Interval) -> bool:
    minute_ms = link.until_ms + MINUTE_MS
    return any(abs(minute_ms - edge_ms) <= _EDGE_MS for edge_ms in scope)


def _merged(run: Sequence[EvidenceLink]) -> list[EvidenceLink]:
    if not run:
        return []
    last = run[-1]
    return [run[0]._replace(last=last.last, until_ms=last.until_ms, stored_ms=last.stored_ms)]
