"""What a run works with: its ports to the outside, and the options of an audit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from compaction.columns.decode.registered import SchemaPlace
from compaction.event_ids.copies import Layout, ShardTally
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.neighbours import LOOKBACK_DAYS
from compaction.parquet.plan import SIZES, TaskSizes
from compaction.shard_groups.local import LocalGroupSource
from compaction.shard_groups.port import GroupSource, Spread
from compaction.stream.kinesis import ArchivedStream, ListedShards
from compaction.tables.commit import DayTable
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import AuditLevel
from minutebook.clock import Clock, IdSource
from minutebook.format.minute import iso_time
from minutebook.format.payload import NumberPaths
from minutebook.owner import StreamOwner
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

T = TypeVar("T")
U = TypeVar("U")

PARTITION_BYTES: Final = 32 << 20
"""Compressed bytes of segments a partition of ids: one or two million records, 32 bytes each."""
MAX_REPEATS: Final = 0.2
"""A larger share of copies means that the path does not name an event's id."""
MOST_PARTITIONS: Final = 4_000
"""Upper limit, because a shuffle has as many blocks as tasks times partitions; those of large days are larger."""


class FoundCopies(Protocol):
    """The copies of a day, each with the task that leaves it out."""

    @property
    def shards(self) -> Mapping[int, ShardTally]:
        """The copies of each shard, by its number in `Layout.shards`."""
        ...

    def write(self) -> list[TaskResult]:
        """Run the tasks that leave copies out; return their results in order, without facts."""
        ...


class Shuffled(Protocol):
    """Tasks that have run, and their event ids in partitions: by Spark's shuffle, or a loop."""

    @property
    def results(self) -> list[TaskResult]:
        """The tasks' results, in order."""
        ...

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> FoundCopies:
        """Find the copies; an object's copies go to the order that `Layout.writer` names."""
        ...


Engine = Callable[[Sequence[Order]], list[TaskResult]]
"""Runs tasks, by Spark or a loop, and returns their results in order."""
Shuffle = Callable[[Sequence[Order]], Shuffled]
"""Runs tasks that return ids, all in the same number of partitions."""


def in_turn(work: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Implement `Spread` by a loop."""
    return [work(item) for item in items]


class JobContext(NamedTuple):
    """The ports of a run: storage, clock, Spark, stream, lease table, Iceberg table and registry of schemas."""

    archive: RetryingStorage
    place: StorePrefix
    clock: Clock
    new_id: IdSource
    engine: Engine
    checkpoints: Callable[[], Checkpoints]
    version: str
    owner: StreamOwner
    stream: Callable[[], ArchivedStream] | None = None
    shuffle: Shuffle | None = None
    table: DayTable | None = None
    shards: Callable[[], ListedShards] | None = None
    spread: Spread = in_turn
    sizes: TaskSizes = SIZES
    group_sources: Callable[[int], GroupSource] | None = None
    schemas: Callable[[StorePrefix], SchemaPlace] | None = None

    def group_source(self, groups: int) -> GroupSource:
        """Return what makes shard groups for a day of so many groups: this process by default."""
        return (
            LocalGroupSource(self.engine, self.shuffle) if self.group_sources is None else self.group_sources(groups)
        )

    def open(self, address: Address) -> RetryingStorage:
        """Return the storage at another address, with the archive's retries."""
        return RetryingStorage(open_storage(address), self.archive.new_backoff)

    def now(self) -> str:
        """Return the time in ISO 8601, as audits and manifests hold it."""
        return iso_time(self.clock.now_ms())


class AuditOptions(NamedTuple):
    """The options of an audit.

    `command` is the command line that findings repeat; `rewrite` that of a compaction with the same columns, and
    `publish` with the same place and table, too.
    `event_id` is the path of the id that producers give an event; None: producer duplicates are not looked for.
    `numbers`: by what watermarks dropped records; None: these are not compared with the records that were kept.
    `published` is where days are published: the ids of an expired day before are read there. A rewrite leaves
    duplicates out with `drop_producer_duplicates`, and refuses if they exceed the share `max_repeats` of the records
    that have an id. `so_far_ms` ends the scope within a day (epoch milliseconds, or the last hour
    that every shard covers, see `so_far`); None: the whole day.
    `sample_minutes` of each shard are compared with the stream; None: all.
    """

    level: AuditLevel = "keys"
    lookback_days: int = LOOKBACK_DAYS
    shard: str | None = None
    stream: str = ""
    application: str = ""
    command: str = "minutebook audit FILE.properties"
    rewrite: str = "minutebook compact FILE.properties"
    publish: str = "minutebook compact FILE.properties"
    event_id: str | None = None
    numbers: NumberPaths | None = None
    published: StorePrefix | None = None
    drop_producer_duplicates: bool = False
    max_repeats: float = MAX_REPEATS
    so_far_ms: int | Literal["covered"] | None = None
    sample_minutes: int | None = None

    @property
    def judged_by(self) -> str:
        """What of these options a verdict and its rows depend on, as text; empty: nothing."""
        ids = [] if self.event_id is None else [f"event id {self.event_id}"]
        left_out = ["copies left out"] if self.drop_producer_duplicates else []
        numbers = [] if self.numbers is None else [f"producers' numbers {self.numbers}"]
        return ", ".join([*ids, *left_out, *numbers])


def partitions_for(size: int) -> int:
    """Return how many partitions the ids of `size` compressed bytes take."""
    return min(MOST_PARTITIONS, max(1, -(-size // PARTITION_BYTES)))
