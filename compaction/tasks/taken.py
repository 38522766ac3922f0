"""Which objects of a day an hour's tasks have read already: the night cuts the same tasks of them. Pure.

A task of an hour is a run of its objects in the order of shard and position, so the first object of each run tells
where all others belong.
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
"""Where an object comes in the order of shard and position."""


class CachedTask(NamedTuple):
    """What an hour's task has left at `out`: its facts, and the folder that its part lies in."""

    folder: str
    facts: str
    out: Address


class TakenHour(NamedTuple):
    """An hour whose objects are those that it was published from. Its tasks, in order, by their first objects.

    `numbers` are those of the day's tasks that take them over; `NOT_TAKEN`: what it read is read again. `facts` are
    keys, of the same tasks.
    """

    first_minute: int
    folder: str
    firsts: tuple[Place, ...]
    numbers: tuple[int, ...]
    facts: tuple[str, ...]

    def number_of(self, raw_object: RawObject) -> int:
        """Return the number of the day's task that takes an object of the hour over, or `NOT_TAKEN`."""
        at = bisect_right(self.firsts, order_of_objects(raw_object)) - 1
        return NOT_TAKEN if at < 0 else self.numbers[at]

    def parts(self, out: Address) -> dict[int, CachedTask]:
        """Return what the day's tasks take over at `out`, by their numbers."""
        pairs = zip(self.numbers, self.facts, strict=True)
        return {number: CachedTask(self.folder, facts, out) for number, facts in pairs if number != NOT_TAKEN}

    def within(self, low: str | None, high: str | None) -> "TakenHour":
        """Return the tasks that may hold objects of shards from `low` to before `high` (None: no bound)."""
        begin = 0 if low is None else max(0, bisect_left(self.firsts, low, key=lambda place: place[0]) - 1)
        end = len(self.firsts) if high is None else bisect_left(self.firsts, high, key=lambda place: place[0])
        part = slice(begin, end)
        return self._replace(firsts=self.firsts[part], numbers=self.numbers[part], facts=self.facts[part])


def split_taken(
    objects: Iterable[RawObject], hours: Sequence[TakenHour]
) -> tuple[Mapping[int, list[RawObject]], list[RawObject]]:
    """Return the objects that hours' tasks have read, by the day's task that takes them over; and the others."""
    by_hour = {hour.first_minute // MINUTES_AN_HOUR: hour for hour in hours}
    taken: dict[int, list[RawObject]] = defaultdict(list)
    left = list[RawObject]()
    for raw_object in objects:
        hour = by_hour.get(raw_object.minute // MINUTES_AN_HOUR)
        number = NOT_TAKEN if hour is None else hour.number_of(raw_object)
        (left if number == NOT_TAKEN else taken[number]).append(raw_object)
    return taken, left
