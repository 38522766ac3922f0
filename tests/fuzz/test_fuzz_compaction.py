"""The nightly job's reader takes blocks of lines at once: it must see what the codec sees line by line, no more."""

import gzip
import itertools
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from compaction.inventory.segments import Disorder, SegmentFacts
from compaction.parquet.line_tables import LINE_SCHEMA
from compaction.parquet.plan import RawObject
from compaction.parquet.reading import SegmentReader
from minutebook.errors import FormatError
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record, decode_line, encode_lines
from tests.fakes.shard import SHARD
from tests.fuzz.hostile import damaged, search
from tests.fuzz.valid import MINUTE, keys, payloads, runs

OBJECT = RawObject("key.jsonl.gz", "etag", 1, SHARD, MINUTE, Position(1))
LONG = 1 << 63
LATEST_MS = (LONG - 1) // 1000
GOOD = {
    "shard_id": SHARD,
    "sequence_number": "5",
    "sub_sequence_number": 0,
    "partition_key": "k",
    "arrival_ms": MINUTE * MINUTE_MS,
    "data": "x",
}
Row = tuple[object, ...]


class Seen(NamedTuple):
    """What a reading gave: rows of `LINE_SCHEMA`, and what was said about them."""

    rows: list[Row]
    facts: SegmentFacts


def read_quickly(body: bytes, block_bytes: int, *, native: bool) -> Seen:
    """Read as the job does, with the native codec or without."""
    reader = SegmentReader(OBJECT, block_bytes, native=native)
    rows: list[Row] = []
    for table in reader.tables([body]):
        assert table.schema == LINE_SCHEMA
        table.validate(full=True)
        rows += [tuple(row.values()) for row in table.to_pylist()]
    return Seen(rows, reader.facts({}))


def read_line_by_line(lines: bytes) -> tuple[list[Row], str]:
    """Read with the codec alone; returns the rows before the first problem, and the problem."""
    rows: list[Row] = []
    *whole, rest = lines.split(b"\n")
    for number, line in enumerate(whole, start=1):
        try:
            shard_id, record = decode_line(line)
        except FormatError as exc:
            return rows, f"line {number}: {exc}"
        if abs(record.arrival_ms) > LATEST_MS:
            return rows, f"line {number}: not a line of a segment: arrival_ms {record.arrival_ms}"
        try:
            payload = (record.data.decode(), None)
        except UnicodeDecodeError:
            payload = (None, record.data)
        place = (record.sequence_number, record.sub_sequence_number)
        rows.append((shard_id, *place, record.partition_key, record.arrival_ms, *payload))
    return rows, "the last line has no line break" if rest else ""


