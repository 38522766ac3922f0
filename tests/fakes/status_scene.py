"""A stream, an archive and a lease table, and `minutebook status` below its arguments."""

from collections.abc import Collection
from typing import Any

from consumer.leases.rows import Lease
from consumer.status.command import iter_reports
from consumer.status.coverage import CoverageWatch
from consumer.status.facts import StatusSources
from consumer.status.report import ShardStatus, StatusReport
from consumer.stream.port import ShardInfo
from minutebook.format.metadata import Continuity
from minutebook.format.position import Position
from tests.fakes.archive_scene import APPLICATION, PREFIX, MemoryScene
from tests.fakes.clock import START_MS
from tests.fakes.lease_table import MemoryLeaseTable
from tests.fakes.world import settings

NOW = START_MS // 60_000
S0, S1 = "shardId-000000000000", "shardId-000000000001"
LEASE = Lease(S0, Position(1005, 2), 7, "w1")


class StatusScene(MemoryScene):
    """A stream, a bucket and a table for the whole command below its arguments."""

    def __init__(self, *leases: Lease) -> None:
        super().__init__(S0)
        self.table = MemoryLeaseTable(*leases)
        self.days = 7
        self.hours = 2.0

    def archive(
        self, *minutes: int, missing: Collection[int] = (), continuity: Continuity | None = None
    ) -> list[Position]:
        """Begin the archive, and store a chain for S0 with one segment per minute; returns their last positions."""
        self.settle(self.stream.describe())
        self.begin(S0)
        return self.chain(S0, minutes, missing=missing, continuity=continuity)

    def shards(self) -> dict[str, ShardInfo]:
        """Return ListShards."""
        return {name: info for name in self.stream.shards if (info := self.stream.shard(name))}

    def sources(self, **changes: Any) -> StatusSources:  # noqa: ANN401 - any source
        """Return whom to ask."""
        sources = StatusSources(
            settings=settings(application_name=APPLICATION),
            store=self.retrying,
            describe=self.stream.describe,
            all_shards=self.shards,
            table=self.table,
            lags=None,
            clock=self.clock,
            days=self.days,
            coverage=CoverageWatch(self.retrying, PREFIX, self.clock, hours=self.hours),
        )
        return sources._replace(**changes)

    def report(self, **changes: Any) -> StatusReport:  # noqa: ANN401 - any source
        """Return the first report."""
        return next(iter_reports(self.sources(**changes), 10))

    def only(self) -> ShardStatus:
        """Return the status of the only shard."""
        (one,) = self.report().shards
        return one
