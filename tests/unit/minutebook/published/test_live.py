"""The live pointer: what names the live parts of a day, and their typed columns."""

import msgspec
import pytest

from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.document import encode_document
from minutebook.published.generation import DayFolder
from minutebook.published.live import LivePart, LivePointer, decode_live_pointer, live_folder

FOLDER = DayFolder("tables/", Day.parse("2026-11-20"))


def _pointer(columns: str = "", **types: dict[str, str]) -> LivePointer:
    part = LivePart(
        key=f"{live_folder(FOLDER)}part-1.parquet", rows=1, bytes=2, digest="d", facts="f", columns=columns
    )
    return LivePointer(
        format=1, day=FOLDER.name, parts=(part,), writer="w", written_at="2026-11-20T00:00:00Z", columns=types
    )


def test_a_part_names_its_columns_and_the_pointer_tells_them() -> None:
    """So whoever commits it knows them without the file that they were read from."""
    pointer = _pointer("abc", abc={"n": "int64"})
    assert decode_live_pointer(encode_document(pointer), FOLDER) == pointer


def test_a_pointer_of_before_has_no_typed_columns_and_a_later_one_may_say_more() -> None:
    """Fields that are not known are ignored, so a release without columns reads one with them."""
    document = msgspec.json.decode(encode_document(_pointer()))
    del document["columns"], document["parts"][0]["columns"]
    assert decode_live_pointer(encode_document(document), FOLDER) == _pointer()
    document["parts"][0] |= {"later": 1}
    assert decode_live_pointer(encode_document(document | {"later": {}}), FOLDER) == _pointer()


def test_a_pointer_that_does_not_tell_the_columns_of_a_part_is_refused() -> None:
    """The table would not get them, and the part would not fit it."""
    with pytest.raises(FormatError, match="does not tell the columns"):
        decode_live_pointer(encode_document(_pointer("abc", other={"n": "int64"})), FOLDER)
