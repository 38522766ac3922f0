"""Records of the stream against those of the archive, one by one. Pure.

Both sides come in the shard's order. The archive is taken segment by segment, so memory is a segment or two; what the
stream holds and the archive does not, and the other way round, is counted by minute.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from compaction.inventory.segments import ArchivedSegment
from compaction.stream.kinesis import Sent
from compaction.verdict.findings import SAMPLES, Code, Finding, finding
from minutebook.errors import FormatError
from minutebook.format.minute import minute_of, minute_text
from minutebook.format.position import Position, SequenceRange
from minutebook.store.storage import ObjectChanged


class Archived(NamedTuple):
    """One archived record, or one that was dropped as a producer's duplicate."""

    position: Position
    partition_key: str
    data: bytes


class Bounds(NamedTuple):
    """What can be judged: the archive is compared from `since_ms` on, the stream up to where the archive has come.

    Before `since_ms`, and before the sequence number `oldest`, the first that the stream gave, records have left the
    stream (None: the first slice of the shard learns it). `end` is the last position that the shard's reader has
    passed, by anything that is stored (None: nothing is): what lies behind it, however old, is still to be delivered.
    Once the shard was read to its end (`is_ended`) nothing is. `undelivered` are the sequence numbers of records that
    KCL did not deliver: they lie under `_undelivered/`, and are a finding of their own.
    """

    since_ms: int
    oldest: int | None
    end: Position | None
    is_ended: bool = False
    undelivered: frozenset[int] = frozenset()

    def is_to_come(self, position: Position) -> bool:
        """Return whether a record may yet be archived."""
        return not self.is_ended and (self.end is None or position > self.end)


class Comparison(NamedTuple):
    """What the comparison of one shard found.

    `to_come` counts records behind the archive's end, of which the oldest arrived at `to_come_since_ms`.
    `not_compared` counts archived records before the first one that the stream gave, or all if it gave none.
    `lost_minutes` are those in which missing records arrived. Records inside a segment that cannot be read do not
    count there: the segment is a finding by itself, and a repair brings them back.
    """

    findings: tuple[Finding, ...]
    compared: int
    to_come: int
    to_come_since_ms: int | None = None
    lost_minutes: frozenset[int] = frozenset()
    not_compared: int = 0


def joined(slices: Sequence[Comparison]) -> Comparison:
    """Return the comparison of a shard from those of its slices: a minute that two of them share is one finding."""
    by_minute: dict[tuple[str, str, str | None], Finding] = {}
    for further in (about for comparison in slices for about in comparison.findings):
        minute = (further.code, further.message, further.minute)
        before = by_minute.get(minute)
        by_minute[minute] = further if before is None else _added(before, further)
    since = [comparison.to_come_since_ms for comparison in slices if comparison.to_come_since_ms is not None]
    return Comparison(
        tuple(by_minute.values()),
        sum(comparison.compared for comparison in slices),
        sum(comparison.to_come for comparison in slices),
        min(since, default=None),
        frozenset[int]().union(*(comparison.lost_minutes for comparison in slices)),
        sum(comparison.not_compared for comparison in slices),
    )


def _added(before: Finding, further: Finding) -> Finding:
    return msgspec.structs.replace(
        before,
        keys=tuple(sorted({*before.keys, *further.keys}))[:SAMPLES],
        positions=(*before.positions, *further.positions)[:SAMPLES],
        count=before.count + further.count,
    )


class _Tally:
    """Positions by minute, with samples."""

    def __init__(self, code: Code, message: str) -> None:
        self._code = code
        self._message = message
        self._minutes: dict[int, list[Position]] = {}
        self._counts: dict[int, int] = {}
        self._keys: dict[int, set[str]] = {}

    def add(self, minute: int, position: Position, key: str | None = None) -> None:
        samples = self._minutes.setdefault(minute, [])
        if len(samples) < SAMPLES:
            samples.append(position)
        self._counts[minute] = self._counts.get(minute, 0) + 1
        if key is not None:
            self._keys.setdefault(minute, set()).add(key)

    def findings(self, shard_id: str) -> list[Finding]:
        return [
            finding(
                self._code,
                self._message,
                shard=shard_id,
                minute=minute_text(minute),
                keys=sorted(self._keys.get(minute, ())),
                positions=positions,
                count=self._counts[minute],
            )
            for minute, positions in sorted(self._minutes.items())
        ]


