"""Where each shard's chain ends, found from the object names alone.

The names say minute, shard and first position, and nothing points at the newest. So the archive is walked
backwards from now, hour by hour: years, months and days without an object are skipped with one request each, an
hour is listed whole (all shards at once: 1,000 objects a request).

The tail is the segment with the greatest first position, not the one in the newest minute: arrival times may step
back inside a shard, and then a later segment lies in an older minute. Kinesis promises no bound for that;
milliseconds to seconds are what is seen. The walk therefore goes on until everything within `beyond_minutes`
before each shard's best candidate has been seen.

Should a tail hide further back still, an older one is found in its place. That costs time and nothing else: a
position found here is always the end of a real segment, and a processor that starts there meets the stored ranges
behind it by LIST and skips them (docs/decisions/0003-commit-protocol.md). The other direction, a tail that lies
beyond the archive, cannot happen.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from archive.errors import FormatError
from archive.format.keys import SegmentKey, parse_segment_key, segment_key
from archive.format.metadata import Continuity, SegmentMetadata
from archive.format.position import Position
from archive.format.tombstone import FOLDER, decode_tombstone, tombstone_key
from archive.retry import Backoff, until_known
from archive.store.commit import stored_segment
from archive.store.objects import ObjectStore

MINUTES_PER_HOUR: Final = 60
MINUTES_PER_DAY: Final = 1440
BEYOND_MINUTES: Final = 120
"""How far behind a candidate the walk looks for a later segment in an older minute."""
AHEAD_MINUTES: Final = MINUTES_PER_DAY
"""How far into the future the walk begins: the minutes are the stream's, and this machine's clock may be slow."""
LINKS: Final = 4
"""How many segments at the end of a chain are read, to check that each names the one before it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Waits = Callable[[], Backoff]


class Window(NamedTuple):
    """The minutes that a walk covers, both ends included: from `newest` down to `oldest`."""

    oldest: int
    newest: int


class Hour(NamedTuple):
    """One hour of the archive: its first minute, and the segments in it."""

    start: int
    segments: list[SegmentKey]


class ChainEnd(NamedTuple):
    """The last segments of one shard's chain, in order, the tail last; at least one.

    `holes` are the positions after which a segment is missing: the next one that is there names another predecessor.
    """

    keys: tuple[str, ...]
    segments: tuple[SegmentMetadata, ...]
    holes: tuple[Position, ...]

    @property
    def tail(self) -> SegmentMetadata:
        """The last segment."""
        return self.segments[-1]

    @property
    def before_holes(self) -> SegmentMetadata:
        """The last segment before the oldest hole seen; the tail when there is none."""
        hole = min(self.holes, default=None)
        return self.tail if hole is None else next(one for one in self.segments if one.last == hole)


