"""A stream as level `stream` reads it: some shards, and the records that they still hold."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from compaction.stream.kinesis import ListedShards, ReadLog, ReadSpan, Sent
from minutebook.coverage.topology import ShardRow
from minutebook.format.record import Record


class HeldStream(NamedTuple):
    """Stands in for `compaction.stream.kinesis.StreamReader`; nothing is trimmed unless `oldest_ms` says so."""

    arn: str
    created_ms: int
    records: Mapping[str, Sequence[Record]]
    now_ms: int
    oldest_ms: int | None = None

    def listed(self) -> ListedShards:
        """Return the shards, all open; who holds which hash keys it leaves to the markers."""
        oldest_ms = self.created_ms if self.oldest_ms is None else self.oldest_ms
        rows = tuple(map(ShardRow, sorted(self.records)))
        return ListedShards(self.arn, self.created_ms, rows, frozenset(), self.now_ms - oldest_ms)

    def read(self, shard_id: str, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Return what lies within a reach; the clock of the service stands still meanwhile."""
        edge_ms = self.created_ms if self.oldest_ms is None else self.oldest_ms
        log.since_ms, log.until_ms = reach.begin_ms, min(reach.end_ms, self.now_ms)
        log.asked_ms = log.answered_ms = self.now_ms
        if reach.at is None and edge_ms > max(reach.begin_ms, self.created_ms):
            log.is_trimmed, log.since_ms = True, edge_ms + 60_000
        return self._records(shard_id, reach, log)

    def _records(self, shard_id: str, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        for record in self.records[shard_id]:
            if reach.at is not None and record.position.sequence < reach.at:
                continue
            if log.oldest is None:
                log.oldest, log.oldest_ms = record.position.sequence, record.arrival_ms
            if reach.stop is not None and record.position >= reach.stop:
                log.next_sequence = record.position.sequence
                return
            is_reached = reach.start is None or record.position >= reach.start
            if is_reached and log.since_ms <= record.arrival_ms < log.until_ms:
                yield Sent(record.position, record.arrival_ms, record.partition_key, record.data)
