"""Buckets in this process: days of ordinary size, and tests."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from compaction.shard_groups.port import Distribute, GroupValue, Values
from minutebook.store.parallel import in_parallel

T = TypeVar("T")
Run = Callable[[Sequence[Any]], list[Any]]
"""Runs orders, and returns their results in order."""
Shuffle = Callable[[Sequence[Any]], Any]
"""Runs orders that ask for ids (`compaction.job.context.Shuffle`)."""
_AT_ONCE: Final = 8
"""Works side by side: most of them wait for a store."""


class LocalGroupSource:
    """Implements `compaction.shard_groups.port.Dealer`; orders are run by whoever is given."""

    is_local = True

    def __init__(self, run: Run, shuffle: Shuffle | None = None) -> None:
        self._run = run
        self._shuffle = shuffle

    def scatter(self, items: Sequence[Any]) -> "LocalShardGroups":
        """Return groups of one item each."""
        return LocalShardGroups(self._run, {number: [item] for number, item in enumerate(items)}, self._shuffle)


class LocalShardGroups:
    """Implements `compaction.shard_groups.port.Dealt`."""

    def __init__(self, run: Run, values: Mapping[int, list[Any]], shuffle: Shuffle | None = None) -> None:
        self._run = run
        self._values = values
        self._shuffle = shuffle

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "LocalShardGroups":
        """Give values to other groups."""
        given = self.collect(lambda values, argument: list(work(values, argument)), arguments)
        return self._grouped((one for group in sorted(given) for one in given[group]), count)

    def collect(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Visit groups, some at once."""
        groups = list(arguments)
        found = in_parallel(lambda number: work(self._values.get(number, ()), arguments[number]), groups, _AT_ONCE)
        return dict(zip(groups, found, strict=True))

    def read(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
    ) -> "LocalShardGroups":
        """Run all orders at once, by whoever runs them."""
        orders = [order(self._values.get(group, ()), argument) for group, argument in sorted(arguments.items())]
        results = self._run(orders)
        return self._grouped(
            (one for made, result in zip(orders, results, strict=True) for one in show(made, result)), count
        )

    def union(self, other: "LocalShardGroups", count: int) -> "LocalShardGroups":
        """Return the values of both."""
        both = (self._values, other._values)  # noqa: SLF001 - of this class
        return self._grouped(((number, one) for values in both for number in values for one in values[number]), count)

    def read_with_ids(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> "LocalReadWithIds":
        """Run all orders at once, by whoever shuffles; they know in how many partitions ids are dealt out."""
        del partitions
        orders = [order(self._values.get(group, ()), argument) for group, argument in sorted(arguments.items())]
        shuffled = self._shuffle(orders) if orders and self._shuffle is not None else NothingShuffled()
        results = {result.number: result for result in shuffled.results}
        given = (one for made in orders for one in show(made, results[made.task.number]))
        return LocalReadWithIds(self._grouped(given, count), shuffled)

    def waiting(self, count: int) -> dict[int, Any]:
        """Return what waits in groups that hold one value each."""
        return {number: value for number in range(count) for value in self._values.get(number, ())}

    def _grouped(self, given: Iterable[GroupValue], count: int) -> "LocalShardGroups":
        values: dict[int, list[Any]] = defaultdict(list)
        for group, value in given:
            if not 0 <= group < count:
                raise ValueError(f"nobody has bucket {group} of {count}")
            values[group].append(value)
        return LocalShardGroups(self._run, values, self._shuffle)


class LocalReadWithIds(NamedTuple):
    """Implements `compaction.shard_groups.port.Collected`."""

    seen: LocalShardGroups
    shuffled: Any

    def find(self, layout: Any, again: LocalShardGroups | None, count: int) -> Any:  # noqa: ANN401 - as the port has it
        """Let whoever shuffled find the copies, with all orders at once."""
        return self.shuffled.find(layout, {} if again is None else again.waiting(count))


class NothingShuffled(NamedTuple):
    """What no order has given; implements `compaction.job.context.Shuffled`."""

    results: tuple[Any, ...] = ()

    def find(self, layout: object, orders: object) -> "NothingFound":
        """Find none."""
        del layout, orders
        return NothingFound()


class NothingFound(NamedTuple):
    """No copies, and nobody to leave them out; implements `compaction.job.context.Found`."""

    shards: Mapping[int, Any] = {}

    def write(self) -> list[Any]:
        """Return none."""
        return []
