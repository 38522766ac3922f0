"""Values in groups, and tasks that visit them: what a large day needs of Spark, and a small one of nobody.

    spread     one item a group: the hours of a day
    deal       visit groups, and give each value that comes out to another group
    each       visit groups, and bring what comes out to the driver: one small answer a group
    read       visit groups, make an order of each and run it, and give what it shows to other groups
    collect    the same, and the ids of what was read wait in partitions, until it is told which of them count

Work is a plain function of a group's values and of an argument of its own; it may be done twice, and only what is
returned counts. Bucket 0 is the driver's: what is dealt to it is small.
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
    """Gives what an order's result shows to groups."""

    def __call__(self, order: Any, result: Any, /) -> Iterable[GroupValue]:  # noqa: ANN401 - whatever was made and run
        """Return groups and values."""
        ...


class ShardGroups(Protocol):
    """Values in groups. Where an argument is given for a group, it is visited, and others are not."""

    def repartition(
        self, work: Callable[[Values, Any], Iterable[GroupValue]], arguments: Mapping[int, Any], count: int
    ) -> "ShardGroups":
        """Give values to `count` groups."""
        ...

    def collect(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Return what the work returns, by group."""
        ...

    def read(
        self,
        order: Callable[[Values, Any], Any],
        show: Distribute,
        arguments: Mapping[int, Any],
        count: int,
    ) -> "ShardGroups":
        """Run an order (`compaction.tasks.task`) for each group; `show` gives its result to `count` groups."""
        ...

    def union(self, other: Any, count: int) -> "ShardGroups":  # noqa: ANN401 - of the same dealer
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
        """Read as `read` does, with orders that ask for ids, which are dealt out in so many partitions."""
        ...


class ReadWithIds(Protocol):
    """What was read, in the groups that it was shown to; and the ids, of which one attempt of each order counts."""

    @property
    def seen(self) -> ShardGroups:
        """Return what was shown."""
        ...

    def find(self, layout: Any, again: Any, count: int) -> Any:  # noqa: ANN401 - see `compaction.event_ids`
        """Find the copies of ids, and bring each to the order that leaves it out.

        The orders wait in `count` groups of `again` (a `ShardGroups`), one in each at most; None: nothing is left out.
        What comes out is a `compaction.job.context.Found`.
        """
        ...


class GroupSource(Protocol):
    """Begins with values of the driver. `is_local`: works are done in this process, and may share its clients."""

    @property
    def is_local(self) -> bool:
        """Tell whether works are done in this process."""
        ...

    def scatter(self, items: Sequence[Any]) -> ShardGroups:
        """Return groups of one item each, numbered from 0."""
        ...


def group_values(values: Values, argument: object) -> list[Any]:
    """Return a group's values; a work for `collect`."""
    del argument
    return list(values)


def driver_values(dealt: ShardGroups) -> list[Any]:
    """Return what was dealt to the driver."""
    return dealt.collect(group_values, {DRIVER_GROUP: None})[DRIVER_GROUP]