class _Absent:
    """What the stream holds and the archive does not: missing, kept elsewhere, or still to come."""

    def __init__(self, bounds: Bounds) -> None:
        self.missing = _Tally(Code.MISSING_IN_ARCHIVE, "the stream holds records that the archive does not")
        self.to_come = 0
        self.since_ms: int | None = None
        self.lost_minutes: set[int] = set()
        self._bounds = bounds

    def add(self, sent: Sent, *, is_readable: bool) -> None:
        if self._bounds.is_to_come(sent.position):
            self.to_come += 1
            self.since_ms = sent.arrival_ms if self.since_ms is None else min(self.since_ms, sent.arrival_ms)
        elif sent.position.sequence not in self._bounds.undelivered:
            self.missing.add(minute_of(sent.arrival_ms), sent.position)
            if is_readable:
                self.lost_minutes.add(minute_of(sent.arrival_ms))


class _Archive:
    """What the archive holds, segment by segment, and what of it the stream has not shown yet."""

    def __init__(
        self,
        segments: Iterable[ArchivedSegment],
        read: Callable[[ArchivedSegment], Iterable[Archived]],
        since_ms: int,
        oldest: Callable[[], int | None],
    ) -> None:
        self.extra = _Tally(Code.NOT_IN_STREAM, "the archive holds records that the stream does not")
        self._read = read
        self.not_compared = 0
        self._since_ms = since_ms
        self._oldest = oldest
        self._waiting = deque(sorted(segments, key=lambda segment: segment.metadata.first))
        self._unmatched: dict[Position, tuple[Archived, ArchivedSegment]] = {}
        self._unreadable: list[SequenceRange] = []

    def take(self, position: Position) -> tuple[Archived, ArchivedSegment] | None:
        """Return the record at a position; positions ascend."""
        while self._waiting and self._waiting[0].metadata.first <= position:
            segment = self._waiting.popleft()
            self._settle(segment.metadata.first)
            self._open(segment)
        return self._unmatched.pop(position, None)

    def is_readable(self, position: Position) -> bool:
        """Return whether no segment that could not be read spans the position of the last record taken."""
        self._unreadable = [span for span in self._unreadable if position <= span.last]
        return not any(position in span for span in self._unreadable)

    def finish(self) -> None:
        """Count all that the stream has not shown."""
        for segment in self._waiting:
            self._open(segment)
            self._settle(None)
        self._settle(None)

    def _open(self, segment: ArchivedSegment) -> None:
        try:
            for record in self._read(segment):
                self._unmatched[record.position] = record, segment
        except (FormatError, ObjectChanged):  # level keys reports it
            self._unreadable.append(segment.metadata.span)

    def _settle(self, before: Position | None) -> None:
        """Count what the archive holds before a position and the stream has not shown."""
        oldest = self._oldest()
        for position in sorted(position for position in self._unmatched if before is None or position < before):
            _, segment = self._unmatched.pop(position)
            if oldest is None or position.sequence < oldest:
                self.not_compared += 1
            elif segment.metadata.arrival_min_ms >= self._since_ms:
                self.extra.add(segment.metadata.minute, position, segment.key)


def compare_shard(
    shard_id: str,
    segments: Sequence[ArchivedSegment],
    read: Callable[[ArchivedSegment], Iterable[Archived]],
    stream: Iterator[Sent],
    bounds: Bounds,
    oldest: Callable[[], int | None],
    is_whole: Callable[[], bool] = lambda: True,
) -> Comparison:
    """Compare a shard, or a slice of it.

    `read` raises FormatError or ObjectChanged for a segment that cannot be read: it then holds what it has yielded.
    `oldest` returns the first sequence number that the stream gave of the shard, as soon as there is one: what the
    archive holds before it may have been trimmed, under whatever retention, and is not called foreign. `is_whole` is
    asked when the stream has been read: where records of it may have been passed over, nothing is.
    """
    absent = _Absent(bounds)
    altered = _Tally(Code.NOT_IN_STREAM, "the archive holds other bytes than the stream at these positions")
    archive = _Archive(segments, read, bounds.since_ms, oldest)
    compared = 0
    for sent in stream:
        compared += 1
        archived = archive.take(sent.position)
        if archived is None:
            absent.add(sent, is_readable=archive.is_readable(sent.position))
            continue
        record, segment = archived
        if (record.partition_key, record.data) != (sent.partition_key, sent.data):
            altered.add(segment.metadata.minute, sent.position, segment.key)
    tallies = [absent.missing, altered]
    if is_whole():
        archive.finish()
        tallies.insert(1, archive.extra)
    findings = tuple(about for tally in tallies for about in tally.findings(shard_id))
    return Comparison(
        findings,
        compared,
        absent.to_come,
        absent.since_ms,
        frozenset(absent.lost_minutes),
        archive.not_compared,
    )
