"""Lines of a computed day: a task that is sent its address makes them from numbers, instead of reading them."""

from collections.abc import Callable
from typing import Any, Final

from benchmarks.archives import DAY
from benchmarks.computed_day import ComputedStore
from compaction.event_ids.dropping import LineFilter
from compaction.inventory.segments import SegmentFacts
from compaction.parquet.plan import RawObject
from compaction.tasks import task
from compaction.tasks.task import Order, TaskResult
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.store.storage import Address

DAYS: Final = 2
_COPIED: Final = 50
"""One object in so many repeats an event of the minute before."""


class ComputedAddress(Address):
    """The address of a computed archive: whoever is sent it makes lines from then on."""

    def __reduce__(self) -> tuple[Callable[..., Address], tuple[str]]:  # type: ignore[override] # as pickle has it
        """Return what makes it where it arrives."""
        return arrived, (str(self.bucket),)


def arrived(bucket: str) -> Address:
    """Let the tasks of this process make lines."""
    task.open_in_task = lambda _: None  # type: ignore[assignment,return-value] # nobody asks it
    task._read_groups = _made  # noqa: SLF001 - instead of S3
    return ComputedAddress(bucket)


def _made(order: Order, storage: object, part: Any) -> TaskResult:  # noqa: ANN401 - as the task gives it
    del storage
    store = ComputedStore(DAY, 0, days=DAYS)
    return TaskResult(order.task.number, tuple(_read(store, one, part) for one in order.task.objects), (), None)


def _read(store: ComputedStore, raw_object: RawObject, part: LineFilter) -> SegmentFacts:
    head = store.head(raw_object.key)
    fields = {} if head is None else head.metadata
    metadata = SegmentMetadata.decode(fields)
    _collect(raw_object, part)
    return SegmentFacts(
        raw_object.key,
        fields,
        lines=metadata.records,
        raw_bytes=2 * metadata.payload_bytes,
        payload_bytes=metadata.payload_bytes,
        first=metadata.first,
        last=metadata.last,
        low=metadata.first,
        high=metadata.last,
        arrival_min_ms=metadata.arrival_min_ms,
        arrival_max_ms=metadata.arrival_max_ms,
    )


def _collect(raw_object: RawObject, part: LineFilter) -> None:
    """Two lines of each object have an id; the first of some repeats an event of the minute before."""
    minute = raw_object.minute
    its = minute - 1 if minute % _COPIED == 0 else minute
    payloads = [f'{{"id":"{raw_object.shard_id}-{its}"}}', f'{{"id":"{raw_object.shard_id}-{minute}-2"}}']
    ids = part._ids  # noqa: SLF001 - instead of lines
    if ids is not None:
        ids.add([one.encode() for one in payloads], [minute * MINUTE_MS] * 2, raw_object.key)
