"""Where the originals of dropped records are: archived, missing, or unknown.

    a stored span, or an expired day's run, holds the position       archived
    its chain passes over it: a segment that begins behind it
    names as its predecessor one that ends before it                  missing
    anything else: before the chain's start or behind its tail,
    beside a broken link                                              unknown

A part of the archive that was not searched shows nothing. So the days around are searched, outward from the audited
day, hour by hour, until each position is found or passed over. That takes names alone, and a HEAD for each segment
that may hold a position. **Doubt keeps a line dropped**: one that comes back while its original is archived is in the
Parquet files twice.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice, takewhile
from operator import attrgetter
from typing import Literal, NamedTuple

from compaction.inventory.neighbours import LOOKBACK_DAYS
from compaction.inventory.segments import decode_if_ours
from compaction.inventory.tombstones import ExpiredDays
from minutebook.format.arrival import SEARCH_REACH_DAYS
from minutebook.format.day import Day, hour_of_ms
from minutebook.format.keys import parse_segment_key
from minutebook.format.metadata import Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.index.names import ArchiveIndex
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

Original = tuple[str, Position]
"""Shard and position of the record that was kept."""
Fate = Literal["archived", "missing", "unknown"]


class ArchivedSpan(NamedTuple):
    """What one segment, or a run of an expired day, covers, and what came before it; `after` None: not known."""

    first: Position
    last: Position
    after: Predecessor | None


def span_of(metadata: SegmentMetadata) -> ArchivedSpan:
    """Return what a segment covers."""
    return ArchivedSpan(metadata.first, metadata.last, metadata.after)


class SpanMap:
    """What is known of one shard's chain."""

    def __init__(self, spans: Iterable[ArchivedSpan] = ()) -> None:
        self._spans = sorted(spans, key=attrgetter("first", "last"))
        self._reached: list[Position] | None = None

    def add(self, span: ArchivedSpan) -> None:
        """Take one more."""
        insort(self._spans, span, key=attrgetter("first", "last"))
        self._reached = None

    def fate(self, position: Position) -> Fate:
        """Return what is known of a position."""
        if self._reached is None:
            self._reached = list(accumulate((span.last for span in self._spans), max))
        at = bisect_right(self._spans, position, key=attrgetter("first"))
        reached = self._reached[at - 1] if at else None
        if reached is not None and reached >= position:
            return "archived"
        behind = takewhile(lambda span: span.first == self._spans[at].first, self._spans[at:])
        links = {span.after for span in behind if span.after is not None}
        return "missing" if reached is not None and links == {reached} else "unknown"

    def around(self, positions: Iterable[Position]) -> list[ArchivedSpan]:
        """Return the spans that decide the fate of positions, and the first and last of all."""
        spans = dict.fromkeys([*self._spans[:1], *self._spans[-1:]])
        for position in positions:
            at = bisect_right(self._spans, position, key=attrgetter("first"))
            if at:
                spans[max(self._spans[:at], key=attrgetter("last"))] = None
            behind = takewhile(lambda span: span.first == self._spans[at].first, self._spans[at:])  # noqa: B023 - used at once
            spans |= dict.fromkeys(behind)
        return list(spans)

    def begins_before(self, position: Position) -> bool:
        """Return whether a span begins at the position or before it."""
        return bool(self._spans) and self._spans[0].first <= position

    def begins_behind(self, position: Position) -> bool:
        """Return whether a span begins behind the position."""
        return bool(self._spans) and self._spans[-1].first > position


