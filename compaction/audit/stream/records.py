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
from minutebook.format.minute import minute_of, minute_text
from minutebook.format.position import Position


class Archived(NamedTuple):
    """One archived record, or one that was dropped as a producer's duplicate."""

    position: Position
    partition_key: str
    data: bytes


class Bounds(NamedTuple):
    """What can be judged: the archive is compared from `since_ms` on, the stream up to where the archive has come.

    Before `since_ms` records have left the stream. `end` is the last position that the shard's reader has passed, by
    anything that is stored (None: nothing is): what lies behind it, however old, is still to be delivered. Once the
    shard was read to its end (`is_ended`) nothing is. `undelivered` are the sequence numbers that the end marker says
    KCL did not deliver: they lie under `_undelivered/`, and are a finding of their own.
    """

    since_ms: int
    end: Position | None
    is_ended: bool = False
    undelivered: frozenset[int] = frozenset()

    def is_to_come(self, position: Position) -> bool:
        """Return whether a record may yet be archived."""
        return not self.is_ended and (self.end is None or position > self.end)


class Comparison(NamedTuple):
    """What the comparison of one shard found.

    `to_come` counts records behind the archive's end, of which the oldest arrived at `to_come_since_ms`.
    """

    findings: tuple[Finding, ...]
    compared: int
    to_come: int
    to_come_since_ms: int | None = None


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
        self._bounds = bounds

    def add(self, sent: Sent) -> None:
        if self._bounds.is_to_come(sent.position):
            self.to_come += 1
            self.since_ms = sent.arrival_ms if self.since_ms is None else min(self.since_ms, sent.arrival_ms)
        elif sent.position.sequence not in self._bounds.undelivered:
            self.missing.add(minute_of(sent.arrival_ms), sent.position)


def compare_shard(
    shard_id: str,
    segments: Sequence[ArchivedSegment],
    read: Callable[[ArchivedSegment], Iterable[Archived]],
    stream: Iterator[Sent],
    bounds: Bounds,
    is_whole: Callable[[], bool] = lambda: True,
) -> Comparison:
    """Compare a shard, or a slice of it.

    `is_whole` is asked when the stream has been read: where records of it may have been passed over, nothing that the
    archive holds is called foreign to it.
    """
    absent = _Absent(bounds)
    extra = _Tally(Code.NOT_IN_STREAM, "the archive holds records that the stream does not")
    altered = _Tally(Code.NOT_IN_STREAM, "the archive holds other bytes than the stream at these positions")
    waiting = deque(sorted(segments, key=lambda segment: segment.metadata.first))
    unmatched: dict[Position, tuple[Archived, ArchivedSegment]] = {}
    compared = 0

    def settle(before: Position | None) -> None:
        """Count what the archive holds before a position and the stream has not shown."""
        for position in sorted(position for position in unmatched if before is None or position < before):
            _, segment = unmatched.pop(position)
            if segment.metadata.arrival_min_ms >= bounds.since_ms:
                extra.add(segment.metadata.minute, position, segment.key)

    for sent in stream:
        while waiting and waiting[0].metadata.first <= sent.position:
            segment = waiting.popleft()
            settle(segment.metadata.first)
            unmatched |= {record.position: (record, segment) for record in read(segment)}
        compared += 1
        if sent.position not in unmatched:
            absent.add(sent)
            continue
        record, segment = unmatched.pop(sent.position)
        if (record.partition_key, record.data) != (sent.partition_key, sent.data):
            altered.add(segment.metadata.minute, sent.position, segment.key)
    tallies = [absent.missing, altered]
    if is_whole():
        for segment in waiting:
            unmatched |= {record.position: (record, segment) for record in read(segment)}
            settle(None)
        settle(None)
        tallies.insert(1, extra)
    findings = tuple(about for tally in tallies for about in tally.findings(shard_id))
    return Comparison(findings, compared, absent.to_come, absent.since_ms)
