r"""Find and drop producer copies on one machine: ids lie in an unnamed file of this process, by partition.

    reading tasks --rows, by id--> file --partition--> finding --copies, by task--> file --> tasks that drop them
                  \--results                           \--tallies, by shard

Processes get and return bytes; this one only moves them, a few partitions at a time.
"""

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple, Protocol, TypeVar

from compaction.event_ids.copies import Layout, ShardTally, Tallies
from compaction.event_ids.dropping import packed_copies
from compaction.local.workers import told_as_lost
from compaction.tasks.progress import FINDING, WRITING, phase_of
from compaction.tasks.task import Order, TaskResult, leaving_out, run, run_collecting

T = TypeVar("T")
U = TypeVar("U")
Chunks = list[tuple[int, bytes]]
"""A partition or group, and bytes for it."""


class Each(Protocol):
    """Runs work on items, in processes or here; see `workers.Workers.each`."""

    def __call__(self, work: Callable[[T], U], items: Iterable[T], /) -> Iterator[tuple[int, U]]:
        """Yield (index, result)."""
        ...


class Begin(Protocol):
    """Begins a phase of a number of tasks."""

    def __call__(self, phase: str, total: int, /) -> Each:
        """Return what runs them."""
        ...


def in_order(results: Iterable[tuple[int, T]]) -> list[T]:
    """Return the results of `Each` in the order of the items."""
    return [result for _, result in sorted(results, key=lambda pair: pair[0])]


def collect(order: Order) -> tuple[TaskResult, Chunks]:
    """Run a task; return its result, and the rows of its ids by partition."""
    result, ids = run_collecting(order)
    return result, [] if ids is None else list(ids.rows())


def shuffled(begin: Begin, orders: Sequence[Order]) -> "ShuffledHere":
    """Run tasks that collect ids."""
    rows = _Pile()

    def results() -> Iterator[tuple[int, TaskResult]]:
        for index, (result, chunks) in begin(phase_of(orders), len(orders))(collect, orders):
            rows.add(chunks)
            yield index, result

    return ShuffledHere(begin, rows, in_order(results()))


class ShuffledHere:
    """Implements `compaction.job.context.Shuffled`."""

    def __init__(self, begin: Begin, rows: "_Pile", results: list[TaskResult]) -> None:
        self._begin = begin
        self._rows = rows
        self.results = results

    def find(self, layout: Layout, orders: Mapping[int, Order]) -> "FoundHere":
        """Find the copies, a partition at a time in each process."""
        shards: dict[int, ShardTally] = {}
        drops = _Pile()
        partitions = (Partition(layout, self._rows.of(number)) for number in self._rows.numbers)
        for _, found in self._begin(FINDING, len(self._rows.numbers))(find, partitions):
            drops.add(found.drops)
            for shard, tally in found.tallies:
                shards[shard] = shards.get(shard, ShardTally()).plus(tally)
        return FoundHere(self._begin, shards, dict(orders), drops)


class FoundHere(NamedTuple):
    """Implements `compaction.job.context.FoundCopies`."""

    begin: Begin
    shards: Mapping[int, ShardTally]
    orders: Mapping[int, Order]
    drops: "_Pile"

    def write(self) -> list[TaskResult]:
        """Run the tasks that leave copies out."""
        waiting = ((order, self.drops.of(group)) for group, order in sorted(self.orders.items()))
        return in_order(self.begin(WRITING, len(self.orders))(write_without, waiting))


class Partition(NamedTuple):
    """The rows of a partition of ids."""

    layout: Layout
    rows: list[bytes]


class FoundInPartition(NamedTuple):
    """The copies of a partition: by group of the task that leaves them out, and counted by shard."""

    drops: Chunks
    tallies: list[tuple[int, ShardTally]]


def find(partition: Partition) -> FoundInPartition:
    """Find the copies of a partition."""
    tallies = Tallies(partition.layout)
    drops = list(packed_copies(partition.rows, partition.layout, tallies))
    return FoundInPartition(drops, list(tallies.shards()))


def write_without(waiting: tuple[Order, list[bytes]]) -> TaskResult:
    """Run an order without the copies of these drops; return its result without facts."""
    order, chunks = waiting
    return run(leaving_out(order, chunks))._replace(facts=())


def _close(file: IO[bytes]) -> None:
    """Close a file that nobody reads any more: what a full disk did not take is tried once more, in vain."""
    with suppress(OSError):
        file.close()


class _Pile:
    """Bytes by number, in an unnamed file that lives as long as the pile.

    Each use raises WorkersLost where the disk is full.
    """

    def __init__(self) -> None:
        with told_as_lost():
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
        weakref.finalize(self, _close, self._file)
        self._slices: dict[int, list[tuple[int, int]]] = {}

    @property
    def numbers(self) -> list[int]:
        """The numbers that have any, ascending."""
        return sorted(self._slices)

    def add(self, chunks: Chunks) -> None:
        """Add bytes."""
        with told_as_lost():
            at = self._file.seek(0, 2)
            for number, chunk in chunks:
                self._slices.setdefault(number, []).append((at, len(chunk)))
                at += self._file.write(chunk)

    def of(self, number: int) -> list[bytes]:
        """Return the bytes of a number."""
        chunks = []
        with told_as_lost():
            for at, size in self._slices.get(number, ()):
                self._file.seek(at)
                chunks.append(self._file.read(size))
        return chunks
