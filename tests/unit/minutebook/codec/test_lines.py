"""Lines written in C are those that Python writes; what is not plainly usual is left to Python."""

import base64
import json
import mmap
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minutebook.codec.lines import MOST_INPUT_BYTES, LineWriter, new_line_writer
from minutebook.format.position import Position, SequenceRange
from minutebook.format.record import Measured, Record, WrittenLines, encode_lines

SHARD = "shardId-000000000000"
FIRST = 4968 * 10**52
decode = msgspec.json.Decoder(list[Record]).decode
RECORD: dict[str, object] = {
    "action": "record",
    "data": "eA==",
    "partitionKey": "p",
    "sequenceNumber": str(FIRST),
    "approximateArrivalTimestamp": 1_795_256_161_000,
    "subSequenceNumber": 0,
}


@pytest.fixture
def writer(native_writer: LineWriter) -> LineWriter:
    """Return what writes the lines of one shard."""
    return native_writer


@pytest.fixture(scope="module")
def native_writer() -> LineWriter:
    """Return one for the module."""
    made = new_line_writer(SHARD)
    if made is None:
        pytest.skip("built without the native codec: no C compiler, or MINUTEBOOK_NATIVE=0")
    return made


def wire(number: int = 0, **changes: object) -> dict[str, object]:
    """Return a record as the daemon writes it, some fields changed; those that are None are left out."""
    made = RECORD | {"sequenceNumber": str(FIRST + number)} | changes
    return {name: value for name, value in made.items() if value is not None}


def text(records: list[dict[str, Any]]) -> bytes:
    """Return records as they stand in the daemon's message."""
    return json.dumps(records, separators=(",", ":"), ensure_ascii=False).encode()[1:-1]


def write(writer: LineWriter, stretch: bytes) -> WrittenLines | None:
    """Write what stands in the middle of a message; the lines are kept."""
    line = memoryview(bytearray(b"[" + stretch + b"]"))
    written = writer.write(line, 1, len(line) - 1)
    return written and written._replace(lines=memoryview(bytes(written.lines)))


def twin(stretch: bytes) -> WrittenLines:
    """Return what Python makes of it."""
    records = decode(b"[" + stretch + b"]")
    arrivals = [record.arrival_ms for record in records]
    measured = Measured(min(arrivals), max(arrivals), sum(len(record.data) for record in records))
    span = SequenceRange(records[0].position, records[-1].position)
    return WrittenLines(memoryview(encode_lines(SHARD, records)), len(records), span, measured)


