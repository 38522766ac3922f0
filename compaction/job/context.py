"""What a run is given: the world it reaches, and what is asked of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from compaction.event_ids.copies import Layout, ShardTally
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.neighbours import LOOKBACK_DAYS
from compaction.parquet.plan import SIZES, TaskSizes
from compaction.shard_groups.local import LocalGroupSource
from compaction.shard_groups.port import GroupSource
from compaction.stream.kinesis import ArchivedStream, ListedShards
from compaction.tables.commit import DayTable
from compaction.tasks.task import Order, TaskResult
from compaction.verdict.audit_document import AuditLevel
from minutebook.clock import Clock, IdSource
from minutebook.format.minute import iso_time
from minutebook.owner import StreamOwner
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

T = TypeVar("T")
U = TypeVar("U")

PARTITION_BYTES: Final = 32 << 20
"""Compressed bytes of segments whose ids share a partition: a million records or two, 32 bytes each."""
MAX_REPEATS: Final = 0.2
"""More copies than this share are no retries: the path does not name an event's id."""
MOST_PARTITIONS: Final = 4_000
"""Of a large day they are larger instead: the blocks of a shuffle are as many as its tasks times its partitions."""


class FoundCopies(Protocol):
    """The copies of a day, each beside the task that leaves it out."""

    @property
    def shards(self) -> Mapping[int, ShardTally]:
        """Return the copies of each shard, by its number in `Layout.shards`."""
        ...

    def write(self) -> list[TaskResult]:
        """Run the tasks that leave copies out; returns their results in order, without facts."""
        ...


class Shuffled(Protocol):
    """Tasks that were run, and their event ids, dealt out in partitions: by Spark's shuffle, or a loop."""

    @property
    def results(self) -> list[TaskResult]:
        """Return the tasks' results, in order."""
        ...

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> FoundCopies:
        """Find the copies; those of an object go to the order that `Layout.writer` names."""
        ...


Engine = Callable[[Sequence[Order]], list[TaskResult]]
"""Runs tasks and returns their results in order: Spark, or a loop."""
Shuffle = Callable[[Sequence[Order]], Shuffled]
"""Runs tasks that ask for ids, all for the same number of partitions."""


class Spread(Protocol):
    """Does the same work for each item, in tasks, and returns what it gave, in order."""

    def __call__(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Do it."""
        ...


def in_turn(work: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Implement `Spread` by a loop."""
    return [work(item) for item in items]


class JobContext(NamedTuple):
    """What a run reaches the world with."""

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

    def group_source(self, groups: int) -> GroupSource:
        """Return who deals a day of so many groups: this process, unless somebody else was given."""
        return (
            LocalGroupSource(self.engine, self.shuffle) if self.group_sources is None else self.group_sources(groups)
        )

    def open(self, address: Address) -> RetryingStorage:
        """Return the storage at another address, with the waits of the archive's."""
        return RetryingStorage(open_storage(address), self.archive.new_backoff)

    def now(self) -> str:
        """Return the time as `audit.json` and manifests have it."""
        return iso_time(self.clock.now_ms())


class AuditOptions(NamedTuple):
    """What is asked of an audit. `command` is the command line that a finding repeats.

    `event_id` is the path of the id that producers give an event; None: producer duplicates are not looked for.
    `published` is where days are published: the ids of a day before that is expired are read there. A rewrite leaves
    them out with `drop_producer_duplicates`, unless they are more than `max_repeats` of the records that have an id:
    then it refuses. `so_far_ms` ends the scope within a day (epoch milliseconds); None: the
    whole day. `sample_minutes` of each shard are compared with the stream; None: all.
    """

    level: AuditLevel = "keys"
    lookback_days: int = LOOKBACK_DAYS
    shard: str | None = None
    stream: str = ""
    application: str = ""
    command: str = "minutebook audit FILE.properties"
    event_id: str | None = None
    published: StorePrefix | None = None
    drop_producer_duplicates: bool = False
    max_repeats: float = MAX_REPEATS
    so_far_ms: int | None = None
    sample_minutes: int | None = None


def partitions_for(size: int) -> int:
    """Return how many partitions the ids of `size` compressed bytes take."""
    return min(MOST_PARTITIONS, max(1, -(-size // PARTITION_BYTES)))
