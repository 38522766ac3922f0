"""The inventory beside a manifest, read."""

import gzip

import pytest

from minutebook.errors import FormatError
from minutebook.published.inventory import decode_inventory, inventory_digest

LINES = b'["p/a","e1",5,7]\n["p/b","e2",6,8]\n'
ROWS = [("p/a", "e1", 5, 7), ("p/b", "e2", 6, 8)]


def test_its_lines_are_rows_however_they_were_packed() -> None:
    """A member for each folder that was listed, or none at all for a day without objects."""
    first, second = LINES.splitlines(keepends=True)
    for body in (gzip.compress(LINES), gzip.compress(first) + gzip.compress(second)):
        assert list(decode_inventory(body, "k", "")) == ROWS
    assert list(decode_inventory(b"", "k", "")) == []


@pytest.mark.parametrize(
    "body",
    [b"text", gzip.compress(LINES)[:-1], gzip.compress(b'["p/a"]\n'), gzip.compress(b"\xff\n")],
    ids=["not compressed", "cut", "another row", "no text"],
)
def test_a_damaged_one_is_an_error_that_names_it(body: bytes) -> None:
    """Whoever compares a day with it must know which object to look at."""
    with pytest.raises(FormatError, match=r"^some key does not parse: ") as caught:
        list(decode_inventory(body, "some key", "do this"))
    assert caught.value.next_step == "do this"


def test_its_hash_tells_every_part_apart() -> None:
    """Key, ETag, size, order and salt; times are no part of it."""
    rows = [row[:3] for row in ROWS]
    others = [rows[:1], rows[::-1], [("p/a", "e1", 5), ("p/b", "e2", 7)], [("p/a", "e1", 5), ("p/b", "e3", 6)]]
    assert len({inventory_digest(rows), inventory_digest(rows, "salt"), *map(inventory_digest, others)}) == 6
