"""Values in buckets, and tasks that visit them: what a large day needs of Spark, and a small one of nobody.

    spread     one item a bucket: the hours of a day
    deal       visit buckets, and give each value that comes out to another bucket
    each       visit buckets, and bring what comes out to the driver: one small answer a bucket
    read       visit buckets, make an order of each and run it, and give what it shows to other buckets
    collect    the same, and the ids of what was read wait in partitions, until it is told which of them count

Work is a plain function of a bucket's values and of an argument of its own; it may be done twice, and only what is
returned counts. Bucket 0 is the driver's: what is dealt to it is small.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Values = Sequence[Any]
Given = tuple[int, Any]
"""A bucket, and a value for it."""
DRIVERS = 0


class Show(Protocol):
    """Gives what an order's result shows to buckets."""

    def __call__(self, order: Any, result: Any, /) -> Iterable[Given]:  # noqa: ANN401 - whatever was made and run
        """Return buckets and values."""
        ...


class Dealt(Protocol):
    """Values in buckets. Where an argument is given for a bucket, it is visited, and others are not."""

    def deal(
        self, work: Callable[[Values, Any], Iterable[Given]], arguments: Mapping[int, Any], count: int
    ) -> "Dealt":
        """Give values to `count` buckets."""
        ...

    def each(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Return what the work returns, by bucket."""
        ...

    def read(
        self,
        order: Callable[[Values, Any], Any],
        show: Show,
        arguments: Mapping[int, Any],
        count: int,
    ) -> "Dealt":
        """Run an order (`compaction.tasks.task`) for each bucket; `show` gives its result to `count` buckets."""
        ...

    def plus(self, other: Any, count: int) -> "Dealt":  # noqa: ANN401 - of the same dealer
        """Return `count` buckets with the values of both."""
        ...

    def collect(
        self,
        order: Callable[[Values, Any], Any],
        show: Show,
        arguments: Mapping[int, Any],
        count: int,
        partitions: int,
    ) -> "Collected":
        """Read as `read` does, with orders that ask for ids, which are dealt out in so many partitions."""
        ...


class Collected(Protocol):
    """What was read, in the buckets that it was shown to; and the ids, of which one attempt of each order counts."""

    @property
    def seen(self) -> Dealt:
        """Return what was shown."""
        ...

    def find(self, layout: Any, again: Any, count: int) -> Any:  # noqa: ANN401 - see `compaction.event_ids`
        """Find the copies of ids, and bring each to the order that leaves it out.

        The orders wait in `count` buckets of `again` (a `Dealt`), one in each at most; None: nothing is left out.
        What comes out is a `compaction.job.context.Found`.
        """
        ...


class Dealer(Protocol):
    """Begins with values of the driver. `is_local`: works are done in this process, and may share its clients."""

    @property
    def is_local(self) -> bool:
        """Tell whether works are done in this process."""
        ...

    def spread(self, items: Sequence[Any]) -> Dealt:
        """Return buckets of one item each, numbered from 0."""
        ...


def give(values: Values, argument: object) -> list[Any]:
    """Return a bucket's values; a work for `each`."""
    del argument
    return list(values)


def of_the_driver(dealt: Dealt) -> list[Any]:
    """Return what was dealt to the driver."""
    return dealt.each(give, {DRIVERS: None})[DRIVERS]