class Originals:
    """The search for the originals of dropped records of a day. `known` is what the audit saw, by shard."""

    def __init__(
        self,
        storage: RetryingStorage,
        prefix: str,
        day: Day,
        known: Mapping[str, Sequence[ArchivedSpan]],
        *,
        days: int = LOOKBACK_DAYS,
    ) -> None:
        self._storage = storage
        self._prefix = prefix
        self._day = day
        self._days = days
        self._index = ArchiveIndex(storage, prefix)
        self._spans: dict[str, SpanMap] = defaultdict(
            SpanMap, {shard: SpanMap(spans) for shard, spans in known.items()}
        )
        self._names: dict[str, list[tuple[Position, str]]] = defaultdict(list)
        self._read_keys: set[str] = set()

    @property
    def hours(self) -> dict[str, tuple[str, ...]]:
        """The segments that were asked for, by the paths of their hours."""
        hours: dict[str, list[str]] = defaultdict(list)
        for key in sorted(self._read_keys):
            minute = parse_segment_key(self._prefix, key).minute
            hours[hour_of_ms(minute * MINUTE_MS).path(self._prefix)].append(key)
        return {hour: tuple(keys) for hour, keys in hours.items()}

    def fates(self, originals: Collection[Original]) -> dict[Original, Fate]:
        """Return the fate of each original; raises StoreUnavailable, StoreRefused."""
        left = self._unknown(originals)
        later = {
            original for original in left if self._has_passed(original, -1) and not self._has_passed(original, 1)
        }
        self._walk(later, 1)
        earlier = self._walk(left - later, -1)
        self._walk({original for original in earlier if not self._has_passed(original, 1)}, 1)
        return {(shard, position): self._spans[shard].fate(position) for shard, position in originals}

    def _unknown(self, originals: Collection[Original]) -> set[Original]:
        return {(shard, position) for shard, position in originals if self._spans[shard].fate(position) == "unknown"}

    def _walk(self, left: set[Original], sign: int) -> set[Original]:
        """Search days outward from the audited one until nothing is left, or nothing that may lie further out."""
        beyond = 0
        for day in self._outward(sign) if left else ():
            for _ in self._hours(day, {shard for shard, _ in left}, sign):
                left = self._read_segments(left)
                if not left:
                    return left
            beyond += all(self._has_passed(original, sign) for original in left)
            if beyond > SEARCH_REACH_DAYS:
                break
        return left

    @cached_property
    def _expired(self) -> ExpiredDays:
        return ExpiredDays(self._storage, self._prefix)

    def _outward(self, sign: int) -> list[Day]:
        first = self._day.shift(sign)
        expired = (day for day in self._expired.days if (day.number - first.number) * sign >= 0)
        days = {*islice(self._index.days(first, sign), self._days), *expired}
        return sorted(days, reverse=sign < 0)[: self._days]

    def _hours(self, day: Day, shards: Collection[str], sign: int) -> Iterator[None]:
        """Learn what a day holds of the shards, hour by hour; an expired day at once, from its tombstone."""
        if day in self._expired.days:
            for shard, runs in self._expired.runs(day).items():
                for run in runs if shard in shards else ():
                    self._spans[shard].add(ArchivedSpan(run.first, run.last, run.after))
            yield
            return
        for hour in self._index.hours(day, sign):
            for name in self._index.in_period(hour):
                if name.shard_id in shards:
                    insort(self._names[name.shard_id], (name.first, name.key))
            yield

    def _read_segments(self, left: set[Original]) -> set[Original]:
        """Ask for the segments that may hold what is left, then for those behind it; return what is left still."""
        for beside in (0, 1):
            keys = {self._name(original, beside) for original in left} - self._read_keys - {""}
            self._read_keys |= keys
            for head in in_parallel(self._storage.head, sorted(keys)):
                metadata = decode_if_ours(None if head is None else head.metadata)
                if metadata is not None:
                    self._spans[metadata.shard_id].add(span_of(metadata))
            left = self._unknown(left)
        return left

    def _name(self, original: Original, beside: int) -> str:
        """Return the key of the segment at or before a position by name (0), or of the one behind it (1)."""
        shard, position = original
        at = bisect_right(self._names[shard], position, key=lambda name: name[0]) - 1 + beside
        return self._names[shard][at][1] if 0 <= at < len(self._names[shard]) else ""

    def _has_passed(self, original: Original, sign: int) -> bool:
        """Return whether a segment beyond the position is known, as seen from the audited day."""
        shard, position = original
        names, spans = self._names[shard], self._spans[shard]
        if sign < 0:
            return spans.begins_before(position) or (bool(names) and names[0][0] <= position)
        return spans.begins_behind(position) or (bool(names) and names[-1][0] > position)
