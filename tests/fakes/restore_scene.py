"""A stream of shards, what a consumer left of them in a bucket, and the rows that `minutebook restore` plans."""

from collections.abc import Sequence

from consumer.leases.rows import Checkpoint, Lease
from consumer.restore.command import gather_facts
from consumer.restore.plan import PlannedRow, RestoreFacts, plan_rows
from minutebook.format.position import Position
from tests.fakes.archive_scene import APPLICATION, PREFIX, MemoryScene
from tests.fakes.clock import START_MS
from tests.fakes.stream import DAY_MS

NOW = START_MS // 60_000
S0, S1, S2, S3 = (f"shardId-{number:012d}" for number in range(4))
AT_MS = START_MS - DAY_MS // 4


class RestoreScene(MemoryScene):
    """A stream of shards, a bucket, and what a consumer left in it."""

    def __init__(self, *shard_ids: str, start_at_ms: int | None = None, created_ms: int | None = None) -> None:
        super().__init__(*shard_ids)
        self.stream.created_ms = self.stream.created_ms if created_ms is None else created_ms
        self.settle(self.stream.describe(), start_at_ms=start_at_ms)
        self.application = APPLICATION

    def begun(self, shard_id: str, minutes: Sequence[int], *, missing: Sequence[int] = ()) -> list[Position]:
        """Write start.json and one segment per minute; returns their last positions."""
        self.begin(shard_id)
        return self.chain(shard_id, minutes, missing=missing)

    def ended(self, shard_id: str, last: Position | None) -> None:
        """Close the shard, and write end.json."""
        self.stream.shards[shard_id].close()
        self.end(shard_id, last)

    def split(self, parent: str, *children: str) -> None:
        """Close a shard and link its children."""
        self.stream.shards[parent].close(*children)
        for child in children:
            self.stream.shards[child].parents = (parent,)

    def facts(self, *, as_of_ms: int | None = None) -> RestoreFacts:
        """Return what a plan is made of."""
        return gather_facts(
            self.retrying,
            PREFIX,
            self.stream.describe(),
            {shard_id: info for shard_id in self.stream.shards if (info := self.stream.shard(shard_id))},
            application=self.application,
            now_ms=self.clock.now_ms(),
            as_of_ms=as_of_ms,
        )

    def plan(self, *present: Lease, as_of_ms: int | None = None) -> dict[str, PlannedRow]:
        """Return the plan by shard."""
        facts = self.facts(as_of_ms=as_of_ms)
        return {row.lease.shard_id: row for row in plan_rows(facts, {lease.shard_id: lease for lease in present})}

    def checkpoints(self, *, as_of_ms: int | None = None) -> dict[str, Checkpoint]:
        """Return the planned checkpoints."""
        return {shard_id: row.lease.checkpoint for shard_id, row in self.plan(as_of_ms=as_of_ms).items()}
