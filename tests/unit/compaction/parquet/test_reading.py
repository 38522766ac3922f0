"""Reading a body with Arrow sees what the archive's own codec sees, however the lines are cut."""

import gzip
import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compaction.inventory.segments import SegmentFacts
from compaction.parquet.plan import RawObject
from compaction.parquet.reading import BLOCK_BYTES, SegmentReader
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record, encode_lines

MINUTE = 29_920_000
SHARD = "shardId-000000000000"
OBJECT = RawObject("key.gz", "etag", 1, SHARD, MINUTE, Position(1))

payloads = st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode))
records = st.lists(
    st.builds(
        Record,
        sequence_number=st.integers(0, 10**60).map(str),
        sub_sequence_number=st.integers(0, 5),
        partition_key=st.text(max_size=20),
        arrival_ms=st.integers(MINUTE * MINUTE_MS, (MINUTE + 1) * MINUTE_MS - 1),
        data=payloads,
    ),
    min_size=1,
    max_size=40,
)


def read(body: bytes, block_bytes: int = BLOCK_BYTES) -> tuple[list[dict[str, object]], SegmentFacts]:
    """Read a body in blocks of this size, with the native codec and without: both see the same."""
    (found, again) = (SegmentReader(OBJECT, block_bytes, native=native) for native in (True, False))
    rows = [row for table in found.tables([body]) for row in table.to_pylist()]
    assert rows == [row for table in again.tables([body]) for row in table.to_pylist()]
    assert found.facts({}) == again.facts({})
    return rows, found.facts({})


@settings(max_examples=60, deadline=None)
@given(records, st.sampled_from([64, 1000, 1 << 20]))
def test_every_record_comes_back(written: list[Record], block_bytes: int) -> None:
    """Fields, payload bytes, counts, ends and order, wherever blocks are cut."""
    rows, facts = read(gzip.compress(encode_lines(SHARD, written)), block_bytes)
    positions = [record.position for record in written]
    assert [(row["sequence_number"], row["partition_key"]) for row in rows] == [
        (record.sequence_number, record.partition_key) for record in written
    ]
    assert (facts.lines, facts.problem) == (len(written), "")
    assert facts.payload_bytes == sum(len(record.data) for record in written)
    assert (facts.first, facts.last, facts.low, facts.high) == (
        positions[0],
        positions[-1],
        min(positions),
        max(positions),
    )
    steps = list(itertools.pairwise(positions))
    assert facts.disorder.stepped_back == sum(after < before for before, after in steps)
    assert facts.disorder.repeated == sum(after == before for before, after in steps)


GOOD = {
    "shard_id": SHARD,
    "sequence_number": "5",
    "sub_sequence_number": 0,
    "partition_key": "k",
    "arrival_ms": MINUTE * MINUTE_MS,
    "data": "x",
}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b"{}",
        msgspec.json.encode({**GOOD, "extra": 1}),
        msgspec.json.encode({**GOOD, "sequence_number": 5}),
        msgspec.json.encode({**GOOD, "sequence_number": "05"}),
        msgspec.json.encode({**GOOD, "sequence_number": "x"}),
        msgspec.json.encode({**GOOD, "sub_sequence_number": -1}),
        msgspec.json.encode({**GOOD, "arrival_ms": None}),
        msgspec.json.encode({**GOOD, "data": None}),
        msgspec.json.encode({**GOOD, "data_base64": "eA=="}),
        msgspec.json.encode({name: value for name, value in GOOD.items() if name != "data"}),
        msgspec.json.encode({**{n: v for n, v in GOOD.items() if n != "data"}, "data_base64": "*"}),
        msgspec.json.encode(GOOD) * 2,
        msgspec.json.encode(GOOD)[:-3],
        b'{"data":"\xff"}',
    ],
)
def test_a_bad_line_is_named_by_its_number(line: bytes) -> None:
    """Whatever is not a line of ours ends the reading with the number of the line."""
    good = msgspec.json.encode(GOOD)
    _, facts = read(gzip.compress(good + b"\n" + line + b"\n"))
    assert facts.problem.startswith("line 2: ")


@pytest.mark.parametrize("end", [b"x", b"\n\n", b""])
def test_a_body_that_ends_wrongly_is_a_problem(end: bytes) -> None:
    """A last line without its break, an empty line, and bytes behind the gzip stream."""
    body = gzip.compress(msgspec.json.encode(GOOD) + end)
    _, facts = read(body if end else body + b"more")
    assert facts.problem


def test_an_empty_body_is_no_problem() -> None:
    """A segment whose records were all dropped holds no line."""
    rows, facts = read(gzip.compress(b""))
    assert (rows, facts.lines, facts.first, facts.problem) == ([], 0, None, "")
