"""Level `stream`: read Kinesis again and compare it with the archive, shard by shard.

What cannot be compared is said, never passed over: records that have left the stream, shards that it no longer lists,
and records that are not archived yet. A record that the stream holds and the archive does not is

    at or before the position that the shard's reader has passed .. missing_in_archive, a defect: nobody brings it
    behind that, of a shard that was read to its end .............. the same, unless the end names it as undelivered
    behind that, however old it is ............................... unknown: a consumer that lags will still bring it
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from archive.compression import compression_of
from archive.errors import FormatError, StreamRefused, StreamUnavailable
from archive.format.keys import duplicates_key
from archive.format.markers import ApplicationRecord, StartMarker
from archive.format.minute import iso_time
from archive.format.position import Position
from archive.format.record import Record, decode_dropped_line, decode_line
from archive.format.segment import inflate
from archive.retry import until_known
from archive.store.parallel import in_parallel
from archive.store.retrying import RetryingStorage
from archive.store.storage import ObjectChanged
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import Segment
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.job.context import JobContext
from compaction.live.stream_comparison import Archived, Bounds, Comparison, compare_shard
from compaction.stream.kinesis import ReadLog, Sent, StreamFacts, StreamReader
from compaction.verdict.audit_document import AuditCheck
from compaction.verdict.findings import Finding

_SHARDS_AT_ONCE: Final = 8


class StreamResult(NamedTuple):
    """Findings and checks of the level, how many records were compared, and how each shard was read."""

    findings: tuple[Finding, ...]
    checks: tuple[AuditCheck, ...]
    compared: int
    shards: Mapping[str, tuple[Comparison, ReadLog]] = {}


def check_stream(
    context: JobContext,
    reader: StreamReader,
    inventory: DayObjects,
    segments: Sequence[Segment],
    markers: ArchiveMarkers,
    ends: Mapping[str, Position],
    only: str | None,
) -> StreamResult:
    """Compare a day with the stream; a stream that cannot be read leaves its checks unknown.

    `ends` is the last position of each shard that its reader has passed, by what was read before the stream is asked.
    """
    try:
        facts = reader.describe()
        stranger = _stranger(markers.application, facts)
        if stranger:
            return StreamResult((), (AuditCheck(id="stream_identity", status="unknown", message=stranger),), 0)
        shards = [shard for shard in facts.shards if only in {None, shard}]
        work = _Work(context.archive, reader, inventory, segments, markers, facts=facts, ends=ends)
        compared = in_parallel(work.compare, shards, _SHARDS_AT_ONCE)
    except (StreamRefused, StreamUnavailable) as exc:
        return StreamResult((), (AuditCheck(id="stream_readable", status="unknown", message=str(exc)),), 0)
    findings = tuple(found for comparison in compared for found in comparison.findings)
    checks = work.checks(shards, compared)
    total = sum(comparison.compared for comparison in compared)
    by_shard = {shard: (one, work.logs[shard]) for shard, one in zip(shards, compared, strict=True)}
    return StreamResult(findings, tuple(checks), total, by_shard)


def _stranger(application: ApplicationRecord | None, facts: StreamFacts) -> str:
    if application is None:
        return "there is no record of the stream that the prefix belongs to"
    if (application.stream_arn, application.stream_created_ms) != (facts.arn, facts.created_ms):
        return f"the prefix belongs to {application.stream_arn}, created at {application.stream_created_ms} ms"
    return ""


class _Work:
    def __init__(
        self,
        storage: RetryingStorage,
        reader: StreamReader,
        inventory: DayObjects,
        segments: Sequence[Segment],
        markers: ArchiveMarkers,
        *,
        facts: StreamFacts,
        ends: Mapping[str, Position],
    ) -> None:
        self._storage = storage
        self._reader = reader
        self._inventory = inventory
        self._shards = markers.shards
        self._application = markers.application
        self._facts = facts
        self._ends = ends
        self.logs: dict[str, ReadLog] = defaultdict(ReadLog)
        self._segments: dict[str, list[Segment]] = defaultdict(list)
        for segment in segments:
            self._segments[segment.metadata.shard_id].append(segment)

    @property
    def _is_trimmed(self) -> bool:
        """Tell whether records of the day may have left the stream."""
        day = self._inventory.day
        return self._facts.oldest_ms > max(day.begin_ms, self._facts.created_ms)

    def compare(self, shard_id: str) -> Comparison:
        day = self._inventory.day
        since_ms = self._facts.oldest_ms + 60_000 if self._is_trimmed else 0
        markers = self._shards.get(shard_id, ShardMarkers())
        end = markers.end
        kept = frozenset(map(int, end.undelivered)) if end is not None else frozenset[int]()
        bounds = Bounds(since_ms, self._ends.get(shard_id), end is not None, kept)
        log = self.logs[shard_id]
        sent = self._reader.read(shard_id, max(day.begin_ms, since_ms), self._inventory.end_ms, log)
        promised = self._promised(markers.start, sent)
        return compare_shard(shard_id, self._segments.get(shard_id, []), self._read, promised, bounds)

    def checks(self, shards: Sequence[str], compared: Sequence[Comparison]) -> list[AuditCheck]:
        """Say what could not be compared."""
        checks = []
        if self._is_trimmed:
            message = "a part of the day has left the stream; only what is still there was compared"
            checks.append(AuditCheck(id="stream_reach", status="unknown", message=message))
        gone = sorted(set(self._segments) - set(self._facts.shards))
        if gone:
            message = f"the stream no longer lists {', '.join(gone[:5])}"
            checks.append(AuditCheck(id="stream_shards", status="unknown", message=message))
        behind = {shard: one for shard, one in zip(shards, compared, strict=True) if one.to_come}
        if behind:
            oldest_ms = min(one.to_come_since_ms or 0 for one in behind.values())
            message = (
                f"{sum(one.to_come for one in behind.values())} record(s) behind the archive's end, the oldest of "
                f"{iso_time(oldest_ms)}, are not archived yet: {', '.join(list(behind)[:5])}"
            )
            checks.append(AuditCheck(id="stream_tail", status="unknown", message=message))
        total = sum(comparison.compared for comparison in compared)
        message = f"{total} records of {len(shards)} shards were read from the stream and compared"
        return [AuditCheck(id="stream_compared", status="pass", message=message), *checks]

    def _promised(self, start: StartMarker | None, sent: Iterator[Sent]) -> Iterator[Sent]:
        """Leave out what lies before the point at which the archive was begun on purpose."""
        sentinel = None if start is None else start.chain_start()
        begin_ms = self._application.start_at_ms if self._application is not None else None
        for record in sent:
            if begin_ms is not None and record.arrival_ms < begin_ms:
                continue
            if sentinel is not None and sentinel.adopted is not None and record.position <= sentinel.adopted:
                continue
            yield record

    def _read(self, segment: Segment) -> Iterator[Archived]:
        """Yield a segment's records, and those that were dropped from it as producer duplicates.

        An object that cannot be read is reported at level keys; here it simply holds nothing.
        """
        try:
            yield from self._records(segment)
        except (FormatError, ObjectChanged):
            return

    def _records(self, segment: Segment) -> Iterator[Archived]:
        for line in self._lines(segment.key, segment.row.etag):
            yield _archived(decode_line(line)[1])
        metadata = segment.metadata
        if not metadata.dropped:
            return
        slot = (metadata.shard_id, metadata.minute, metadata.first, metadata.writer, compression_of(segment.key))
        for line in self._lines(duplicates_key(self._inventory.prefix, *slot), None):
            record = decode_dropped_line(line)[1]
            if record.position in metadata.span:
                yield _archived(record)

    def _lines(self, key: str, etag: str | None) -> Iterator[bytes]:
        def body() -> bytes:
            return b"".join(self._storage.storage.open_read(key, etag).chunks)

        yield from inflate([until_known(body, self._storage.new_backoff(), f"GET {key}")], compression_of(key))


def _archived(record: Record) -> Archived:
    return Archived(record.position, record.partition_key, record.data)
