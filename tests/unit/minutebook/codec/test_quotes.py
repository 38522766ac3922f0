"""Text with quotes in it, read sixteen bytes at a time: what stays, what goes, and where it ends."""

import itertools
import json
from typing import Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minutebook.codec.columns import ColumnReader, own_buffers, reading
from minutebook.codec.lines import line_prefix
from minutebook.format.record import Record, encode_lines
from tests.fakes.compiled_codec import COMPILER, compiled_codec

SHARD: Final = "shardId-000000000000"
BLOCK: Final = 16
PIECES: Final = ('"', "\\", "a", "\n", "é", "\x01")
MARK: Final = '"MARK"'


@pytest.fixture(scope="module", params=["this machine", "any machine"])
def reader(request: pytest.FixtureRequest) -> ColumnReader:
    """Return what reads lines by the sources as they are."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    flags = ["-DMINUTEBOOK_PORTABLE"] if request.param == "any machine" else []
    return ColumnReader(reading(compiled_codec(*flags)), line_prefix(SHARD))


def lines_of(texts: list[str]) -> bytes:
    """Return a line for each payload."""
    made = (Record(str(number), 0, "k", 5, text.encode()) for number, text in enumerate(texts, start=1))
    return encode_lines(SHARD, list(made))


def read(reader: ColumnReader, lines: bytes) -> list[str] | None:
    """Return the payloads; None where the codec leaves the lines to Python."""
    buffers = own_buffers()
    if buffers.read(reader, bytearray(lines), len(lines), 0) is None:
        return None
    columns = buffers.take()
    ends = memoryview(columns.texts.offsets).cast("i")
    return [columns.texts.content[begin:end].decode() for begin, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("before", range(BLOCK + 1))
def test_every_few_characters_at_every_place_of_a_block(reader: ColumnReader, before: int) -> None:
    """Two escapes side by side, one across the end of a block, and each of those that are not of quotes."""
    for size in range(5):
        texts = ["." * before + "".join(few) for few in itertools.product(PIECES, repeat=size)]
        assert read(reader, lines_of(texts)) == texts
        longer = [text + '"x"' * 20 for text in texts]
        assert read(reader, lines_of(longer)) == longer


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(st.sampled_from([*PIECES, '"key":', "text of some length"])).map("".join), min_size=1))
def test_any_text_of_such_pieces(reader: ColumnReader, texts: list[str]) -> None:
    """And the same as JSON in a payload, of which each quote is escaped twice."""
    texts += [json.dumps(text) for text in texts]
    assert read(reader, lines_of(texts)) == texts


@pytest.mark.parametrize("before", range(BLOCK + 1))
@pytest.mark.parametrize("broken", [b'"', b"\\", b"\\x", b"\x01", b"\n", b"\xff", b'\\\\"', b"\\u00", b'\\"\\'])
def test_what_is_no_text_is_left_to_python(reader: ColumnReader, before: int, broken: bytes) -> None:
    """Wherever in a block it stands: the string ends too early, or never as it should."""
    [line] = lines_of(["." * before + MARK + "." * 40]).splitlines(keepends=True)
    damaged = line.replace(msgspec.json.encode(MARK)[1:-1], broken)
    assert damaged != line
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        msgspec.json.decode(damaged)
    assert read(reader, damaged) is None
