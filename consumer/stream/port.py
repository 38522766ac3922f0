"""The stream port: what the processor asks Kinesis itself, beside what KCL delivers.

Used at the start of a shard and at its end only; never between.
"""

from typing import Final, NamedTuple, Protocol

from archive.format.position import Position

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


class Stream(Protocol):
    """Kinesis as the processor sees it.

    Every method raises `StreamUnavailable` once its retries are spent, or `StreamRefused` for good.
    """

    def describe(self) -> StreamIdentity:
        """Return the stream's identity and its present retention."""
        ...

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row; None when the stream does not list it (any more)."""
        ...

    def holds(self, shard_id: str, position: Position) -> bool:
        """Tell whether the record at `position` is still in the shard.

        When it is, nothing after it has been trimmed: retention trims from the oldest on.
        """
        ...

    def ends_after(self, shard_id: str, position: Position | None, since_ms: int | None = None) -> bool:
        """Tell whether reading on after `position` reaches the shard's end.

        Without a position: reading from the first record that arrived at or after `since_ms`, or from the oldest one.
        True only when a null iterator is reached without a record on the way.
        """
        ...
