"""Kinesis as the audit reads it: one shard's records, a retention that passes, and a count of what was asked.

No kinder than the service: an iterator whose records have left the stream goes on at the oldest one that has not, and
says nothing; answers are dated by the service's clock, which goes on while the caller sleeps.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any, NamedTuple

from tests.fakes.clock import ManualClock


class Held(NamedTuple):
    """One Kinesis record."""

    sequence: int
    arrival_ms: int
    partition_key: str
    data: bytes


class Call(NamedTuple):
    """One GetRecords: when, by the monotonic clock, and how many records and bytes it gave."""

    at: float
    records: int
    size: int


class HeldKinesis:
    """Implements the calls of `minutebook.aws.kinesis.client.StreamClient` for a stream of one shard.

    `most` bounds the records of one answer, as the service's own limit does.
    """

    def __init__(
        self,
        clock: ManualClock,
        records: Sequence[Held],
        *,
        created_ms: int,
        retention_hours: int = 24,
        shard_id: str = "shardId-000000000000",
        arn: str = "arn:aws:kinesis:us-east-1:000000000000:stream/corpus",
        most: int = 10_000,
    ) -> None:
        self.records = list(records)
        self.calls: list[Call] = []
        self._clock = clock
        self._created_ms = created_ms
        self.retention_hours = retention_hours
        self._shard_id = shard_id
        self._arn = arn
        self._most = most

    def describe_stream_summary(self, StreamName: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Describe the stream."""
        del StreamName
        summary = {
            "StreamARN": self._arn,
            "RetentionPeriodHours": self.retention_hours,
            "StreamCreationTimestamp": datetime.fromtimestamp(self._created_ms / 1000, UTC),
        }
        return {"StreamDescriptionSummary": summary}

    def list_shards(self, **_: str) -> dict[str, Any]:
        """Name the shard."""
        keys = {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)}
        return {"Shards": [{"ShardId": self._shard_id, "HashKeyRange": keys, "SequenceNumberRange": {}}]}

    def get_shard_iterator(self, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 - boto3's types
        """Return where to begin, as the number of a record."""
        if asked["ShardIteratorType"] == "AT_TIMESTAMP":
            at_ms = asked["Timestamp"] * 1000
            found = (number for number, row in enumerate(self.records) if row.arrival_ms >= at_ms)
        else:
            at = int(asked["StartingSequenceNumber"])
            found = (number for number, row in enumerate(self.records) if row.sequence >= at)
        return self._dated(ShardIterator=str(next(found, len(self.records))))

    def get_records(self, ShardIterator: str, Limit: int) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Return what comes next and is still held."""
        edge_ms = self._clock.now_ms() - self.retention_hours * 3_600_000
        begin = int(ShardIterator)
        while begin < len(self.records) and self.records[begin].arrival_ms <= edge_ms:
            begin += 1
        rows = self.records[begin : begin + min(Limit, self._most)]
        self.calls.append(Call(self._clock.monotonic(), len(rows), sum(len(row.data) for row in rows)))
        records = [
            {
                "SequenceNumber": str(row.sequence),
                "ApproximateArrivalTimestamp": datetime.fromtimestamp(row.arrival_ms / 1000, UTC),
                "PartitionKey": row.partition_key,
                "Data": row.data,
            }
            for row in rows
        ]
        end = begin + len(rows)
        behind = 0 if end == len(self.records) else self._clock.now_ms() - self.records[end].arrival_ms
        return self._dated(Records=records, MillisBehindLatest=max(0, behind), NextShardIterator=str(end))

    def _dated(self, **answer: object) -> dict[str, Any]:
        headers: Mapping[str, str] = {"date": formatdate(self._clock.now_ms() / 1000, usegmt=True)}
        return {**answer, "ResponseMetadata": {"HTTPHeaders": headers}}
