"""What a comparison with the stream proves, written down so that it lasts: marks of kind `stream`.

The stream trims what was compared, and later audits could not repeat the comparison. A mark says that everything that
arrived on the shard in its interval is archived, because the stream still held all of it and the archive lacked none:

    until    the Date of an answer before the first record was asked for, less a minute; at the latest the scope's
             end, and that of what was read
    from     a minute behind the oldest record that was read, or 24 h less five minutes before the last answer:
             nothing younger has been trimmed. Never before the scope
"""

from collections.abc import Iterable, Mapping

from compaction.audit.stream.records import Comparison
from compaction.stream.kinesis import ReadLog
from minutebook.coverage.evidence import SURELY_HELD_MS, Kind
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, mark_days, read_mark_key
from minutebook.store.retrying import RetryingStorage


def stream_mark(
    facts: ShardFacts, scope: Interval, compared: Comparison, read: ReadLog, *, writer: str
) -> ReadMark | None:
    """Return the mark of one shard; None where the comparison proves nothing."""
    if compared.findings or compared.to_come or read.asked_ms is None or read.answered_ms is None:
        return None
    from_ms = read.answered_ms - SURELY_HELD_MS
    if read.oldest_ms is not None:
        from_ms = min(from_ms, read.oldest_ms + ARRIVAL_STEP_BACK_MS)
    from_ms = max(from_ms, read.since_ms, scope.from_ms)
    until_ms = min(read.asked_ms - ARRIVAL_STEP_BACK_MS, read.until_ms, scope.until_ms)
    lasts = [
        link.last
        for link in facts.chain.links
        if link.kind is not Kind.SEGMENT or link.until_ms + ARRIVAL_STEP_BACK_MS < scope.until_ms
    ]
    is_begun = facts.chain.begun_at is not None and not lasts
    if until_ms <= from_ms or is_begun:
        return None
    position = max(lasts, default=None)
    return ReadMark(facts.shard_id, MarkKind.STREAM, Continuity.PROVEN, from_ms, until_ms, position, writer)


def store_marks(storage: RetryingStorage, prefix: str, marks: Iterable[ReadMark]) -> None:
    """Store marks under each of their days; raises StoreUnavailable, StoreRefused."""
    for mark in marks:
        for day in mark_days(mark):
            storage.put_if_absent(read_mark_key(prefix, day, mark), encode_read_mark(mark))


def facts_of(shards: Mapping[str, ShardFacts], shard_id: str) -> ShardFacts:
    """Return what is known of a shard; nothing is of one that nobody has archived."""
    return shards.get(shard_id, ShardFacts(shard_id))
