"""What differs between two inventories, of which neither is held."""

from collections.abc import Iterable
from typing import NamedTuple

from compaction.inventory.inventory import make_row
from minutebook.published.inventory import PublishedRow
from minutebook.store.objects import ListedObject


class Changes(NamedTuple):
    """Objects that came, went or changed: how many, the first of them, and the minutes of those that are there.

    `compared` are the objects that there were before.
    """

    compared: int
    total: int
    keys: tuple[str, ...]
    minutes: frozenset[int]


def changes(prefix: str, before: Iterable[PublishedRow], now: Iterable[PublishedRow], samples: int) -> Changes:
    """Compare two inventories, both in the order of keys; neither is held."""
    compared, count, keys, minutes = 0, 0, list[str](), set[int]()
    old, new = iter(before), iter(now)
    left, right = next(old, None), next(new, None)
    while left is not None or right is not None:
        order = _order(left, right)
        if order != 0 or left is None or right is None or left[1:3] != right[1:3]:
            count += 1
            changed = left if order < 0 else right
            keys += [changed[0]] if changed is not None and len(keys) < samples else []
            if order >= 0 and right is not None:
                parsed = make_row(prefix, ListedObject(right[0], right[2], right[1], right[3])).parsed
                minutes |= {parsed.minute} if parsed is not None else set()
        if order <= 0:
            compared += 1
            left = next(old, None)
        if order >= 0:
            right = next(new, None)
    return Changes(compared, count, tuple(keys), frozenset(minutes))


def _order(left: PublishedRow | None, right: PublishedRow | None) -> int:
    """Tell which comes first: -1 the left one, 1 the right one, 0 both have one key."""
    if left is None or right is None:
        return 1 if left is None else -1
    one, two = left[0].encode(), right[0].encode()
    return (one > two) - (one < two)
