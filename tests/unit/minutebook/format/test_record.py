"""Lines of a segment: lossless for any bytes."""

import json

import msgspec
import pytest

from minutebook.errors import FormatError
from minutebook.format.record import Record, decode_block, decode_line, encode_lines

SHARD = "shardId-000000000000"
PAYLOADS = {
    "every byte value": bytes(range(256)),
    "every ASCII character": bytes(range(128)),
    "empty": b"",
    "1 MiB of text": b"x" * (1 << 20),
    "1 MiB of bytes": bytes(range(256)) * 4096,
    "invalid UTF-8": b"abc\xff\xfe",
    "overlong UTF-8": b"\xc0\x80",
    "a surrogate encoded as UTF-8": b"\xed\xa0\x80",
    "cut in a character": "\u65e5".encode()[:2],
    "line separators": "a\u2028b\u2029c\x85d".encode(),
    "line breaks": b"a\r\nb\n\nc\r",
    "lone surrogates escaped in JSON": rb'{"a":"\ud800","b":"\udc00x"}',
    "quotes and backslashes": b'"\\" \\u0041 \\\\',
    "a byte order mark": "\ufeffx".encode(),
    "characters beyond the first plane": "\U0001f9ff\U0010ffff".encode(),
    "nul": b"\x00",
    "what looks like base64": b"aGVsbG8=",
}


def encode_line(shard_id: str, record: Record) -> bytes:
    """Return one record's line without its line break."""
    return encode_lines(shard_id, [record]).removesuffix(b"\n")


def record(data: bytes, *, sub: int = 0, partition_key: str = "p1") -> Record:
    """Return a record with this payload."""
    return Record(
        "49680000000000000000000000000000000000000000000000000001", sub, partition_key, 1_795_256_161_790, data
    )


@pytest.mark.parametrize("data", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_a_payload_comes_back_byte_for_byte(data: bytes) -> None:
    """Whatever the payload, decoding the line gives the exact bytes."""
    assert decode_line(encode_line(SHARD, record(data))) == (SHARD, record(data))


@pytest.mark.parametrize("data", PAYLOADS.values(), ids=PAYLOADS.keys())
def test_no_payload_breaks_a_line(data: bytes) -> None:
    """A line holds neither a line feed nor a carriage return."""
    line = encode_line(SHARD, record(data))
    assert b"\n" not in line
    assert b"\r" not in line


@pytest.mark.parametrize("value", range(256))
def test_each_single_byte_comes_back(value: int) -> None:
    """One byte alone, of every value."""
    data = bytes([value])
    assert decode_line(encode_line(SHARD, record(data)))[1].data == data


@pytest.mark.parametrize("partition_key", ["", "caf\u00e9-\u65e5", 'a"b\\c', "\U0001f9ff", "a\nb"])
def test_any_partition_key_comes_back(partition_key: str) -> None:
    """Unicode, quotes and control characters."""
    assert (
        decode_line(encode_line(SHARD, record(b"x", partition_key=partition_key)))[1].partition_key == partition_key
    )


def test_text_stands_in_the_line_as_text() -> None:
    """The line is what docs/format.md shows, field by field and in that order."""
    line = json.loads(encode_line(SHARD, record(b"hello", sub=3)))
    assert list(line.items()) == [
        ("shard_id", SHARD),
        ("sequence_number", "49680000000000000000000000000000000000000000000000000001"),
        ("sub_sequence_number", 3),
        ("partition_key", "p1"),
        ("arrival_ms", 1_795_256_161_790),
        ("data", "hello"),
    ]


def test_other_bytes_stand_in_the_line_as_base64() -> None:
    """Standard base64 with padding, in a field of its own."""
    line = json.loads(encode_line(SHARD, record(b"\xff\xfe")))
    assert line["data_base64"] == "//4="
    assert "data" not in line


def broken(**changes: object) -> bytes:
    """Return a line with fields changed; None removes one."""
    fields = {**json.loads(encode_line(SHARD, record(b"x"))), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        broken(data=None),
        broken(data_base64="eA=="),
        broken(data=None, data_base64="e"),
        broken(data=1),
        broken(extra=1),
        broken(shard_id=None),
        broken(sequence_number=None),
        broken(sequence_number=1),
        broken(sequence_number="01"),
        broken(sequence_number="-1"),
        broken(sequence_number=""),
        broken(sub_sequence_number=-1),
        broken(sub_sequence_number="0"),
        broken(partition_key=None),
        broken(arrival_ms="1"),
        broken(arrival_ms=1.5),
        encode_line(SHARD, record(b"x")) + b"x",
    ],
)
def test_a_line_that_is_not_ours_is_refused(line: bytes) -> None:
    """Missing, doubled, unknown or mistyped fields are errors."""
    with pytest.raises(FormatError):
        decode_line(line)


def test_one_payload_of_bytes_changes_no_other_line() -> None:
    """Text stays text beside bytes: a line depends on its own record alone."""
    batch = [record(b"a"), record(b"\xff"), record(b"b")]
    assert encode_lines(SHARD, batch) == b"".join(encode_lines(SHARD, [record]) for record in batch)


def test_the_wire_names_are_those_of_the_daemon() -> None:
    """A record decodes straight from the daemon's JSON, base64 and all."""
    wire = (
        b'{"action":"record","data":"//4=","partitionKey":"p","sequenceNumber":"12","subSequenceNumber":1,'
        b'"approximateArrivalTimestamp":5}'
    )
    assert msgspec.json.decode(wire, type=Record) == Record("12", 1, "p", 5, b"\xff\xfe")


LINE = encode_line(SHARD, record(b"x"))


def test_a_block_gives_its_lines() -> None:
    """Only the first `size` bytes of the buffer count: what stands behind them is another block's."""
    block = (LINE + b"\n") * 3
    (first, _, _) = decode_block(bytearray(block + LINE), len(block)) or ()
    assert (first.shard_id, first.data) == (SHARD, "x")


@pytest.mark.parametrize(
    "block",
    [
        LINE * 2 + b"\n",
        b"\n" + LINE * 2 + b"\n",
        b" \n" + LINE * 2 + b"\n",
        LINE * 2 + b"\n\n",
        LINE * 2 + b"\n \n",
        LINE * 2 + b"\n" + LINE[:-1] + b"\n}\n",
        LINE[:-1] + b"\n}" + LINE + b"\n",
        LINE + b" " + LINE + b"\n" + b"\t\n",
        LINE + b"\n" + LINE,
    ],
)
@pytest.mark.parametrize("behind", [b"", b"}", b"\n", LINE, LINE + b"\n"])
def test_a_block_that_is_not_one_object_a_line_is_left_to_the_codec(block: bytes, behind: bytes) -> None:
    """Often as many objects as lines, and yet not one in each; whatever stands behind the block in the buffer."""
    assert decode_block(bytearray(block + behind), len(block)) is None
