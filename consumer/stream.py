"""The stream port: what the processor asks Kinesis itself, beside what KCL delivers.

Used at the start of a shard and at its end only; never between.
"""

from typing import NamedTuple, Protocol

from archive.position import Position


class StreamIdentity(NamedTuple):
    """Which stream this is. A stream deleted and made again keeps its ARN and gets another creation time.

    Times are milliseconds: `created_ms` since the epoch, `retention_ms` a duration.
    """

    arn: str
    created_ms: int
    retention_ms: int


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

    def ends_after(self, shard_id: str, position: Position | None) -> bool:
        """Tell whether reading on after `position` (None: from the oldest record) meets the shard's end.

        True only when a null iterator is reached without meeting a record on the way.
        """
        ...
