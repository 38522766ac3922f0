"""The warning that objects came, went or changed since a day was published. `rewrite` decides what follows."""

import heapq
from collections.abc import Iterable
from itertools import groupby, repeat
from typing import NamedTuple

from compaction.inventory.day_objects import DayObjects
from compaction.inventory.inventory import row_of_published
from compaction.publish.publisher import Publisher
from compaction.verdict.findings import SAMPLES, Code, Finding, finding
from minutebook.format.minute import minute_text
from minutebook.published.generation import Pointer
from minutebook.published.inventory import PublishedRow


def late_minutes(publisher: Publisher, pointer: Pointer | None, objects: DayObjects) -> list[Finding]:
    """Compare the day's objects with the inventory of the generation that readers see now."""
    if pointer is None:
        return []
    changes = _compare(objects.prefix, publisher.inventory(pointer) or (), objects.spool.rows())
    if not changes.total or not changes.compared:
        return []
    return [
        finding(
            Code.LATE_MINUTES,
            f"{changes.total} object(s) in {len(changes.minutes)} minute(s) differ from the published generation "
            f"{pointer.generation}: a new one replaces it",
            severity="warning",
            minute=minute_text(min(changes.minutes)) if changes.minutes else None,
            keys=changes.keys,
            count=changes.total,
        )
    ]


class _Changes(NamedTuple):
    """How many objects differ from `compared` earlier ones; sample keys, and the minutes of new versions."""

    compared: int
    total: int
    keys: list[str]
    minutes: set[int]


def _compare(prefix: str, before: Iterable[PublishedRow], now: Iterable[PublishedRow]) -> _Changes:
    """Compare two inventories, both ordered by key, as streams: neither is held in memory."""
    compared, total, keys, minutes = 0, 0, list[str](), set[int]()
    merged = heapq.merge(
        zip(before, repeat(False)), zip(now, repeat(True)), key=lambda entry: (entry[0][0].encode(), entry[1])
    )
    for key, entries in groupby(merged, key=lambda entry: entry[0][0]):
        versions = {is_now: row for row, is_now in entries}
        old, new = versions.get(False), versions.get(True)
        compared += old is not None
        if old is not None and new is not None and old[1:3] == new[1:3]:
            continue
        total += 1
        if len(keys) < SAMPLES:
            keys.append(key)
        if new is not None:
            parsed = row_of_published(prefix, new).parsed
            minutes |= set() if parsed is None else {parsed.minute}
    return _Changes(compared, total, keys, minutes)
