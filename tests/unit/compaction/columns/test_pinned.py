"""The columns beside a manifest are read for ever: as this release writes them, and with what a later one adds."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from compaction.columns.columns import EventTime
from compaction.columns.pinned import decode_pinned, encode_pinned
from minutebook.errors import FormatError

STORED: Final = (Path(__file__).parents[3] / "data" / "columns-1" / "columns.json").read_bytes()
DAY, GENERATION = "2026-11-20", "0123456789abcdef"


def _changed(**changes: Any) -> bytes:  # noqa: ANN401 - any JSON value
    return json.dumps(json.loads(STORED) | changes).encode()


def test_the_first_format_is_read() -> None:
    """Names, paths, types, what is required, the event time, and the file of then."""
    found = decode_pinned(STORED, "key", DAY, GENERATION)
    assert found.types == {
        "carrier": "string",
        "price": "decimal(10,2)",
        "legs": "list<struct<from: string not null, miles: int32>>",
        "tags": "map<string, string>",
        "event_time": "timestamp(ms)",
    }
    assert [(each.path, each.required) for each in found.columns][:2] == [('"carrier"', False), ("fare.price", True)]
    assert (found.event, found.rules) == (EventTime(7), "typed-4")
    assert found.schemas == (("flights.avsc", '{"type":"record"}'),)
    assert encode_pinned(DAY, GENERATION, found) == STORED


def test_a_field_that_is_not_known_changes_no_row() -> None:
    """What does changes the digest, too."""
    assert decode_pinned(_changed(more=1), "key", DAY, GENERATION) == decode_pinned(STORED, "key", DAY, GENERATION)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_changed(day="2026-11-21"), "is of 2026-11-21"),
        (_changed(generation="other"), "other"),
        (_changed(rules="typed-3"), "its digest is another one"),
        (_changed(event_time=None), "its digest is another one"),
        (_changed(columns={}), "its digest is another one"),
        (_changed(columns={"x": {"path": "x", "type": "wrong"}}), "'wrong' is not a type"),
        (_changed(format=2), "format 2 is not known"),
        (_changed(columns=[]), "does not parse"),
        (b"[]", "does not parse"),
        (b"\xff", "does not parse"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused(body: bytes, why: str) -> None:
    """With the key, and what differs."""
    with pytest.raises(FormatError, match=f"key.*{why}"):
        decode_pinned(body, "key", DAY, GENERATION)
