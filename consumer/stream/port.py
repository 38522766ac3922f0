"""The stream port: what the processor asks Kinesis itself, beside what KCL delivers.

Used at the start of a shard and at its end, and now and then where a shard is quiet.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, Self

from minutebook.aws.kinesis.answers import Answer, Beginning
from minutebook.format.position import Position

SURELY_KEPT_MS: Final = 23 * 3_600_000
"""Kinesis keeps every record for a day at least, whatever the retention is or was; an hour is left to clocks."""


class StreamIdentity(NamedTuple):
    """Which stream this is. A stream deleted and made again keeps its ARN and gets another creation time.

    Times are milliseconds: `created_ms` since the epoch, `retention_ms` a duration.
    """

    arn: str
    created_ms: int
    retention_ms: int

    def may_have_trimmed(self, now_ms: int) -> bool:
        """Tell whether the stream is old enough to have trimmed anything.

        Not a matter of its present retention: one that was raised lately has trimmed already.
        """
        return now_ms - self.created_ms > SURELY_KEPT_MS


class ShardInfo(NamedTuple):
    """One row of ListShards. `closed` means that the row has an ending sequence number."""

    shard_id: str
    starting_hash_key: str
    ending_hash_key: str
    parents: tuple[str, ...]
    children: tuple[str, ...]
    closed: bool


class StreamFacts(Protocol):
    """What the processor asks about the stream.

    Every method raises `StreamUnavailable` once its retries are spent, or `StreamRefused` for good.
    """

    def describe(self) -> StreamIdentity:
        """Return the stream's identity and its present retention."""
        ...

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> Mapping[str, ShardInfo]:
        """Return the shards that the stream lists, by id: all, those open at a time, or those open since a time."""
        ...

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row; None when the stream does not list it (any more)."""
        ...

    def holds(self, shard_id: str, position: Position) -> bool:
        """Tell whether the record at `position` is still in the shard.

        When it is, nothing after it has been trimmed: retention trims from the oldest on.
        """
        ...


class StreamReader(Protocol):
    """How the processor reads a shard itself. Errors as in `StreamFacts`."""

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:
        """Ask for an iterator; None where Kinesis refuses one, because the sequence number is trimmed."""
        ...

    def read(self, shard_id: str, iterator: str, *, most: int = 100) -> Answer:
        """Read up to `most` Kinesis records on from an iterator. An answer may be empty although there are some."""
        ...

    def service_ms(self) -> int | None:
        """Return the service's time, rather late than early; None while no answer has named one."""
        ...

    def within(self, budget_seconds: float) -> Self:
        """Return the same stream, asked with another budget for retries; 0 means once."""
        ...


class StreamPort(StreamFacts, StreamReader, Protocol):
    """Kinesis as the processor sees it."""
