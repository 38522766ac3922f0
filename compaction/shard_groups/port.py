"""Groups of values and the operations on them. Spark runs them for large days, threads for small ones.

    scatter         one item a group: the hours of a day
    repartition     run work on groups, and move each value that it yields to another group
    collect         run work on groups, and return its results to the driver: one small value a group
    read            make an order of each group, run it, and distribute its result to other groups
    read_with_ids   the same; the ids that were read stay in partitions until `find`

Work is a plain function of a group's values and of an argument; it may run twice, and only what it returns counts.
Group 0 belongs to the driver, and gets small values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
U = TypeVar("U")
Values = Sequence[Any]
GroupValue = tuple[int, Any]
"""A group, and a value for it."""
DRIVER_GROUP = 0


class Spread(Protocol):
    """Runs `work(item)` for every item, in tasks or in a loop; returns the results in order."""

    def __call__(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Run them."""
        ...


class Distribute(Protocol):
    """Distributes an order's result to groups."""

    def __call__(self, order: Any, result: Any, /) -> Iterable[GroupValue]:  # noqa: ANN401 - of `tasks`, not imported
        """Return (group, value) pairs."""
        ...


class ShardGroups(Protocol):
    """Values in groups. Work runs on the groups that have an argument."""

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "ShardGroups":
        """Move values to `count` groups."""
        ...

    def collect(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Return what the work returns, by group."""
        ...

    def read(
        self, order: Callable[[Values, Any], Any], show: Distribute, arguments: Mapping[int, Any], count: int
    ) -> "ShardGroups":
        """Run an order (`compaction.tasks.task`) for each group; `show` distributes its result to `count` groups."""
        ...

    def union(self, other: Any, count: int) -> "ShardGroups":  # noqa: ANN401 - of the same source
        """Return `count` groups with the values of both."""
        ...

    def read_with_ids(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> "ReadWithIds":
        """Like `read`, with orders that collect ids in `partitions` partitions."""
        ...


class ReadWithIds(Protocol):
    """What was read, in groups, and its ids; one attempt of each order counts."""

    @property
    def seen(self) -> ShardGroups:
        """The groups with the distributed results."""
        ...

    def find(self, layout: Any, again: Any, count: int) -> Any:  # noqa: ANN401 - see `compaction.event_ids`
        """Find the copies of ids, and send each to the order that drops it; returns a `job.context.FoundCopies`.

        The orders are in `count` groups of `again` (a `ShardGroups`), at most one each; None: no line is dropped.
        """
        ...


class GroupSource(Protocol):
    """Makes groups from values of the driver."""

    @property
    def is_local(self) -> bool:
        """Whether work runs in this process, and may share its clients."""
        ...

    def scatter(self, items: Sequence[Any]) -> ShardGroups:
        """Return groups of one item each, numbered from 0."""
        ...


def group_values(values: Values, argument: object) -> list[Any]:
    """Return a group's values; work for `collect`."""
    del argument
    return list(values)


def driver_values(groups: ShardGroups) -> list[Any]:
    """Return the values of the driver's group."""
    return groups.collect(group_values, {DRIVER_GROUP: None})[DRIVER_GROUP]