plain_keys = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs", "Cc"]), max_size=20)
payloads = st.one_of(
    st.binary(max_size=60), st.text(max_size=60).map(lambda value: value.encode("utf-8", "surrogatepass"))
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(payloads, plain_keys, st.integers(0, 10**18 - 1)), min_size=1, max_size=8),
    st.permutations(["approximateArrivalTimestamp", "subSequenceNumber"]),
)
@example(
    [(bytes(range(256)), "é日\U0001f9ff", 0), (bytes(range(128)) * 3, "", 10**18 - 1)],
    ["subSequenceNumber", "approximateArrivalTimestamp"],
)
def test_lines_and_facts_are_those_of_python(
    native_writer: LineWriter, records: list[tuple[bytes, str, int]], order: list[str]
) -> None:
    """Whatever payloads and partition keys are, and whichever of the last two fields comes first."""
    made = []
    for number, (data, key, arrival_ms) in enumerate(records):
        one = wire(number // 2, data=base64.b64encode(data).decode(), partitionKey=key)
        last = {"approximateArrivalTimestamp": arrival_ms, "subSequenceNumber": number % 2}
        for name in order:
            del one[name]
            one[name] = last[name]
        made.append(one)
    assert write(native_writer, text(made)) == twin(text(made))


@pytest.mark.parametrize(
    "stretch",
    [
        b"",
        text([wire()]) + b",",
        b"," + text([wire()]),
        text([wire()])[:-1],
        text([wire(), wire(0)]),
        text([wire(1), wire(0)]),
        text([wire(0, sequenceNumber="9"), wire(0, sequenceNumber="10")]),
        text([wire(subSequenceNumber=1), wire(subSequenceNumber=1)]),
        text([wire(sequenceNumber="")]),
        text([wire(sequenceNumber="0")]),
        text([wire(sequenceNumber="01")]),
        text([wire(sequenceNumber="1x")]),
        text([wire(sequenceNumber="1" * 57)]),
        text([wire(sequenceNumber=1)]),
        text([wire(subSequenceNumber=-1)]),
        text([wire(subSequenceNumber=10**18)]),
        text([wire(subSequenceNumber=None)]),
        text([wire(approximateArrivalTimestamp=-1)]),
        text([wire(approximateArrivalTimestamp=1.5)]),
        text([wire()]).replace(b":0}", b":00}"),
        text([wire(partitionKey='"')]),
        text([wire(partitionKey="\\")]),
        text([wire(partitionKey="\n")]),
        text([wire(partitionKey=None)]),
        text([wire()]).replace(b'"p"', b'"\xff"'),
        text([wire()]).replace(b'"p"', b'"\xed\xa0\x80"'),
        text([wire(data="eA=")]),
        text([wire(data="eA")]),
        text([wire(data="eB==")]),
        text([wire(data="eHg9=")]),
        text([wire(data="eA==" * 8)]),
        text([wire(data="====")]),
        text([wire(data="e-_=")]),
        text([wire(data="eHh4" * 9 + "e.h4")]),
        text([wire(data="e.h4" + "eHh4" * 9)]),
        text([wire(data=None)]),
        text([wire(action="other")]),
        text([wire(more=1)]),
        text([wire()]).replace(b",", b", "),
    ],
)
def test_what_is_not_plainly_usual_is_left_to_python(writer: LineWriter, stretch: bytes) -> None:
    """Be it wrong or merely unusual: Python says which."""
    assert write(writer, stretch) is None


@settings(max_examples=500, deadline=None)
@given(
    st.lists(payloads, min_size=1, max_size=3),
    st.integers(0, 10_000),
    st.integers(0, 5),
    st.sampled_from([b"", b"\\", b'"', b"\xff", b"0", b"=", b",", b"}", b"\xc3", b" ", b"/", b"e"]),
)
def test_what_is_taken_is_never_refused_by_python(
    native_writer: LineWriter, data: list[bytes], at: int, cut: int, put: bytes
) -> None:
    """Of damaged text, too, Python makes the same."""
    whole = text([wire(number, data=base64.b64encode(one).decode()) for number, one in enumerate(data)])
    at %= len(whole)
    damaged = whole[:at] + put + whole[at + cut :]
    written = write(native_writer, damaged)
    assert written is None or written == twin(damaged)


def test_only_what_it_was_given_is_read(writer: LineWriter) -> None:
    """Records before and behind belong to other pieces."""
    before, stretch = text([wire(0)]) + b",", text([wire(1), wire(2)])
    line = memoryview(bytearray(before + stretch + b"," + text([wire(3)])))
    written = writer.write(line, len(before), len(before) + len(stretch))
    assert written is not None
    assert (written.records, written.span.first) == (2, Position(FIRST + 1))
    assert bytes(written.lines) == bytes(twin(stretch).lines)


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (5, 5), (6, 5), (0, 10**6)])
def test_a_place_that_is_none_is_refused(writer: LineWriter, begin: int, end: int) -> None:
    """No memory but the line's is ever looked at."""
    assert writer.write(memoryview(bytearray(text([wire()]))), begin, end) is None


def test_what_has_no_room_is_left_to_python(writer: LineWriter) -> None:
    """Control characters take six bytes each: the lines would be longer than the memory for them."""
    data = base64.b64encode(bytes(MOST_INPUT_BYTES // 2)).decode()
    assert write(writer, text([wire(data=data)])) is None
    assert write(writer, text([wire(data=data), wire(1, data=data)])) is None
    assert write(writer, text([wire(data=base64.b64encode(b"x" * (MOST_INPUT_BYTES // 2)).decode())])) is not None


def test_the_lines_memory_is_given_back(writer: LineWriter) -> None:
    """The daemon's line is lent: its memory is resized behind it, which a view of it would prevent."""
    stretch = text([wire()])
    memory = mmap.mmap(-1, 4096)
    memory[: len(stretch)] = stretch
    with memoryview(memory) as line:
        assert writer.write(line, 0, len(stretch)) is not None
        assert writer.write(line, 0, len(stretch) - 1) is None
    memory.resize(8192)
