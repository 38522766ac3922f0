"""The inventory: what is stored of a day, by names alone.

Listed hour by hour, many at once. The inventory's hash names the generation of Parquet files that is made from it:
the same objects give the same name, an object more gives another.
"""

from collections.abc import Iterable
from typing import NamedTuple

from minutebook.compression import Compression
from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.keys import SegmentKey, parse_segment_key
from minutebook.format.minute import MINUTE_MS
from minutebook.published.inventory import inventory_digest
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage


class ListedSegment(NamedTuple):
    """One object of the day. `parsed` is None when the key is not a segment's."""

    key: str
    size: int
    etag: str
    last_modified_ms: int
    parsed: SegmentKey | None

    @property
    def is_segment(self) -> bool:
        """Tell whether the key is a segment's."""
        return self.parsed is not None


class Inventory(NamedTuple):
    """What is stored of one day, sorted by key.

    `until_ms` ends it within the day (None: the whole day); `later` are the segments of the day from then on.
    `compression` is that of the prefix, as its application record says; None: nobody says it.
    """

    day: Day
    prefix: str
    rows: tuple[ListedSegment, ...]
    until_ms: int | None = None
    later: tuple[ListedSegment, ...] = ()
    compression: Compression | None = None

    @property
    def end_ms(self) -> int:
        """The first millisecond after it."""
        return self.day.end_ms if self.until_ms is None else self.until_ms

    def until(self, until_ms: int | None) -> "Inventory":
        """Return the part before a whole minute, and what is no segment; None: all of it."""
        if until_ms is None:
            return self
        end = until_ms // MINUTE_MS
        later = tuple(row for row in self.rows if row.parsed is not None and row.parsed.minute >= end)
        rows = tuple(row for row in self.rows if row.parsed is None or row.parsed.minute < end)
        return self._replace(rows=rows, until_ms=until_ms, later=later)

    @property
    def segments(self) -> list[ListedSegment]:
        """The rows whose key is a segment's."""
        return [row for row in self.rows if row.is_segment]

    @property
    def foreign(self) -> list[ListedSegment]:
        """The rows whose key is not a segment's."""
        return [row for row in self.rows if not row.is_segment]

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(row.size for row in self.rows)

    def only(self, shard_id: str | None) -> "Inventory":
        """Return the part that concerns one shard; None: all of it."""
        if shard_id is None:
            return self
        rows, later = (tuple(row for row in part if f"/{shard_id}/" in row.key) for part in (self.rows, self.later))
        return self._replace(rows=rows, later=later)

    def digest(self, *salt: str) -> str:
        """Return the hash of keys, ETags and sizes, and of `salt`: 64 hex digits."""
        return inventory_digest(((row.key, row.etag, row.size) for row in self.rows), *salt)


def make_inventory(day: Day, prefix: str, listed: Iterable[ListedObject]) -> Inventory:
    """Build the inventory from what LIST gave; pure."""
    rows = (make_row(prefix, row) for row in listed)
    return Inventory(day, prefix, tuple(sorted(rows, key=lambda row: row.key.encode())))


def list_day(storage: RetryingStorage, day: Day, prefix: str) -> Inventory:
    """List a day: the folders directly below it, side by side.

    Every object below the day's folder is found, also one that does not lie where a segment would: it must be
    reported, not overlooked.
    """
    level = storage.list_level(day.path(prefix))
    pages = in_parallel(storage.list_objects, level.folders)
    return make_inventory(day, prefix, [*level.objects, *(row for page in pages for row in page)])


def make_row(prefix: str, listed: ListedObject) -> ListedSegment:
    """Return a row of LIST with what its key says."""
    return ListedSegment(*listed, _parse(prefix, listed.key))


def _parse(prefix: str, key: str) -> SegmentKey | None:
    try:
        return parse_segment_key(prefix, key)
    except FormatError:
        return None
