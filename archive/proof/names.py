"""Segments by name, listed hour by hour, and their links by HEAD. Works on any store that can LIST."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archive.coverage.evidence import Link, segment_link
from archive.errors import FormatError
from archive.format.day import MINUTES_AN_HOUR, Day, day_of_ms
from archive.format.keys import minute_prefix, parse_segment_key
from archive.format.metadata import SegmentMetadata, is_ours
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStore

_FEW = 50
_FIRST_YEAR = 1970


class Named(NamedTuple):
    """A segment by its name."""

    key: str
    minute: int
    shard_id: str
    first: Position


class SegmentNames:
    """The segments below a prefix. Nothing is remembered but links: they never change."""

    def __init__(self, store: RetryingStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._links: dict[str, Link | None] = {}

    def holds(self, day: Day) -> bool:
        """Tell whether anything lies under a day."""
        return bool(self._store.first_objects(day.path(self._prefix), 1))

    def oldest_day(self, newest: Day) -> Day | None:
        """Return a day before which no segment lies, up to `newest`; None when there is none at all.

        What others have put below the prefix may hide the first segments: then it is the first day of their year.
        """
        rows = list(self._store.first_objects(self._prefix, _FEW))
        found = self._named(row.key for row in rows)
        if found or not rows:
            return day_of_ms(found[0].minute * MINUTE_MS) if found else None
        begins = (Day.parse(f"{year}-01-01") for year in range(_FIRST_YEAR, int(str(newest)[:4]) + 1))
        return next((day for day in begins if self._store.first_objects(f"{self._prefix}{str(day)[:4]}/", 1)), None)

    def hours(self, begin_ms: int, until_ms: int) -> list[list[Named]]:
        """List the hours that a time touches, side by side; each one's segments in the order of keys."""
        hour_ms = MINUTES_AN_HOUR * MINUTE_MS
        folders = []
        for begin in range(begin_ms // hour_ms, -(-until_ms // hour_ms)):
            day = day_of_ms(begin * hour_ms)
            folders.append(day.hour_paths(self._prefix)[begin % 24])
        return in_parallel(lambda folder: self._named(self._store.keys(folder)), folders)

    def at(self, minute: int, shard_id: str) -> list[Named]:
        """List one shard's segments of one minute."""
        return self._named(self._store.keys(minute_prefix(self._prefix, shard_id, minute)))

    def of_key(self, key: str) -> Named | None:
        """Return the segment that a key names; None when it is not a segment's."""
        return next(iter(self._named([key])), None)

    def links(self, names: Sequence[Named]) -> list[tuple[str, Link]]:
        """Return (shard, link) of those that are segments in their places; others are their own day's to report."""
        unknown = [name for name in names if name.key not in self._links]
        self._links |= zip((name.key for name in unknown), in_parallel(self._head, unknown), strict=True)
        return [(name.shard_id, link) for name in names if (link := self._links[name.key]) is not None]

    def _head(self, name: Named) -> Link | None:
        head = self._store.head(name.key)
        if head is None or not is_ours(head.metadata):
            return None
        try:
            metadata = SegmentMetadata.decode(head.metadata)
        except FormatError:
            return None
        is_in_place = (metadata.minute, metadata.shard_id, metadata.first) == name[1:]
        return segment_link(metadata, head.last_modified_ms) if is_in_place else None

    def _named(self, keys: Iterable[str]) -> list[Named]:
        found = []
        for key in keys:
            try:
                parsed = parse_segment_key(self._prefix, key)
            except FormatError:
                continue
            found.append(Named(key, parsed.minute, parsed.shard_id, parsed.first))
        return found


def nearest(names: Sequence[Named], positions: Iterable[Position]) -> list[Named]:
    """Return, for each position, the segment that may end there: that with the greatest first one up to it."""
    found = []
    for position in positions:
        before = [name for name in names if name.first <= position]
        if before:
            found.append(max(before, key=lambda name: name.first))
    return found