def facts_of(rows: list[Row], raw_bytes: int) -> SegmentFacts:
    """Say about rows what the reader must say."""
    positions = [Position(int(str(row[1])), int(str(row[2]))) for row in rows]
    arrivals = [int(str(row[4])) for row in rows]
    steps = [(after, before) for before, after in itertools.pairwise(positions) if after <= before]
    return SegmentFacts(
        "key.jsonl.gz",
        {},
        lines=len(rows),
        raw_bytes=raw_bytes,
        payload_bytes=sum(len(str(row[5]).encode() if row[6] is None else row[6]) for row in rows),  # type: ignore[arg-type]  # bytes
        first=positions[0] if rows else None,
        last=positions[-1] if rows else None,
        low=min(positions, default=None),
        high=max(positions, default=None),
        arrival_min_ms=min(arrivals, default=0),
        arrival_max_ms=max(arrivals, default=0),
        step_back_ms=max((max(arrivals[: at + 1]) - arrival for at, arrival in enumerate(arrivals)), default=0),
        disorder=Disorder(
            sum(after < before for after, before in steps),
            sum(after == before for after, before in steps),
            tuple(str(after) for after, _ in steps[:20]),
        ),
        wrong_minute=sum(arrival // MINUTE_MS != MINUTE for arrival in arrivals),
        wrong_shard=sum(row[0] != SHARD for row in rows),
    )


def check(lines: bytes, block_bytes: int) -> None:
    """Read all three ways and compare."""
    rows, problem = read_line_by_line(lines)
    for native in (True, False):
        seen = read_quickly(gzip.compress(lines, 1), block_bytes, native=native)
        assert seen.facts.problem == problem
        if problem:
            assert seen.rows == rows[: len(seen.rows)]
        else:
            assert seen == (rows, facts_of(rows, len(lines)))


def changed(**fields: object) -> bytes:
    """Return a line with other fields; None leaves one out."""
    return msgspec.json.encode({name: value for name, value in {**GOOD, **fields}.items() if value is not None})


def edited(old: bytes, new: bytes) -> bytes:
    """Return a line with other bytes."""
    return msgspec.json.encode(GOOD).replace(old, new)


LINE = msgspec.json.encode(GOOD)
NASTY = [
    b"",
    b" ",
    b"null",
    b"{}",
    b"[]",
    b"[" * 5000,
    b'{"a":' * 5000,
    msgspec.json.encode(GOOD) * 2,
    msgspec.json.encode(GOOD) + b"\r",
    b" \t" + msgspec.json.encode(GOOD),
    b"\xef\xbb\xbf" + msgspec.json.encode(GOOD),
    msgspec.json.encode(GOOD)[:-1] + b"\n}",
    msgspec.json.encode(GOOD) + msgspec.json.encode(GOOD)[:-1] + b"\n}",
    changed(extra=1),
    changed(data=None),
    changed(data_base64="eA=="),
    changed(data=None, data_base64="eA=="),
    changed(data=None, data_base64="/w=="),
    changed(data=None, data_base64="/x=="),
    changed(data=None, data_base64="/w"),
    changed(data=None, data_base64="/ w=="),
    changed(data=None, data_base64=""),
    changed(shard_id="shardId-000000000009"),
    changed(sequence_number=5),
    changed(sequence_number="0"),
    changed(sequence_number="05"),
    changed(sequence_number=""),
    changed(sequence_number="-5"),
    changed(sequence_number="\u0665"),
    changed(sequence_number="5\n"),
    changed(sequence_number="9" * 129),
    changed(sequence_number="9" * 130),
    changed(sub_sequence_number=-1),
    changed(sub_sequence_number=LONG - 1),
    changed(sub_sequence_number=LONG),
    changed(sub_sequence_number=True),
    changed(arrival_ms=-1),
    changed(arrival_ms=LATEST_MS),
    changed(arrival_ms=LATEST_MS + 1),
    changed(arrival_ms=-LATEST_MS),
    changed(arrival_ms=-LATEST_MS - 1),
    changed(arrival_ms=LONG - 1),
    changed(arrival_ms=LONG),
    changed(arrival_ms=-LONG),
    changed(arrival_ms=10**30),
    changed(arrival_ms=1.0),
    edited(b'"arrival_ms":', b'"arrival_ms":1e3,"arrival_ms":'),
    edited(b'"arrival_ms":1', b'"arrival_ms":01'),
    edited(b'"sub_sequence_number":0', b'"sub_sequence_number":-0'),
    edited(b'"sub_sequence_number":0', b'"sub_sequence_number":NaN'),
    edited(b'"sub_sequence_number":0', b'"sub_sequence_number":' + b"9" * 5000),
    edited(b'"x"', b"null"),
    edited(b'"x"', b'null,"data_base64":"eA=="'),
    edited(b'"x"', b'"x","data_base64":null'),
    edited(b'"x"', b'"x","data":"y"'),
    edited(b'"x"', b'"}\\n{"'),
    edited(b'"x"', b'"\xff"'),
    edited(b'"x"', b'"\xed\xa0\x80"'),
    edited(b'"x"', b'"\xf4\x90\x80\x80"'),
    edited(b'"x"', b'"\xc0\x80"'),
    edited(b'"x"', b'"\x00"'),
    edited(b'"x"', b'"\\u0000"'),
    edited(b'"x"', b'"\\ud800"'),
    edited(b'"x"', b'"\\udc00"'),
    edited(b'"x"', b'"\\ud83d\\ude00"'),
    edited(b'"x"', b'"\\ud800\\u0041"'),
    edited(b'"k"', b'"\\ud800"'),
    edited(b'"k"', b'"\\u006b"'),
    edited(b'"data"', b'"d\\u0061ta"'),
    edited(b":0", b" : 0 "),
]

records = st.builds(
    Record,
    sequence_number=st.one_of(st.integers(0, 3), st.integers(10**55, 10**55 + 3), st.integers(0, 10**129 - 1)).map(
        str
    ),
    sub_sequence_number=st.integers(0, 2),
    partition_key=keys,
    arrival_ms=st.integers((MINUTE - 1) * MINUTE_MS, (MINUTE + 2) * MINUTE_MS),
    data=payloads,
)
good_lines = st.builds(
    lambda shard, record: encode_lines(shard, [record])[:-1], st.sampled_from([SHARD, "s"]), records
)
any_lines = st.one_of(good_lines, good_lines, st.sampled_from(NASTY), damaged(good_lines))
bodies = st.builds(
    lambda lines, end: b"\n".join(lines) + end,
    st.lists(any_lines, max_size=12),
    st.sampled_from([b"\n", b"\n", b"\n", b"", b"\n\n", b"\r\n"]),
)
blocks = st.sampled_from([1, 200, 1 << 20])


@search(400)
@given(body=bodies, block_bytes=blocks)
@example(body=LINE * 2 + b"\n" + LINE[:-1] + b"\n}\n", block_bytes=1 << 20)
@example(body=LINE * 2 + b"\n \n", block_bytes=1 << 20)
@example(body=b" \n" + LINE * 2 + b"\n", block_bytes=1 << 20)
@example(body=b"\n" + LINE * 2 + b"\n" + LINE + b"\n", block_bytes=2 + len(LINE) * 3)
def test_blocks_of_any_lines_read_as_the_lines_do(body: bytes, block_bytes: int) -> None:
    """Good, unusual and damaged lines together: the same rows, the same facts, or the same problem."""
    check(body, block_bytes)


@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
@pytest.mark.parametrize("line", NASTY)
def test_a_nasty_line_among_good_ones_reads_as_it_does_alone(line: bytes, block_bytes: int) -> None:
    """Its neighbours are plain: nothing else sends the block to the slow way."""
    good = msgspec.json.encode(GOOD)
    check(b"\n".join([good, line, good, b""]), block_bytes)


@search(200)
@given(run=runs(), data=st.data(), block_bytes=blocks)
def test_damaged_text_reads_as_its_lines_do(run: list[Record], data: st.DataObject, block_bytes: int) -> None:
    """Bytes flipped, cut, repeated and exchanged anywhere, line breaks included."""
    check(data.draw(damaged(st.just(encode_lines(SHARD, run)), edits=3)), block_bytes)
