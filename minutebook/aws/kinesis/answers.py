"""The answers of Kinesis about one stream, as values. Pure."""

from typing import NamedTuple


class StreamSummary(NamedTuple):
    """The result of DescribeStreamSummary: `created_ms` is since the epoch, `retention_ms` a duration."""

    arn: str
    created_ms: int
    retention_ms: int


class ListedShard(NamedTuple):
    """One row of ListShards. A shard is `closed` if the row has an ending sequence number; `parents` are sorted."""

    shard_id: str
    starting_hash_key: str
    ending_hash_key: str
    parents: tuple[str, ...]
    closed: bool


class Beginning(NamedTuple):
    """Where reading begins: at a sequence number, else at a time, else at the oldest retained record."""

    sequence: int | None = None
    since_ms: int | None = None


class HeldRecord(NamedTuple):
    """One Kinesis record as the stream holds it, without deaggregation."""

    sequence: int
    arrival_ms: int
    partition_key: str
    data: bytes


class Answer(NamedTuple):
    """The answer to GetShardIterator or GetRecords.

    `date_ms` is the Date header, or None. `iterator` is None at the end of a closed shard. `behind_ms` is the
    distance from the records to the shard's tip; None for GetShardIterator.
    """

    iterator: str | None
    date_ms: int | None
    records: tuple[HeldRecord, ...] = ()
    behind_ms: int | None = None

    @property
    def is_tip(self) -> bool:
        """Return whether the tip or the shard's end is reached: answers before it may be empty, too."""
        return not self.records and (self.iterator is None or self.behind_ms == 0)