def find_ends(
    store: ObjectStore,
    prefix: str,
    shards: Mapping[str, int],
    newest: int,
    waits: Waits,
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
    found = find_end_keys(store, prefix, shards, newest, waits, beyond_minutes=beyond_minutes, links=links)
    return {shard_id: read_end(store, prefix, keys, waits) for shard_id, keys in sorted(found.items())}


def find_end_keys(
    store: ObjectStore,
    prefix: str,
    shards: Mapping[str, int],
    newest: int,
    waits: Waits,
    *,
    beyond_minutes: int = BEYOND_MINUTES,
    links: int = LINKS,
) -> dict[str, list[SegmentKey]]:
    """Return the names alone of what `find_ends` returns, in the order of the chain."""
    found: dict[str, list[SegmentKey]] = {}
    if not shards:
        return found
    window = Window(min(shards.values()), newest)
    for hour in segments_by_hour(store, prefix, window, waits):
        for one in hour.segments:
            if one.minute >= shards.get(one.shard_id, newest + 1):
                found.setdefault(one.shard_id, []).append(one)
        for shard_id, kept in found.items():
            found[shard_id] = sorted(heapq.nlargest(links, kept, key=_first), key=_first)
        if all(_is_settled(found.get(name), hour.start, oldest, beyond_minutes) for name, oldest in shards.items()):
            break
    return found


def days_with_objects(store: ObjectStore, prefix: str, window: Window, waits: Waits) -> Iterator[int]:
    """Yield the first minute of every UTC day in `window` that holds an object, newest first."""
    return _units(store, prefix, window, waits, MINUTES_PER_DAY)


def segments_by_hour(store: ObjectStore, prefix: str, window: Window, waits: Waits) -> Iterator[Hour]:
    """Yield the hours in `window`, newest first; days without an object are left out.

    Objects whose names are no segment's are left out: they stop a processor at its slot, never a reader.
    """
    for start in _units(store, prefix, window, waits, MINUTES_PER_HOUR):
        folder = f"{prefix}{_moment(start):%Y/%m/%d/%H/}"
        rows = until_known(lambda folder=folder: list(store.list_objects(folder)), waits(), f"LIST {folder}")  # type: ignore[misc]
        segments = (_parse(prefix, row.key) for row in rows)
        yield Hour(start, [one for one in segments if one and window.oldest <= one.minute <= window.newest])


def _is_settled(kept: list[SegmentKey] | None, walked: int, oldest: int, beyond_minutes: int) -> bool:
    """Tell whether no minute before `walked` needs to be looked at for a shard."""
    return walked <= oldest or (kept is not None and walked <= kept[-1].minute - beyond_minutes)


def read_end(store: ObjectStore, prefix: str, keys: list[SegmentKey], waits: Waits) -> ChainEnd:
    """Read the segments of one chain's end and check their links; raises as `find_ends` does."""
    names = tuple(segment_key(prefix, one.shard_id, one.minute, one.first) for one in keys)
    segments = tuple(stored_segment(store, prefix, name, waits()) for name in names)
    holes = tuple(
        before.last
        for before, after in itertools.pairwise(segments)
        # A doubtful continuity was known and recorded by the writer: nothing that can be mended by going back.
        if after.after != before.last
        and after.continuity is Continuity.PROVEN
        and not _is_expired(store, prefix, before, after, waits)
    )
    return ChainEnd(names, segments, holes)


def _is_expired(
    store: ObjectStore, prefix: str, before: SegmentMetadata, after: SegmentMetadata, waits: Waits
) -> bool:
    """Tell whether what `after` names as its predecessor was expired on purpose: the tombstones around know it.

    Also those of the days beside: arrival times may step back over midnight, and the segment between two of one day
    then lies in another.
    """
    if not isinstance(after.after, Position):
        return False
    folder = f"{prefix}{FOLDER}"
    days = sorted(_EPOCH.date() + timedelta(days=one.minute // MINUTES_PER_DAY) for one in (before, after))
    low, high = (tombstone_key(prefix, day) for day in (days[0] - timedelta(days=1), days[1] + timedelta(days=1)))
    rows = until_known(lambda: list(store.list_objects(folder)), waits(), f"LIST {folder}")
    for key in (row.key for row in rows if low <= row.key <= high):
        found = until_known(lambda key=key: store.get(key), waits(), f"GET {key}")  # type: ignore[misc]
        if found and decode_tombstone(found.body, key).covers(after.shard_id, after.after):
            return True
    return False


def _units(store: ObjectStore, prefix: str, window: Window, waits: Waits, unit_minutes: int) -> Iterator[int]:
    """Yield the first minute of each day or hour in `window` whose day holds an object, newest first.

    A year, month or day without an object costs one request, and is then skipped whole.
    """
    known: dict[str, bool] = {}

    def holds(folder: str) -> bool:
        if folder not in known:
            first = until_known(
                lambda: next(iter(store.list_objects(f"{prefix}{folder}")), None), waits(), f"LIST {prefix}{folder}"
            )
            known[folder] = first is not None
        return known[folder]

    minute = window.newest // unit_minutes * unit_minutes
    while minute >= 0 and minute + unit_minutes > window.oldest:
        moment = _moment(minute)
        if not holds(f"{moment:%Y/}"):
            minute = _minute(moment.replace(month=1, day=1, hour=0)) - unit_minutes
        elif not holds(f"{moment:%Y/%m/}"):
            minute = _minute(moment.replace(day=1, hour=0)) - unit_minutes
        elif not holds(f"{moment:%Y/%m/%d/}"):
            minute = _minute(moment.replace(hour=0)) - unit_minutes
        else:
            yield minute
            minute -= unit_minutes


def _parse(prefix: str, key: str) -> SegmentKey | None:
    try:
        return parse_segment_key(prefix, key)
    except FormatError:
        return None


def _first(segment: SegmentKey) -> Position:
    return segment.first


def _moment(minute: int) -> datetime:
    return _EPOCH + timedelta(minutes=minute)


def _minute(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(minutes=1)
