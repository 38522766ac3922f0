"""Where each shard's chain ends, found by walking the archive backwards, hour by hour (`minutebook.index`).

The tail is the segment with the greatest first position, not the one in the newest minute: arrival times may step
back inside a shard, and then a later segment lies in an older minute. Kinesis promises no bound for that step;
milliseconds to seconds have been observed. The walk therefore goes on until everything within `beyond_minutes`
before each shard's best candidate is listed.

If a tail lies even further back, an older segment is returned in its place. That only costs time: the position
is still the end of a real segment, and a processor that starts there finds the stored ranges after it by LIST and
skips them (docs/decisions/0003-commit-protocol.md).
"""

import heapq
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from minutebook.coverage.joints import Joint, joint_of
from minutebook.errors import FormatError
from minutebook.format.arrival import TAIL_REACH_MINUTES
from minutebook.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.position import Position
from minutebook.format.tombstone import FOLDER, tombstone_key
from minutebook.index.names import ArchiveIndex, SegmentName
from minutebook.store.commit import stored_segment
from minutebook.store.retrying import RetryingStore
from minutebook.store.tombstones import read_tombstone_at

AHEAD_MINUTES: Final = MINUTES_A_DAY
"""How far in the future the walk begins: minutes come from the stream, and this machine's clock may be slow."""
_LINKS: Final = 4
"""Segments read at the end of a chain, to check that each names the one before it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ChainEnd(NamedTuple):
    """The last segments of one shard's chain, in order, the tail last; at least one.

    `holes` are the positions after which a segment is missing: the next one names another predecessor. `unread` are
    tombstones that do not parse. The missing segment may have been expired by one of them, so it is not counted as a
    hole: reading the stream again could not fill it, because expired days are long trimmed.
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
        """The last segment before the oldest hole; the tail when there is none."""
        hole = min(self.holes, default=None)
        return self.tail if hole is None else next(segment for segment in self.segments if segment.last == hole)


def find_ends(
    store: RetryingStore,
    prefix: str,
    shards: Mapping[str, int],
    newest: int,
    *,
    beyond_minutes: int = TAIL_REACH_MINUTES,
) -> dict[str, ChainEnd]:
    """Return the ends of the chains of `shards`, which maps each shard to the oldest minute to search.

    The walk begins at the minute `newest`. A shard without a segment in that time is left out. One LIST per 1,000
    objects of each hour walked, one HEAD per segment returned (at most `_LINKS` a shard).
    """
    ends = find_end_keys(store, prefix, shards, newest, beyond_minutes=beyond_minutes)
    shard_ids = sorted(ends)
    read = store.read_many(lambda shard_id: read_end(store, prefix, ends[shard_id]), shard_ids)
    return dict(zip(shard_ids, read, strict=True))


def find_end_keys(
    store: RetryingStore,
    prefix: str,
    shards: Mapping[str, int],
    newest: int,
    *,
    beyond_minutes: int = TAIL_REACH_MINUTES,
) -> dict[str, list[SegmentName]]:
    """Return only the names of the segments that `find_ends` reads, in the order of the chain."""
    ends: dict[str, list[SegmentName]] = {}
    if not shards:
        return ends
    index = ArchiveIndex(store, prefix)
    for hour in index.hours_back(newest, min(shards.values())):
        # Empty hours are skipped, so everything after this hour's end is listed by now.
        if _are_settled(shards, ends, hour.first_minute + MINUTES_AN_HOUR, beyond_minutes):
            break
        for name in index.in_period(hour):
            if shards.get(name.shard_id, newest + 1) <= name.minute <= newest:
                ends.setdefault(name.shard_id, []).append(name)
        for shard_id, names in ends.items():
            ends[shard_id] = sorted(heapq.nlargest(_LINKS, names, key=_first), key=_first)
        if _are_settled(shards, ends, hour.first_minute, beyond_minutes):
            break
    return ends


def _are_settled(
    shards: Mapping[str, int], ends: Mapping[str, list[SegmentName]], walked: int, beyond_minutes: int
) -> bool:
    """Return whether no minute before `walked` needs to be listed."""
    return all(
        walked <= oldest or (shard_id in ends and walked <= ends[shard_id][-1].minute - beyond_minutes)
        for shard_id, oldest in shards.items()
    )


def read_end(store: RetryingStore, prefix: str, names: list[SegmentName]) -> ChainEnd:
    """Read the segments of one chain's end and check their links; raises as `find_ends` does."""
    keys = tuple(name.key for name in names)
    segments = tuple(stored_segment(store, prefix, key) for key in keys)
    holes, unread = [], set()
    for before, after in itertools.pairwise(segments):
        # Reading the stream again cannot fill these: the writer recorded the doubt itself, or it began at an older
        # position after which the stream had trimmed everything.
        if after.is_doubtful or joint_of(before, after) in {Joint.FOLLOWS, Joint.GOES_BACK}:
            continue
        is_expired, damaged = _read_tombstones(store, prefix, before, after)
        unread |= damaged
        if not is_expired and not damaged:
            holes.append(before.last)
    return ChainEnd(keys, segments, tuple(holes), tuple(sorted(unread)))


def _read_tombstones(
    store: RetryingStore, prefix: str, before: SegmentMetadata, after: SegmentMetadata
) -> tuple[bool, set[str]]:
    """Return whether the predecessor that `after` names was expired, and the tombstones that do not parse.

    Tombstones of the days before and after are read, too: arrival times may step back over midnight, so a segment
    between two of one day may lie in another.
    """
    if not isinstance(after.after, Position):
        return False, set()
    damaged: set[str] = set()
    days = sorted(_EPOCH.date() + timedelta(days=segment.minute // MINUTES_A_DAY) for segment in (before, after))
    low, high = (tombstone_key(prefix, day) for day in (days[0] - timedelta(days=1), days[1] + timedelta(days=1)))
    for key in (key for key in store.keys(f"{prefix}{FOLDER}") if low <= key <= high):
        try:
            tombstone = read_tombstone_at(store, key, must_exist=True)
            if tombstone and tombstone.covers(after.shard_id, after.after):
                return True, set()
        except FormatError:
            damaged.add(key)
    return False, damaged


def _first(name: SegmentName) -> Position:
    return name.first
