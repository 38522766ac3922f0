"""How a segment is joined to the one before it in its shard's chain. Pure.

Segments are taken in the order of positions; the one before is the one with the greatest `last` so far. Each names
its predecessor's last position in `after`:

                 before          segment          after
    HEAD                         [first..last]    a start; nothing is known before it
    ORPHAN                  ?....[first..last]    a position; nothing is known before it
    FOLLOWS      [.......last]---[first..last]    before's last position
    LEAPS        [.......last] ?.[first..last]    a position after before's last: a segment is missing between them
    GOES_BACK    [..a....last]   [first..last]    a position before before's last: read from an older checkpoint
    RESTARTS     [.......last] | [first..last]    a start: read without what was archived before

How coverage, the audit and restore judge each joint:

                 coverage: what is proven             audit: the finding               restore: is it a hole?
    HEAD         covers, where start.json says so     start.json must say the same     -
    ORPHAN       begins: BROKEN_CHAIN, or NOT_SEEN    broken_chain, or missing_start   -
    FOLLOWS      covers, unless its claim is a doubt  fine                             no
    LEAPS        begins: BROKEN_CHAIN, or NOT_SEEN    broken_chain                     yes
    GOES_BACK    begins, or resumes from a mark       fine, if a segment ends there    no
    RESTARTS     begins: BROKEN_CHAIN                 broken_chain                     yes

Two segments with the same `after` are the audit's forked_chain, and positions that are stored twice (`first` <=
before's last) its overlapping_segments, for any joint. RESTARTS breaks no chain if the segment itself states that
records may be missing before it (`is_doubtful`); coverage and restore accept GOES_BACK then, too. Nor does RESTARTS
of the segment that start.json names: KCL had skipped what lies before it, and it was archived later (unproven).
"""

import enum
from typing import Protocol

from minutebook.format.metadata import ChainStart, Predecessor
from minutebook.format.position import Position


class Joined(Protocol):
    """A member of a chain: a segment's metadata, or a link of evidence."""

    @property
    def last(self) -> Position:
        """Its last position."""

    @property
    def after(self) -> Predecessor:
        """Its predecessor."""


class Joint(enum.Enum):
    """How a segment is joined to the one before it; see above."""

    HEAD = enum.auto()
    ORPHAN = enum.auto()
    FOLLOWS = enum.auto()
    LEAPS = enum.auto()
    GOES_BACK = enum.auto()
    RESTARTS = enum.auto()


def joint_of(before: Joined | None, segment: Joined) -> Joint:
    """Return how a segment is joined to the one before it; None: nothing is known before it."""
    after = segment.after
    if isinstance(after, ChainStart):
        return Joint.HEAD if before is None else Joint.RESTARTS
    if before is None:
        return Joint.ORPHAN
    if after == before.last:
        return Joint.FOLLOWS
    return Joint.LEAPS if after > before.last else Joint.GOES_BACK
