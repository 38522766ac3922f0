"""How two listings of a day differ."""

import pytest

from compaction.inventory.changes import compare_inventories
from minutebook.published.inventory import PublishedRow
from tests.corpus.desk import DAY
from tests.corpus.model import PREFIX, Corpus

KEYS = sorted(stored.key for stored in Corpus(DAY).shards[0].segments)
ROWS: list[PublishedRow] = [(key, f'"{number}"', 100 + number, 1_000) for number, key in enumerate(KEYS)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], (0, 0, 0)),
        ([(KEYS[1], '"1"', 101, 2_000)], (1, 0, 0)),
        ([(KEYS[1], '"9"', 101, 1_000)], (1, 0, 1)),
        ([(KEYS[1], '"9"', 102, 1_000)], (0, 1, 1)),
        ([(KEYS[1] + "x", '"9"', 1, 1)], (0, 1, 1)),
    ],
    ids=["nothing", "time", "tag", "size", "came"],
)
def test_what_differs_is_counted(changed: list[PublishedRow], expected: tuple[int, int, int]) -> None:
    """Stored again, others, and late."""
    now = sorted({row[0]: row for row in [*ROWS, *changed]}.values())
    changes = compare_inventories(PREFIX, iter(ROWS), iter(now))
    assert (changes.stored_again, changes.others, changes.late) == expected
    assert changes.compared == len(ROWS)
    assert changes.are_same_slots == (not expected[1])
    assert changes.keys == tuple(row[0] for row in changed if expected[2])


def test_what_went_is_no_stored_again_object() -> None:
    """Its key is named, and no minute: nothing is listed there now."""
    changes = compare_inventories(PREFIX, iter(ROWS), iter(ROWS[1:]))
    assert (changes.stored_again, changes.others, changes.keys, changes.minutes) == (0, 1, (KEYS[0],), frozenset())
