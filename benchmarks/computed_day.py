"""A day of many shards that is computed from numbers, by whoever asks: names and metadata, and no line."""

from collections.abc import Iterator
from typing import Final

from benchmarks.archives import APPLICATION, FIRST, PREFIX, start_marker
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.keys import application_key, parse_segment_key, segment_key, start_marker_key
from minutebook.format.markers import encode_marker
from minutebook.format.metadata import ChainStart, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS, minute_path
from minutebook.format.position import Position
from minutebook.store.objects import ListedObject, Listing, ObjectHead, StoredObject

_STEP: Final = 10**6
_NEXT_MINUTES: Final = 3


class ComputedStore:
    """A day that is computed from numbers, with days before it: only what an audit by inventory asks.

    A shard has a segment in each so many-th minute. How many records, and how late, looks like chance.
    """

    def __init__(self, day: Day, shards: int, every: int = 1, days: int = 1) -> None:
        self._day = day
        self._shards = shards
        self._every = every
        self._days = days
        self._first_minute = day.shift(1 - days).first_minute

    def uri(self, key: str) -> str:
        """Return an address."""
        return f"s3://bench/{key}"

    def list_level(self, folder: str) -> Listing:
        """List the hours of the day, and what leads to it."""
        if folder.startswith(f"{PREFIX}_"):
            return Listing((), ())
        days = [self._day.shift(-back) for back in range(self._days)]
        hours = [folder_of(day, hour) for day in days for hour in range(24)] + [folder_of(self._day.shift(1), 0)]
        parts = sorted({hour[len(folder) :].split("/")[0] for hour in hours if hour.startswith(folder)})
        return Listing(tuple(f"{folder}{part}/" for part in parts if part), ())

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List a folder, or the markers."""
        if prefix == f"{PREFIX}_shards/":
            for number in range(self._shards):
                key = start_marker_key(PREFIX, shard_id(number))
                yield ListedObject(key, len(self._marker(key)), '"marker"', 0)
            return
        first = self._first_minute
        for minute in range(first, self._day.first_minute + MINUTES_A_DAY + _NEXT_MINUTES, self._every):
            folder = f"{PREFIX}{minute_path(minute)}"
            if folder.startswith(prefix) or prefix.startswith(folder):
                for number in range(self._shards):
                    key = key_of(self._day, number, minute)
                    if key.startswith(prefix):
                        yield self._row(key, number, minute)

    def head(self, key: str) -> ObjectHead | None:
        """Answer a HEAD."""
        if not key.startswith(f"{PREFIX}2"):
            return None
        parsed = parse_segment_key(PREFIX, key)
        number, minute = int(parsed.shard_id.rpartition("-")[2]), parsed.minute
        row = self._row(key, number, minute)
        first, last = span_of(self._day, number, minute)
        after: Predecessor = ChainStart("TRIM_HORIZON")
        if minute > self._first_minute:
            after = span_of(self._day, number, minute - self._every)[1]
        metadata = SegmentMetadata(
            shard_id=parsed.shard_id,
            minute=minute,
            first=first,
            last=last,
            after=after,
            records=900 + _chance(number, minute) % 200,
            dropped=0,
            payload_bytes=10**6,
            arrival_min_ms=minute * MINUTE_MS,
            arrival_max_ms=minute * MINUTE_MS + 59_000,
            writer=f"run{number:08d}-{minute:016x}",
        )
        return ObjectHead(key, row.size, row.etag, metadata.encode(), row.last_modified_ms)

    def get(self, key: str) -> StoredObject | None:
        """Return a marker."""
        if key == application_key(PREFIX) or key.startswith(f"{PREFIX}_shards/shardId"):
            return StoredObject(self._marker(key), '"marker"', {})
        return None

    def _marker(self, key: str) -> bytes:
        if key == application_key(PREFIX):
            return encode_marker(APPLICATION)
        name = key.removeprefix(f"{PREFIX}_shards/").partition("/")[0]
        number = int(name.rpartition("-")[2])
        return encode_marker(start_marker(name, span_of(self._day, number, self._first_minute)[0]))

    def _row(self, key: str, number: int, minute: int) -> ListedObject:
        return ListedObject(
            key,
            1_600_000 + minute % 7,
            f'"{minute:024x}{number:08x}"',
            (minute + 1) * MINUTE_MS + 6_000 + _chance(minute, number) % 10_000,
        )


def _chance(one: int, other: int) -> int:
    return (one * 7_919 + other * 104_729) * 2_654_435_761 >> 9 & 0xFFFFF


def folder_of(day: Day, hour: int) -> str:
    """Return the folder of an hour."""
    return f"{day.path(PREFIX)}{hour:02d}/"


def shard_id(number: int) -> str:
    """Return the name of a shard."""
    return f"shardId-{number:012d}"


def span_of(day: Day, number: int, minute: int) -> tuple[Position, Position]:
    """Return the first and last position of a segment."""
    sequence = FIRST + number * 10**40 + (minute - day.first_minute) * _STEP
    return Position(sequence + 1), Position(sequence + _STEP)


def key_of(day: Day, number: int, minute: int) -> str:
    """Return the key of a segment."""
    return segment_key(PREFIX, shard_id(number), minute, span_of(day, number, minute)[0])
