"""Shard groups in this process, for days of ordinary size and tests."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from compaction.shard_groups.port import Distribute, GroupValue, Values
from minutebook.store.parallel import in_parallel

T = TypeVar("T")
Run = Callable[[Sequence[Any]], list[Any]]
"""Runs orders; returns their results in order."""
Shuffle = Callable[[Sequence[Any]], Any]
"""Runs orders that collect ids (`compaction.job.context.Shuffle`)."""
_AT_ONCE: Final = 8
"""Concurrent work; most of it waits for a store."""


class LocalGroupSource:
    """Implements `port.GroupSource`; `run` and `shuffle` run the orders."""

    is_local = True

    def __init__(self, run: Run, shuffle: Shuffle | None = None) -> None:
        self._run = run
        self._shuffle = shuffle

    def scatter(self, items: Sequence[Any]) -> "LocalShardGroups":
        """Return groups of one item each."""
        return LocalShardGroups(self._run, {number: [item] for number, item in enumerate(items)}, self._shuffle)


class LocalShardGroups:
    """Implements `port.ShardGroups`."""

    def __init__(self, run: Run, values: Mapping[int, list[Any]], shuffle: Shuffle | None = None) -> None:
        self._run = run
        self._values = values
        self._shuffle = shuffle

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "LocalShardGroups":
        """Move values to other groups."""
        results = self.collect(lambda values, argument: list(work(values, argument)), arguments)
        return self._grouped((pair for group in sorted(results) for pair in results[group]), count)

    def collect(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Run work on groups, some at once."""
        groups = list(arguments)
        results = in_parallel(lambda number: work(self._values.get(number, ()), arguments[number]), groups, _AT_ONCE)
        return dict(zip(groups, results, strict=True))

    def read(
        self, order: Callable[[Values, Any], Any], show: Distribute, arguments: Mapping[int, Any], count: int
    ) -> "LocalShardGroups":
        """Run all orders in one call of `run`."""
        orders = self._orders(order, arguments)
        results = zip(orders, self._run(orders), strict=True)
        return self._grouped((pair for made, result in results for pair in show(made, result)), count)

    def union(self, other: "LocalShardGroups", count: int) -> "LocalShardGroups":
        """Return the values of both."""
        both = (self._values, other._values)  # noqa: SLF001 - of this class
        return self._grouped(
            ((group, value) for values in both for group in values for value in values[group]), count
        )

    def read_with_ids(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> "LocalReadWithIds":
        """Run all orders in one call of `shuffle`; they know the number of partitions of ids."""
        del partitions
        orders = self._orders(order, arguments)
        shuffled = self._shuffle(orders) if orders and self._shuffle is not None else NothingShuffled()
        results = {result.number: result for result in shuffled.results}
        pairs = (pair for made in orders for pair in show(made, results[made.task.number]))
        return LocalReadWithIds(self._grouped(pairs, count), shuffled)

    def waiting(self, count: int) -> dict[int, Any]:
        """Return the values of groups that hold at most one each, by group."""
        return {number: value for number in range(count) for value in self._values.get(number, ())}

    def _orders(self, order: Callable[[Values, Any], Any], arguments: Mapping[int, Any]) -> list[Any]:
        return [order(self._values.get(group, ()), argument) for group, argument in sorted(arguments.items())]

    def _grouped(self, pairs: Iterable[GroupValue], count: int) -> "LocalShardGroups":
        values: dict[int, list[Any]] = defaultdict(list)
        for group, value in pairs:
            if not 0 <= group < count:
                raise ValueError(f"no group {group} of {count}")
            values[group].append(value)
        return LocalShardGroups(self._run, values, self._shuffle)


class LocalReadWithIds(NamedTuple):
    """Implements `port.ReadWithIds`."""

    seen: LocalShardGroups
    shuffled: Any

    def find(self, layout: Any, again: LocalShardGroups | None, count: int) -> Any:  # noqa: ANN401 - as the port has it
        """Find the copies with all orders at once."""
        return self.shuffled.find(layout, {} if again is None else again.waiting(count))


class NothingShuffled(NamedTuple):
    """The result of no orders; implements `compaction.job.context.Shuffled`."""

    results: tuple[Any, ...] = ()

    def find(self, layout: object, orders: object) -> "NothingFound":
        """Find none."""
        del layout, orders
        return NothingFound()


class NothingFound(NamedTuple):
    """No copies, and no orders to drop them; implements `compaction.job.context.FoundCopies`."""

    shards: Mapping[int, Any] = {}

    def write(self) -> list[Any]:
        """Return none."""
        return []
