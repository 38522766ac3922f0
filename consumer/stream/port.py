"""The stream port: the requests that a processor sends to Kinesis itself, beside what KCL delivers.

Used at the start and the end of a shard, and at intervals while a shard is quiet.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, Self

from minutebook.aws.kinesis.answers import Answer, Beginning
from minutebook.errors import DeliveryDoubt
from minutebook.format.aggregate import EVERY_HASH_KEY, HashRange
from minutebook.format.minute import iso_time
from minutebook.format.position import Position

SURELY_KEPT_MS: Final = 23 * 3_600_000
"""Kinesis keeps every record for at least a day, whatever the retention is or was; minus an hour for clocks."""
ARRIVAL_MARGIN_MS: Final = 3_600_000
"""How long before the creation of its stream a record may be stamped: the service's clocks are minutes apart."""


class StreamIdentity(NamedTuple):
    """Identifies a stream: one that is deleted and created again keeps its ARN, but gets another creation time.

    Times are milliseconds: `created_ms` since the epoch, `retention_ms` a duration.
    """

    arn: str
    created_ms: int
    retention_ms: int

    def may_have_trimmed(self, now_ms: int) -> bool:
        """Return whether the stream is old enough to have trimmed records, also before its retention was raised."""
        return now_ms - self.created_ms > SURELY_KEPT_MS

    def check_arrival(self, what: str, arrival_ms: int) -> None:
        """Raise DeliveryDoubt if a record is stamped an hour before the stream was made; `what` names the record.

        The service stamps records, not their producer. Such a stamp counts in another unit, or in local time: the
        minute and the day of the record would be wrong, and so would every bound by retention.
        """
        earliest_ms = self.created_ms - ARRIVAL_MARGIN_MS
        if arrival_ms >= earliest_ms:
            return
        in_seconds = ", as if it counted seconds" if earliest_ms <= arrival_ms * 1000 < 2 * earliest_ms else ""
        raise DeliveryDoubt(
            f"{what} arrived at {iso_time(arrival_ms)} by its stamp{in_seconds}, and the stream was made at "
            f"{iso_time(self.created_ms)}",
            next_step="nothing of it was written; look at the server's ApproximateArrivalTimestamp and its clock: "
            "Kinesis never stamps so, an emulator or a proxy may; minutebook doctor looks at the oldest record",
        )


class ShardInfo(NamedTuple):
    """One row of ListShards; `closed`: it has an ending sequence number."""

    shard_id: str
    starting_hash_key: str
    ending_hash_key: str
    parents: tuple[str, ...]
    children: tuple[str, ...]
    closed: bool


def shard_hash_range(info: ShardInfo | None) -> HashRange:
    """Return the hash keys by which KCL filters a shard's aggregates; all if the shard is not listed."""
    if info is None or not info.starting_hash_key or not info.ending_hash_key:
        return EVERY_HASH_KEY
    return HashRange(int(info.starting_hash_key), int(info.ending_hash_key))


class StreamFacts(Protocol):
    """Facts about the stream. Methods raise `StreamUnavailable` once retries are spent, `StreamRefused` for good."""

    def describe(self) -> StreamIdentity:
        """Return the stream's identity and its present retention."""
        ...

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> Mapping[str, ShardInfo]:
        """Return the listed shards by id: all, those open at a time, or those open since a time."""
        ...

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row; None when the stream does not list it."""
        ...

    def holds(self, shard_id: str, position: Position) -> bool:
        """Return whether the shard still holds the record at `position`, and so every later one."""
        ...


class StreamReader(Protocol):
    """Reads a shard beside KCL. Errors as in `StreamFacts`."""

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:
        """Return an iterator; None where Kinesis refuses one, because the sequence number is trimmed."""
        ...

    def read(self, shard_id: str, iterator: str, *, most: int = 100) -> Answer:
        """Read up to `most` Kinesis records from an iterator. An answer may be empty although records follow."""
        ...

    def service_ms(self) -> int | None:
        """Return the service's time, never early, perhaps late; None before the first answer that names it."""
        ...

    def within(self, budget_seconds: float) -> Self:
        """Return the same stream with another retry budget; 0 means one attempt."""
        ...


class StreamPort(StreamFacts, StreamReader, Protocol):
    """All that a processor needs of Kinesis."""
