"""What a run is given: the world it reaches, and what is asked of it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from archive.clock import Clock, IdSource
from archive.store.places import StorePrefix
from archive.store.storage import Storage
from compaction.iceberg.commit import DayTable
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.inventory import Waits
from compaction.inventory.neighbours import LOOKBACK_DAYS
from compaction.job.exchange import Exchange
from compaction.stream.kinesis import StreamReader
from compaction.tasks.task import Order, Outcome
from compaction.verdict.audit_document import Level

Engine = Callable[[Sequence[Order]], list[Outcome]]
"""Runs tasks and returns their outcomes in order: Spark, or a loop."""


class Ports(NamedTuple):
    """What a run reaches the world with."""

    archive: Storage
    place: StorePrefix
    waits: Waits
    clock: Clock
    new_id: IdSource
    engine: Engine
    checkpoints: Callable[[], Checkpoints]
    version: str
    stream: Callable[[], StreamReader] | None = None
    exchange: Exchange | None = None
    table: DayTable | None = None


class AuditOptions(NamedTuple):
    """What is asked of an audit. `command` is the command line that a finding repeats.

    `event_id` is the path of the id that producers give an event; None: producer duplicates are not looked for.
    `published` is where days are published: the ids of a day before that is expired are read there. A rewrite leaves
    them out with `drop_producer_duplicates`.
    """

    level: Level = "keys"
    lookback_days: int = LOOKBACK_DAYS
    shard: str | None = None
    stream: str = ""
    application: str = ""
    command: str = "minutebook audit FILE.properties"
    event_id: str | None = None
    published: StorePrefix | None = None
    drop_producer_duplicates: bool = False


def iso_time(epoch_ms: int) -> str:
    """Return UTC in ISO 8601 with milliseconds."""
    return datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
