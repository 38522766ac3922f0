"""One shard of a stream of several: its place in the hash space, its parents, its lease row and its ledger."""

from typing import TYPE_CHECKING, NamedTuple

from minutebook.format.aggregate import LAST_HASH_KEY, HashRange
from tests.fakes.daemon_double import SHARD_END
from tests.fakes.shard import FIRST_SEQUENCE
from tests.simulation.histories.site import Site
from tests.simulation.promises.shard_ledger import ShardLedger
from tests.simulation.services.aggregates import ALMOST_EVERY_HASH_KEY
from tests.simulation.services.bucket import Bucket
from tests.simulation.services.kinesis import SimShard
from tests.simulation.services.lease_rows import LeaseRow
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Hashable


class Span(NamedTuple):
    """A part of the partition keys' hash space, from `low` up to `high`."""

    low: float
    high: float

    def holds(self, point: float) -> bool:
        """Tell whether a key at this point goes here."""
        return self.low <= point < self.high


class ShardSite(Site):
    """One shard of the stream. `keys` tells of each record which event it holds; None for none."""

    lease_type = LeaseRow
    ledger_type = ShardLedger
    lease: LeaseRow
    ledger: ShardLedger

    def __init__(
        self, world: World, bucket: Bucket, number: int, *, created: float, start: str, parents: "list[ShardSite]"
    ) -> None:
        # The same sequence numbers in every shard: the worst that they can have in common.
        shard = SimShard(f"shardId-{number:012d}", first_sequence=FIRST_SEQUENCE)
        shard.parents = tuple(parent.shard_id for parent in parents)
        super().__init__(world, bucket, 0, created=created, start=start, shard=shard)
        self.number = number
        self.ledger.bucket = bucket
        self.parents = parents
        self.keys: list[Hashable | None] = []
        self._span = Span(0, 1)
        self.mean_hours = 1.0
        """How long it takes until the next record arrives, on average; only histories of days ask."""

    @property
    def shard_id(self) -> str:
        """The shard's id."""
        return self.stream.shard.shard_id

    @property
    def span(self) -> Span:
        """Its part of the hash space."""
        return self._span

    @span.setter
    def span(self, span: Span) -> None:
        self._span = span
        keys = LAST_HASH_KEY + 1
        least = 0 if self.world.troubles is None else ALMOST_EVERY_HASH_KEY.first
        self.stream.shard.hash_range = HashRange(max(int(span.low * keys), least), int(span.high * keys) - 1)

    def trouble(self, *, at_end: bool = False) -> None:
        """Let careless producers put something that holds no event."""
        super().trouble(at_end=at_end)
        self.keys += [None] * (len(self.stream.shard.everything) - len(self.keys))

    @property
    def is_open(self) -> bool:
        """Tell whether producers can write to it."""
        return not self.stream.shard.closed

    def settle_start(self) -> None:
        """Give KCL its start. It makes a child's row at TRIM_HORIZON whatever it is configured to."""
        root = self.table[0]
        if not self.parents:
            super().settle_start()
        elif root.has_consume:
            self.lease.at_timestamp_ms = root.configured_ms()

    def may_start(self) -> bool:
        """Tell whether KCL would start a consumer: the shard has a row or is listed, and its parents are finished."""
        if not self.stream.listed and not self.lease.present:
            return False
        return all(
            parent.lease.checkpoint == SHARD_END or not (parent.stream.listed or parent.lease.present)
            for parent in self.parents
        )
