"""What Kinesis answers about one stream, as plain values. Pure."""

from typing import NamedTuple


class StreamSummary(NamedTuple):
    """What DescribeStreamSummary says: `created_ms` is since the epoch, `retention_ms` a duration."""

    arn: str
    created_ms: int
    retention_ms: int


class ListedShard(NamedTuple):
    """One row of ListShards. `closed` means that the row has an ending sequence number; `parents` are sorted."""

    shard_id: str
    starting_hash_key: str
    ending_hash_key: str
    parents: tuple[str, ...]
    closed: bool


class Beginning(NamedTuple):
    """Where reading begins: at a sequence number, else at a time, else at the oldest record that is held."""

    sequence: int | None = None
    since_ms: int | None = None


class HeldRecord(NamedTuple):
    """One Kinesis record as the stream holds it: an aggregate is not taken apart."""

    sequence: int
    arrival_ms: int
    partition_key: str
    data: bytes


class Answer(NamedTuple):
    """What Kinesis answered, to GetShardIterator or to GetRecords.

    `date_ms` is the service's time by the answer's Date header, None where it had none. Without an `iterator` the
    shard's end was reached. `behind_ms` is how far behind the shard's tip the records end; None to GetShardIterator.
    """

    iterator: str | None
    date_ms: int | None
    records: tuple[HeldRecord, ...] = ()
    behind_ms: int | None = None

    @property
    def is_tip(self) -> bool:
        """Return whether nothing is left to read: an empty answer before the tip is normal."""
        return not self.records and (self.iterator is None or self.behind_ms == 0)
