"""A stream of several shards: their lease rows, their parents and children, and the ledger of one of them."""

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

from archive.format.minute import minute_of
from archive.format.position import Position
from archive.format.record import Record
from archive.format.segment import read_dropped, read_records
from consumer.dedupe.stored_watermarks import WATERMARKS_BESIDE
from tests.fakes.daemon_double import SHARD_END, Checkpoint, Lease
from tests.fakes.shard import FIRST_SEQUENCE, FakeShard
from tests.simulation.bucket import Bucket, Stored
from tests.simulation.kinesis import SimShard, SimStream
from tests.simulation.ledger import PREFIX, Ledger, Segment, name
from tests.simulation.site import Site
from tests.simulation.world import Violation, World

BESIDE: Final = (f"{PREFIX}_duplicates/", f"{PREFIX}_watermarks/", f"{PREFIX}_expired/")


class Span(NamedTuple):
    """A part of the partition keys' hash space, from `low` up to `high`."""

    low: float
    high: float

    def holds(self, point: float) -> bool:
        """Tell whether a key at this point goes here."""
        return self.low <= point < self.high


class LeaseRow(Lease):
    """One row of the lease table as a whole: there or not, its counter, and how often anybody changed it."""

    def __init__(self, shard: FakeShard, *, start: str = "TRIM_HORIZON", at_timestamp_ms: int | None = None) -> None:
        super().__init__(shard, start=start, at_timestamp_ms=at_timestamp_ms)
        self.present = False
        self.row_counter = 0
        self.changes = 0
        self.owner: str | None = None

    def take(self) -> int:
        """Give the lease to a new consumer; makes the row when it is missing."""
        self.present = True
        self.owner = f"worker-{self.row_counter}"
        self._changed()
        return super().take()

    def renew(self) -> None:
        """Let the owner renew, as it does every third of a fail-over."""
        self._changed()

    def wipe(self) -> None:
        """Delete the row."""
        super().wipe()
        self.present, self.owner, self.row_counter = False, None, 0
        self.changes += 1

    def write(self, counter: int, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint, if the lease is still held."""
        if not super().write(counter, checkpoint):
            return False
        self._changed()
        return True

    def replace(self, checkpoint: Checkpoint, counter: int) -> None:
        """Write the whole row, as `minutebook restore` does: every consumer before is fenced out."""
        super().wipe()
        self.checkpoint, self.row_counter = checkpoint, counter
        self.changes += 1
        self.present, self.owner = True, None
        if isinstance(checkpoint, Position) or checkpoint == SHARD_END:
            self.written.append(checkpoint)
            if self.on_write is not None:
                self.on_write(checkpoint)

    def _changed(self) -> None:
        self.row_counter += 1
        self.changes += 1


class ShardLedger(Ledger):
    """The truth about one shard whose lines may be left out as a producer's duplicates.

    `verdicts` tells of each archived record None (kept) or what it is called a duplicate of; filled by `check`.
    `ever_dropped` are the records that any writer ever called duplicates, whether its segment came to be or not.
    """

    def __init__(self, world: World, stream: SimStream) -> None:
        super().__init__(world, stream)
        self.bucket: Bucket | None = None
        self.beside: dict[str, Stored] = {}
        self.verdicts: dict[int, str | None] = {}

    def created(self, key: str, stored: Stored) -> None:
        """Look at a new object."""
        if key.startswith(BESIDE):
            self.beside[key] = stored
        else:
            super().created(key, stored)

    def ever_dropped(self) -> Iterator[tuple[int, str]]:
        """Yield every line of every `_duplicates` object."""
        for key, stored in self.beside.items():
            if key.startswith(BESIDE[0]):
                for position, _, duplicate_of in read_dropped(stored.body, self.shard.shard_id):
                    yield self.shard.index[position], duplicate_of

    def chain(self) -> list[Segment]:
        """Return the segments in their order."""
        return sorted(self.segments.values(), key=lambda one: one.first)

    def state_of(self, segment: Segment) -> str | None:
        """Return the watermarks that travel with a segment, as they are written."""
        if segment.metadata.watermarks != WATERMARKS_BESIDE:
            return segment.metadata.watermarks
        return self._beside(BESIDE[1], segment).body.decode()

    def _check_body(self, segment: Segment) -> None:
        metadata = segment.metadata
        where = f"{name(segment.first)}..{name(segment.last)} of {self.shard.shard_id}"
        kept = dict(read_records(segment.body, self.shard.shard_id))
        dropped = self._dropped(segment)
        if (metadata.records, metadata.dropped) != (len(kept), len(dropped)):
            raise Violation(f"{where}: {len(kept)} lines and {len(dropped)} dropped ones, metadata says otherwise")
        if kept.keys() & dropped.keys():
            raise Violation(f"{where}: a record is kept and dropped")
        for number in range(segment.first, segment.last + 1):
            truth = self.shard.everything[number]
            record, duplicate_of = dropped.get(truth.position, (kept.get(truth.position), None))
            if record is None:
                raise Violation(f"{name(number)} of {self.shard.shard_id} is neither kept nor among the dropped")
            if (record.arrival_ms, record.partition_key, record.data) != truth[1:]:
                raise Violation(f"{name(number)} of {self.shard.shard_id} is not archived byte for byte")
            if minute_of(record.arrival_ms) != metadata.minute:
                raise Violation(f"{name(number)} of {self.shard.shard_id} stands in another minute")
            self.verdicts[number] = duplicate_of
        if len(kept) + len(dropped) != segment.last - segment.first + 1:
            raise Violation(f"{where}: more lines than records")
        if metadata.payload_bytes != sum(len(record.data) for record in kept.values()):
            raise Violation(f"{where}: payload-bytes is wrong")

    def _dropped(self, segment: Segment) -> dict[Position, tuple[Record, str]]:
        if not segment.metadata.dropped:
            return {}
        body = self._beside(BESIDE[0], segment).body
        return {
            position: (record, duplicate_of)
            for position, record, duplicate_of in read_dropped(body, self.shard.shard_id)
        }

    def _beside(self, folder: str, segment: Segment) -> Stored:
        ending = f"-{segment.metadata.writer}."
        found = [stored for key, stored in self.beside.items() if key.startswith(folder) and ending in key]
        if len(found) != 1:
            raise Violation(f"{len(found)} objects stand beside {name(segment.first)} in {folder}")
        return found[0]


class ShardSite(Site):
    """One shard of the stream. `keys` tells of each record which event it holds; None for none."""

    lease_kind = LeaseRow
    ledger_kind = ShardLedger
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
        self.span = Span(0, 1)

    @property
    def shard_id(self) -> str:
        """The shard's id."""
        return self.stream.shard.shard_id

    @property
    def is_open(self) -> bool:
        """Tell whether producers can write to it."""
        return not self.stream.shard.closed

    def may_start(self) -> bool:
        """Tell whether KCL would start a consumer: the shard has a row or is listed, and its parents are finished."""
        if not self.stream.listed and not self.lease.present:
            return False
        return all(
            parent.lease.checkpoint == SHARD_END or not (parent.stream.listed or parent.lease.present)
            for parent in self.parents
        )
