"""How the objects of a day differ from those of another listing, as streams: none is held in memory. Pure."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby, repeat
from typing import NamedTuple

from compaction.inventory.segments import row_of_published
from compaction.verdict.findings import SAMPLES
from minutebook.published.inventory import PublishedRow


class ChangedObject(NamedTuple):
    """An object that differs: its row before and its row now; None where it is not listed."""

    key: str
    before: PublishedRow | None
    now: PublishedRow | None

    @property
    def is_stored_again(self) -> bool:
        """Return whether it is listed in both with one size: only ETag or LastModified differ."""
        return self.before is not None and self.now is not None and self.before[2] == self.now[2]

    @property
    def is_late(self) -> bool:
        """Return whether it came, went, or has another ETag or size."""
        return self.before is None or self.now is None or self.before[1:3] != self.now[1:3]


class InventoryChanges(NamedTuple):
    """What differs of `compared` earlier objects.

    `stored_again` counts objects of which only ETag or LastModified differ, `others` those that came or went or have
    another size. `late` counts those that are late, with a few `keys` and the `minutes` of what is listed now.
    """

    compared: int
    stored_again: int
    others: int
    late: int
    keys: tuple[str, ...]
    minutes: frozenset[int]

    @property
    def are_same_slots(self) -> bool:
        """Return whether both listings hold the same keys and sizes: equal contents need no rewrite."""
        return not self.others


def changed_objects(before: Iterable[PublishedRow], now: Iterable[PublishedRow]) -> Iterator[ChangedObject]:
    """Yield the objects that differ between two listings, both in the order of keys."""
    merged = heapq.merge(
        zip(before, repeat(False)), zip(now, repeat(True)), key=lambda entry: (entry[0][0].encode(), entry[1])
    )
    for key, entries in groupby(merged, key=lambda entry: entry[0][0]):
        versions = {is_now: row for row, is_now in entries}
        changed = ChangedObject(key, versions.get(False), versions.get(True))
        if changed.before != changed.now:
            yield changed


def compare_inventories(prefix: str, before: Iterable[PublishedRow], now: Iterable[PublishedRow]) -> InventoryChanges:
    """Return how the objects of now differ from earlier ones."""
    compared = stored_again = others = late = 0
    keys, minutes = list[str](), set[int]()

    def counted() -> Iterator[PublishedRow]:
        nonlocal compared
        for row in before:
            compared += 1
            yield row

    for changed in changed_objects(counted(), now):
        stored_again += changed.is_stored_again
        others += not changed.is_stored_again
        if not changed.is_late:
            continue
        late += 1
        if len(keys) < SAMPLES:
            keys.append(changed.key)
        parsed = None if changed.now is None else row_of_published(prefix, changed.now).parsed
        minutes |= set() if parsed is None else {parsed.minute}
    return InventoryChanges(compared, stored_again, others, late, tuple(keys), frozenset(minutes))
