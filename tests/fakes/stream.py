"""A stream double: identity, retention, and shards that a test opens, closes and forgets."""

from typing import TYPE_CHECKING

from archive.errors import StreamRefused, StreamUnavailable
from archive.format.position import Position
from consumer.stream.port import ShardInfo, StreamIdentity
from tests.fakes.clock import START_MS
from tests.fakes.shard import FakeShard

if TYPE_CHECKING:
    from collections.abc import Callable

ARN = "arn:aws:kinesis:eu-central-1:000000000000:stream/flights"
DAY_MS = 24 * 3600 * 1000


class FakeStream:
    """Implements `consumer.stream.port.Stream` over `FakeShard`s.

    `requests` names the calls in order; `on_request` is called before each is answered. `unavailable` and `refused`
    make every call fail in that way. With `false_ends` reading an open shard meets a null iterator, as KCL believes
    after a ResourceNotFoundException.
    """

    def __init__(
        self,
        *shards: FakeShard,
        arn: str = ARN,
        created_ms: int = START_MS - DAY_MS // 2,
        retention_ms: int = DAY_MS,
    ) -> None:
        self.shards = {shard.shard_id: shard for shard in shards}
        self.arn = arn
        self.created_ms = created_ms
        self.retention_ms = retention_ms
        self.requests: list[str] = []
        self.on_request: Callable[[], None] = lambda: None
        self.unavailable = False
        self.refused = False
        self.false_ends = False

    def describe(self) -> StreamIdentity:
        """Return the identity; creation time changes when a test re-creates the stream."""
        self._ask("describe")
        return StreamIdentity(self.arn, self.created_ms, self.retention_ms)

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row, or None for a shard that is no longer listed."""
        self._ask("shard")
        shard = self.shards.get(shard_id)
        if shard is None:
            return None
        return ShardInfo(shard_id, "0", str(2**128 - 1), shard.parents, shard.children, shard.closed)

    def holds(self, shard_id: str, position: Position) -> bool:
        """Tell whether retention still holds the record."""
        self._ask("holds")
        return any(record.position == position for record in self.shards[shard_id].records)

    def ends_after(self, shard_id: str, position: Position | None, since_ms: int | None = None) -> bool:
        """Read on after `position`, as GetRecords does."""
        self._ask("ends_after")
        shard = self.shards[shard_id]
        left = shard.after(position)
        if position is None and since_ms is not None:
            left = [record for record in left if record.arrival_ms >= since_ms]
        return (shard.closed or self.false_ends) and not left

    def recreate(self, created_ms: int) -> None:
        """Delete the stream and make it again under the same name: empty shards, another creation time."""
        self.created_ms = created_ms
        self.shards = {shard_id: FakeShard(shard_id, first_sequence=1) for shard_id in self.shards}

    def _ask(self, what: str) -> None:
        self.requests.append(what)
        self.on_request()
        if self.unavailable:
            raise StreamUnavailable("Kinesis stayed unavailable", next_step="wait")
        if self.refused:
            raise StreamRefused("AccessDeniedException", next_step="grant it")
