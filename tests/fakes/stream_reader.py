"""A stream as level `stream` reads it: some shards, and the records that they still hold."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from archive.coverage.topology import ShardRow
from archive.format.record import Record
from compaction.stream.kinesis import ListedShards, ReadLog, Sent, StreamFacts


class HeldStream(NamedTuple):
    """Stands in for `compaction.stream.kinesis.StreamReader`; nothing is trimmed unless `oldest_ms` says so."""

    arn: str
    created_ms: int
    records: Mapping[str, Sequence[Record]]
    now_ms: int
    oldest_ms: int | None = None

    def describe(self) -> StreamFacts:
        """Return what the stream says about itself."""
        oldest_ms = self.created_ms if self.oldest_ms is None else self.oldest_ms
        return StreamFacts(self.arn, self.created_ms, oldest_ms, tuple(sorted(self.records)))

    def listed(self) -> ListedShards:
        """Return the shards, all open; who holds which hash keys it leaves to the markers."""
        return ListedShards(self.arn, self.created_ms, tuple(map(ShardRow, sorted(self.records))), frozenset())

    def read(self, shard_id: str, begin_ms: int, end_ms: int, log: ReadLog) -> Iterator[Sent]:
        """Yield what arrived in [begin, end); the clock of the service stands still meanwhile."""
        log.since_ms, log.until_ms = begin_ms, min(end_ms, self.now_ms)
        log.asked_ms = log.answered_ms = self.now_ms
        for record in self.records[shard_id]:
            log.oldest_ms = record.arrival_ms if log.oldest_ms is None else log.oldest_ms
            if begin_ms <= record.arrival_ms < end_ms:
                yield Sent(record.position, record.arrival_ms, record.partition_key, record.data)
