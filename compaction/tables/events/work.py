"""What tasks do to cut a published day by the day of its events. Plain Python; Spark only carries it to a worker.

    split     published files in their order -> files of one event day each, as large as memory lets them be;
              what is small of a day in one task is left as a scrap, one for each event day
    gather    the scraps of an event day, from all tasks -> few files

So the files of a day of arrival are about as many as its bytes call for, and one more for each day of events: not one
for each task and each day that an event in it belongs to. Only scraps are written twice. A task that is run again
writes files of other names; only those that a returned value names count.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from compaction.columns.event_window import EARLY_DAYS
from compaction.shard_groups.opened import open_in_task
from compaction.tables.events.rows import EventFile, by_event_day, read_batches, write_sorted
from minutebook.errors import SafetyRefusal
from minutebook.format.day import Day
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

T = TypeVar("T")


class EventSizes(NamedTuple):
    """`order`: Parquet bytes that a task reads, a file at least. `held`: bytes of rows that it holds in memory.

    `small`: rows of fewer bytes are left as a scrap. `file`: bytes of rows of a file that is gathered.
    """

    order: int = 128 << 20
    held: int = 128 << 20
    small: int = 32 << 20
    file: int = 128 << 20


SIZES: Final = EventSizes()


class SplitOrder(NamedTuple):
    """Files to cut: those of arrival day `day`, whose events lie at most `window` days before. New keys: `folder`...

    `is_alone`: there is no other task, and nothing is left for gathering.
    """

    out: Address
    folder: str
    keys: tuple[str, ...]
    day: int
    window: int
    is_alone: bool
    sizes: EventSizes = SIZES


class SplitResult(NamedTuple):
    """Files that are done, and scraps."""

    files: tuple[EventFile, ...]
    scraps: tuple[EventFile, ...]


class GatherOrder(NamedTuple):
    """Scraps to join: each tuple makes one file."""

    out: Address
    folder: str
    joined: tuple[tuple[EventFile, ...], ...]


def cut_by_event_day(order: SplitOrder) -> SplitResult:
    """Cut files by the day of events.

    Raises:
        SafetyRefusal: an event lies outside of the window.
        FormatError: a file is not what was published with an event time.
        StoreUnavailable, StoreRefused: the store.
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
    """Join scraps; raises as `cut_by_event_day`."""
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
    """Plan the gathering: scraps of one event day in their order, cut by bytes; small files share a task."""
    by_day: dict[int | None, list[EventFile]] = defaultdict(list)
    for scrap in scraps:
        by_day[scrap.day].append(scrap)
    orders: list[GatherOrder] = []
    size = sizes.file
    for _, found in sorted(by_day.items(), key=lambda each: (each[0] is not None, each[0] or 0)):
        for joined in in_batches(found, lambda scrap: scrap.held, sizes.file):
            if size >= sizes.file:
                orders.append(GatherOrder(out, folder, ()))
                size = 0
            orders[-1] = orders[-1]._replace(joined=(*orders[-1].joined, joined))
            size += sum(scrap.held for scrap in joined)
    return orders


def in_batches(items: Iterable[T], size_of: Callable[[T], int], most: int) -> list[tuple[T, ...]]:
    """Return items in their order, so many bytes together at most; a larger one is alone."""
    found: list[tuple[T, ...]] = []
    size = most
    for item in items:
        if size + size_of(item) > most:
            found.append(())
            size = 0
        found[-1] = (*found[-1], item)
        size += size_of(item)
    return found


def _check_near(order: SplitOrder, day: int | None, key: str) -> None:
    """Never make more partitions than were asked for: a day may have been published with another window."""
    if day is not None and not order.day - order.window <= day <= order.day + EARLY_DAYS:
        raise SafetyRefusal(
            f"{key} holds events of another day than {order.day - order.window} to {order.day + EARLY_DAYS} days "
            f"since 1970: {day}; the arrival's is {Day(order.day)}",
            next_step="run it with the --event-window that the day was published with",
        )


class _Held:
    """Rows in memory, by the day of their events."""

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
