"""The tasks that rewrite a published day by event day. Plain Python; Spark only carries orders and results.

    split     published files in order -> files of one event day each, as large as memory allows; a task leaves one
              small "scrap" file for each event day whose rows are below `small` bytes
    gather    the scraps of an event day, from all tasks -> few files

So an arrival day makes about as many files as its bytes need, plus one for each event day, not one for each task and
event day. Only scraps are written twice. A task that runs again writes files of other names, and only those in a
returned result count.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from compaction.columns.event_time import EARLY_DAYS
from compaction.shard_groups.opened import open_in_task
from compaction.tables.events.rows import EventFile, by_event_day, read_batches, write_sorted
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

T = TypeVar("T")


class EventSizes(NamedTuple):
    """`order`: Parquet bytes that a task reads, at least one file. `held`: bytes of rows that it holds in memory.

    `small`: fewer bytes of rows become a scrap. `file`: bytes of rows of a gathered file.
    """

    order: int = 128 << 20
    held: int = 128 << 20
    small: int = 32 << 20
    file: int = 128 << 20


SIZES: Final = EventSizes()


class SplitOrder(NamedTuple):
    """Files of arrival day `day` to split into new files below `folder`. Events lie at most `window` days before.

    `is_alone`: there is no other task, so no scraps are left.
    """

    out: Address
    folder: str
    keys: tuple[str, ...]
    day: int
    window: int
    is_alone: bool
    sizes: EventSizes = SIZES


class SplitResult(NamedTuple):
    """Finished files, and scraps."""

    files: tuple[EventFile, ...]
    scraps: tuple[EventFile, ...]


class GatherOrder(NamedTuple):
    """Scraps to join; each tuple becomes one file."""

    out: Address
    folder: str
    joined: tuple[tuple[EventFile, ...], ...]


def cut_by_event_day(order: SplitOrder) -> SplitResult:
    """Split files by event day; raise SafetyRefusal if an event lies outside of the window.

    Raises FormatError if a file has no event time, or was not stored as it was written.
    """
    storage = open_in_task(order.out)
    held, files = _Held(), list[EventFile]()
    for key in order.keys:
        for batch in read_batches(storage, key):
            for day, rows in by_event_day(batch):
                _check_near(order, day, key)
                held.add(day, rows)
            while held.size > order.sizes.held:
                files.append(held.write_largest(storage, order.folder))
    scraps = list[EventFile]()
    for day, size in held.days():
        to = files if order.is_alone or size >= order.sizes.small else scraps
        to.append(held.write(storage, order.folder, day))
    return SplitResult(tuple(files), tuple(scraps))


def gather(order: GatherOrder) -> tuple[EventFile, ...]:
    """Join scraps. Raises as `cut_by_event_day`."""
    storage = open_in_task(order.out)
    return tuple(
        write_sorted(
            storage,
            order.folder,
            scraps[0].day,
            [batch for scrap in scraps for batch in read_batches(storage, scrap.key)],
        )
        for scraps in order.joined
    )


def gather_orders(out: Address, folder: str, scraps: Iterable[EventFile], sizes: EventSizes) -> list[GatherOrder]:
    """Plan how scraps are joined: those of one event day in order, cut by bytes; small files share a task."""
    by_day: dict[int | None, list[EventFile]] = defaultdict(list)
    for scrap in scraps:
        by_day[scrap.day].append(scrap)
    orders: list[GatherOrder] = []
    size = sizes.file
    for _, of_day in sorted(by_day.items(), key=lambda item: (item[0] is not None, item[0] or 0)):
        for joined in in_batches(of_day, lambda scrap: scrap.held, sizes.file):
            if size >= sizes.file:
                orders.append(GatherOrder(out, folder, ()))
                size = 0
            orders[-1] = orders[-1]._replace(joined=(*orders[-1].joined, joined))
            size += sum(scrap.held for scrap in joined)
    return orders


def in_batches(items: Iterable[T], size_of: Callable[[T], int], most: int) -> list[tuple[T, ...]]:
    """Group consecutive items into tuples of at most `most` bytes; a larger item gets its own tuple."""
    batches: list[tuple[T, ...]] = []
    size = most
    for item in items:
        if size + size_of(item) > most:
            batches.append(())
            size = 0
        batches[-1] = (*batches[-1], item)
        size += size_of(item)
    return batches


def _check_near(order: SplitOrder, day: int | None, key: str) -> None:
    """Refuse events outside of the window: a day published with a larger one would make more partitions."""
    if day is not None and not order.day - order.window <= day <= order.day + EARLY_DAYS:
        raise SafetyRefusal(
            f"{key} holds events of another day than {order.day - order.window} to {order.day + EARLY_DAYS} days "
            f"since 1970: {day}; the arrival's is {Day(order.day)}",
            next_step="run it with the --event-window that the day was published with",
        )


class _Held:
    """Rows in memory, by event day."""

    def __init__(self) -> None:
        self._tables: dict[int | None, list[pa.Table]] = defaultdict(list)
        self._sizes: dict[int | None, int] = defaultdict(int)
        self.size = 0

    def add(self, day: int | None, rows: pa.Table) -> None:
        self._tables[day].append(rows)
        self._sizes[day] += rows.nbytes
        self.size += rows.nbytes

    def days(self) -> list[tuple[int | None, int]]:
        return list(self._sizes.items())

    def write_largest(self, storage: RetryingStorage, folder: str) -> EventFile:
        return self.write(storage, folder, max(self._sizes, key=lambda day: self._sizes[day]))

    def write(self, storage: RetryingStorage, folder: str, day: int | None) -> EventFile:
        self.size -= self._sizes.pop(day)
        return write_sorted(storage, folder, day, self._tables.pop(day))
