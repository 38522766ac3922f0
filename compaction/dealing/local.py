"""Buckets in this process: days of ordinary size, and tests."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from archive.store.parallel import in_parallel
from compaction.dealing.port import Given, Show, Values

T = TypeVar("T")
Run = Callable[[Sequence[Any]], list[Any]]
"""Runs orders, and returns their results in order."""
_AT_ONCE: Final = 8
"""Works side by side: most of them wait for a store."""


class LocalDealer:
    """Implements `compaction.dealing.port.Dealer`; orders are run by whoever is given."""

    is_local = True

    def __init__(self, run: Run) -> None:
        self._run = run

    def spread(self, items: Sequence[Any]) -> "LocalDealt":
        """Return buckets of one item each."""
        return LocalDealt(self._run, {number: [item] for number, item in enumerate(items)})


class LocalDealt:
    """Implements `compaction.dealing.port.Dealt`."""

    def __init__(self, run: Run, values: Mapping[int, list[Any]]) -> None:
        self._run = run
        self._values = values

    def deal(
        self, work: Callable[[Values, Any], Iterable[Given]], arguments: Mapping[int, Any], count: int
    ) -> "LocalDealt":
        """Give values to other buckets."""
        given = self.each(lambda values, argument: list(work(values, argument)), arguments)
        return self._dealt((one for bucket in sorted(given) for one in given[bucket]), count)

    def each(self, work: Callable[[Values, Any], T], arguments: Mapping[int, Any]) -> dict[int, T]:
        """Visit buckets, some at once."""
        buckets = list(arguments)
        found = in_parallel(lambda number: work(self._values.get(number, ()), arguments[number]), buckets, _AT_ONCE)
        return dict(zip(buckets, found, strict=True))

    def read(
        self,
        order: Callable[[Values, Any], Any],
        show: Show,
        arguments: Mapping[int, Any],
        count: int,
    ) -> "LocalDealt":
        """Run all orders at once, by whoever runs them."""
        orders = [order(self._values.get(bucket, ()), argument) for bucket, argument in sorted(arguments.items())]
        results = self._run(orders)
        return self._dealt(
            (one for made, result in zip(orders, results, strict=True) for one in show(made, result)), count
        )

    def _dealt(self, given: Iterable[Given], count: int) -> "LocalDealt":
        values: dict[int, list[Any]] = defaultdict(list)
        for bucket, value in given:
            if not 0 <= bucket < count:
                raise ValueError(f"nobody has bucket {bucket} of {count}")
            values[bucket].append(value)
        return LocalDealt(self._run, values)
