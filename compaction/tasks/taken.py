"""Find the objects of a day that tasks of hours have read already; the night reuses these tasks. Pure.

A task of an hour holds consecutive objects in the order of shard and position, so its first object is enough to find
the task of any object.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from compaction.parquet.plan import RawObject, order_of_objects
from minutebook.format.day import MINUTES_AN_HOUR
from minutebook.format.position import Position
from minutebook.store.storage import Address

NOT_TAKEN: Final = -1
Place = tuple[str, Position, int, str]
"""An object's place in the order of shard and position."""


class CachedTask(NamedTuple):
    """What an hour's task left at `out`: the key of its facts, and the folder of its part."""

    folder: str
    facts: str
    out: Address


class TakenHour(NamedTuple):
    """An hour whose objects are unchanged since it was published: its tasks, in order, by their first objects.

    `numbers`: the day's tasks that reuse them; `NOT_TAKEN`: the objects are read again. `facts`: the tasks' keys.
    """

    first_minute: int
    folder: str
    firsts: tuple[Place, ...]
    numbers: tuple[int, ...]
    facts: tuple[str, ...]

    def number_of(self, raw_object: RawObject) -> int:
        """Return the number of the day's task that reuses an object of the hour, or `NOT_TAKEN`."""
        at = bisect_right(self.firsts, order_of_objects(raw_object)) - 1
        return NOT_TAKEN if at < 0 else self.numbers[at]

    def parts(self, out: Address) -> dict[int, CachedTask]:
        """Return the hour's tasks at `out` that the day reuses, by the number of the day's task."""
        pairs = zip(self.numbers, self.facts, strict=True)
        return {number: CachedTask(self.folder, facts, out) for number, facts in pairs if number != NOT_TAKEN}

    def within(self, low: str | None, high: str | None) -> "TakenHour":
        """Return only tasks that may hold objects of shards in [low, high) (None: no bound)."""
        begin = 0 if low is None else max(0, bisect_left(self.firsts, low, key=lambda place: place[0]) - 1)
        end = len(self.firsts) if high is None else bisect_left(self.firsts, high, key=lambda place: place[0])
        part = slice(begin, end)
        return self._replace(firsts=self.firsts[part], numbers=self.numbers[part], facts=self.facts[part])


def split_taken(
    objects: Iterable[RawObject], hours: Sequence[TakenHour]
) -> tuple[Mapping[int, list[RawObject]], list[RawObject]]:
    """Return the objects that hours have read, by the day's task that reuses them, and the other objects."""
    by_hour = {hour.first_minute // MINUTES_AN_HOUR: hour for hour in hours}
    taken: dict[int, list[RawObject]] = defaultdict(list)
    left = list[RawObject]()
    for raw_object in objects:
        hour = by_hour.get(raw_object.minute // MINUTES_AN_HOUR)
        number = NOT_TAKEN if hour is None else hour.number_of(raw_object)
        (left if number == NOT_TAKEN else taken[number]).append(raw_object)
    return taken, left
