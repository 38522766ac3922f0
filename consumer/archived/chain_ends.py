"""Where each shard's chain ends, found by walking the archive backwards (`consumer.archived.walk`).

The tail is the segment with the greatest first position, not the one in the newest minute: arrival times may step
back inside a shard, and then a later segment lies in an older minute. Kinesis promises no bound for that;
milliseconds to seconds are what is seen. The walk therefore goes on until everything within `beyond_minutes`
before each shard's best candidate has been seen.

Should a tail hide further back still, an older one is found in its place. That costs time and nothing else: a
position found here is always the end of a real segment, and a processor that starts there finds the stored ranges
behind it by LIST and skips them (docs/decisions/0003-commit-protocol.md). The other direction, a tail that lies
beyond the archive, cannot happen.
"""

import heapq
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from archive.errors import FormatError
from archive.format.day import MINUTES_A_DAY
from archive.format.keys import SegmentKey, segment_key
from archive.format.metadata import SegmentMetadata
from archive.format.position import Position
from archive.format.tombstone import FOLDER, decode_tombstone, tombstone_key
from archive.store.commit import stored_segment
from archive.store.retrying import RetryingStore
from consumer.archived.walk import Window, segments_by_hour

BEYOND_MINUTES: Final = 120
"""How far behind a candidate the walk looks for a later segment in an older minute."""
AHEAD_MINUTES: Final = MINUTES_A_DAY
"""How far into the future the walk begins: the minutes are the stream's, and this machine's clock may be slow."""
LINKS: Final = 4
"""How many segments at the end of a chain are read, to check that each names the one before it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ChainEnd(NamedTuple):
    """The last segments of one shard's chain, in order, the tail last; at least one.

    `holes` are the positions after which a segment is missing: the next one that is there names another predecessor.
    `unread` are tombstones that cannot be read, and may tell that what is missing was expired: no hole that reading
    again could fill, for a day is expired when the stream has long trimmed it.
    """

    keys: tuple[str, ...]
    segments: tuple[SegmentMetadata, ...]
    holes: tuple[Position, ...]
    unread: tuple[str, ...] = ()

    @property
    def tail(self) -> SegmentMetadata:
        """The last segment."""
        return self.segments[-1]

    @property
    def before_holes(self) -> SegmentMetadata:
        """The last segment before the oldest hole seen; the tail when there is none."""
        hole = min(self.holes, default=None)
        return self.tail if hole is None else next(segment for segment in self.segments if segment.last == hole)


def find_ends(
    store: RetryingStore,
    prefix: str,
    shards: Mapping[str, int],
    newest: int,
    *,
    beyond_minutes: int = BEYOND_MINUTES,
    links: int = LINKS,
) -> dict[str, ChainEnd]:
    """Return the ends of the chains of `shards`, which maps each shard to the oldest minute worth looking at.

    The walk begins at the minute `newest`. A shard without a segment in that time is left out. One LIST per 1,000
    objects of each hour walked, one HEAD per segment returned (at most `links` a shard).

    Raises:
        ForeignObject, FormatError, ObjectVanished: a segment at a chain's end is not what its name says.
        StoreUnavailable, StoreRefused: the store.
    """
    found = find_end_keys(store, prefix, shards, newest, beyond_minutes=beyond_minutes, links=links)
    return {shard_id: read_end(store, prefix, keys) for shard_id, keys in sorted(found.items())}


def find_end_keys(
    store: RetryingStore,
    prefix: str,
    shards: Mapping[str, int],
    newest: int,
    *,
    beyond_minutes: int = BEYOND_MINUTES,
    links: int = LINKS,
) -> dict[str, list[SegmentKey]]:
    """Return the names alone of what `find_ends` returns, in the order of the chain."""
    found: dict[str, list[SegmentKey]] = {}
    if not shards:
        return found
    window = Window(min(shards.values()), newest)
    for hour in segments_by_hour(store, prefix, window):
        for segment in hour.segments:
            if segment.minute >= shards.get(segment.shard_id, newest + 1):
                found.setdefault(segment.shard_id, []).append(segment)
        for shard_id, kept in found.items():
            found[shard_id] = sorted(heapq.nlargest(links, kept, key=_first), key=_first)
        if all(_is_settled(found.get(name), hour.start, oldest, beyond_minutes) for name, oldest in shards.items()):
            break
    return found


def _is_settled(kept: list[SegmentKey] | None, walked: int, oldest: int, beyond_minutes: int) -> bool:
    """Tell whether no minute before `walked` needs to be looked at for a shard."""
    return walked <= oldest or (kept is not None and walked <= kept[-1].minute - beyond_minutes)


def read_end(store: RetryingStore, prefix: str, keys: list[SegmentKey]) -> ChainEnd:
    """Read the segments of one chain's end and check their links; raises as `find_ends` does."""
    names = tuple(segment_key(prefix, key.shard_id, key.minute, key.first, key.compression) for key in keys)
    segments = tuple(stored_segment(store, prefix, name) for name in names)
    holes, unread = [], set()
    for before, after in itertools.pairwise(segments):
        # Nothing that going back could mend: a doubt that its writer knew and recorded, and a writer that began at an
        # older place and was delivered nothing of what lies behind it, because retention had passed it.
        if after.is_doubtful or (isinstance(after.after, Position) and after.after <= before.last):
            continue
        is_expired, damaged = _is_expired(store, prefix, before, after)
        unread |= damaged
        if not is_expired and not damaged:
            holes.append(before.last)
    return ChainEnd(names, segments, tuple(holes), tuple(sorted(unread)))


def _is_expired(
    store: RetryingStore, prefix: str, before: SegmentMetadata, after: SegmentMetadata
) -> tuple[bool, set[str]]:
    """Tell whether what `after` names as its predecessor was expired on purpose, and which tombstones cannot be read.

    The tombstones around know it, also those of the days beside: arrival times may step back over midnight, and the
    segment between two of one day then lies in another.
    """
    if not isinstance(after.after, Position):
        return False, set()
    damaged: set[str] = set()
    days = sorted(_EPOCH.date() + timedelta(days=segment.minute // MINUTES_A_DAY) for segment in (before, after))
    low, high = (tombstone_key(prefix, day) for day in (days[0] - timedelta(days=1), days[1] + timedelta(days=1)))
    for key in (key for key in store.keys(f"{prefix}{FOLDER}") if low <= key <= high):
        found = store.get(key)
        try:
            if found and decode_tombstone(found.body, key).covers(after.shard_id, after.after):
                return True, set()
        except FormatError:
            damaged.add(key)
    return False, damaged


def _first(segment: SegmentKey) -> Position:
    return segment.first
