"""Lines read in C give the rows that Python gives; what is not written as we write it is left to Python."""

import itertools

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction.parquet.line_tables import Block, table_of_block, table_of_columns
from minutebook.codec.columns import MOST_BLOCK_BYTES, BlockColumns, ColumnReader, new_column_reader
from minutebook.format.record import Record, encode_lines

SHARD = "shardId-000000000000"
LINE = {
    "shard_id": SHARD,
    "sequence_number": "5",
    "sub_sequence_number": 0,
    "partition_key": "k",
    "arrival_ms": 1_795_256_161_000,
    "data": "x",
}


@pytest.fixture(scope="module")
def reader() -> ColumnReader:
    """Return what reads the lines of one shard."""
    made = new_column_reader(SHARD)
    if made is None:
        pytest.skip("built without the native codec: no C compiler, or MINUTEBOOK_NATIVE=0")
    return made


def read(reader: ColumnReader, lines: bytes) -> BlockColumns | None:
    """Read lines from the front of a longer buffer."""
    return reader.read(bytearray(lines + b"what the block before left"), len(lines))


def changed(**fields: object) -> bytes:
    """Return a line with other fields, in the order in which they are written; None leaves one out."""
    return (
        msgspec.json.encode({name: value for name, value in {**LINE, **fields}.items() if value is not None}) + b"\n"
    )


records = st.builds(
    Record,
    sequence_number=st.integers(1, 10**56 - 1).map(str),
    sub_sequence_number=st.integers(0, 10**18 - 1),
    partition_key=st.text(max_size=20),
    arrival_ms=st.integers(0, 2**63 // 1000 - 1),
    data=st.one_of(
        st.binary(max_size=60), st.text(max_size=60).map(lambda value: value.encode("utf-8", "surrogatepass"))
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(records, min_size=1, max_size=8))
@example([Record("1", 0, "é\0日", 0, bytes(range(256))), Record("1", 1, "\U0001f9ff", 5, bytes(range(128)) * 3)])
def test_what_we_write_is_read_as_python_reads_it(reader: ColumnReader, written: list[Record]) -> None:
    """Rows, and what is said of them: none of it is left to Python."""
    lines = encode_lines(SHARD, written)
    columns = read(reader, lines)
    assert columns is not None
    table = table_of_columns(columns, SHARD)
    table.validate(full=True)
    assert table.to_pylist() == table_of_block(Block(bytearray(lines), len(lines)), 0).to_pylist()
    arrivals, positions = [one.arrival_ms for one in written], [one.position for one in written]
    assert (columns.arrival_min_ms, columns.arrival_max_ms) == (min(arrivals), max(arrivals))
    assert columns.payload_bytes == sum(len(one.data) for one in written)
    assert columns.ascends == all(one < two for one, two in itertools.pairwise(positions))


@pytest.mark.parametrize(
    "lines",
    [
        changed()[:-1],
        changed()[:-2],
        changed() + b"\n",
        b"\n" + changed(),
        changed(shard_id="shardId-000000000001"),
        changed() + changed(shard_id="shardId-000000000001"),
        changed(sequence_number="0"),
        changed(sequence_number="05"),
        changed(sequence_number=""),
        changed(sequence_number="1" * 57),
        changed(sequence_number=5),
        changed(sub_sequence_number=-1),
        changed(sub_sequence_number=10**18),
        changed(arrival_ms=-1),
        changed(arrival_ms=2**63 // 1000 + 1),
        changed(arrival_ms=1.0),
        changed(arrival_ms=None),
        changed(data=None),
        changed(data=5),
        changed(data_base64="eA=="),
        changed(data=None, data_base64="eA="),
        changed(data=None, data_base64="eB=="),
        changed(extra=1),
        changed().replace(b'"x"', b'"\\u0041"'),
        changed().replace(b'"x"', b'"\\u001F"'),
        changed().replace(b'"x"', b'"\\/"'),
        changed().replace(b'"x"', b'"\\"'),
        changed().replace(b'"x"', b'"\x1f"'),
        changed().replace(b'"x"', b'"\xff"'),
        changed().replace(b'"x"', b'"\xed\xa0\x80"'),
        changed().replace(b'"k"', b'"\xc3"'),
        changed().replace(b",", b", "),
        changed().replace(b"\n", b"\r\n"),
    ],
)
def test_what_we_do_not_write_is_left_to_python(reader: ColumnReader, lines: bytes) -> None:
    """Be it wrong or merely unusual: Python says which."""
    assert read(reader, lines) is None


@settings(max_examples=500, deadline=None)
@given(
    st.lists(records, min_size=1, max_size=3),
    st.integers(0, 10_000),
    st.integers(0, 5),
    st.sampled_from([b"", b"\\", b'"', b"\xff", b"0", b"=", b",", b"}", b"\xc3", b" ", b"\n", b"u", b"\\u00"]),
)
def test_what_is_taken_of_damaged_lines_is_what_python_takes(
    reader: ColumnReader, written: list[Record], at: int, cut: int, put: bytes
) -> None:
    """Where Python refuses a line, so does C."""
    lines = encode_lines(SHARD, written)
    at %= len(lines)
    damaged = lines[:at] + put + lines[at + cut :]
    columns = read(reader, damaged)
    if columns is not None:
        whole = table_of_block(Block(bytearray(damaged), len(damaged)), 0)
        assert table_of_columns(columns, SHARD).to_pylist() == whole.to_pylist()


def test_payloads_in_base64_that_are_text_are_text(reader: ColumnReader) -> None:
    """However they were written; beside bytes, and where no bytes are."""
    lines = changed(data=None, data_base64="eHk=") + changed(sequence_number="6", data=None, data_base64="/w==")
    for block, expected in ((lines, [("xy", None), (None, b"\xff")]), (lines.splitlines(True)[0], [("xy", None)])):
        columns = read(reader, block)
        assert columns is not None
        rows = table_of_columns(columns, SHARD).to_pylist()
        assert [(row["data"], row["data_bytes"]) for row in rows] == expected


def test_only_blocks_that_have_room_are_taken(reader: ColumnReader) -> None:
    """The longest one is; nothing is read behind the size that is named, or where a size is none."""
    line = changed(data="x" * (MOST_BLOCK_BYTES - len(changed(data=""))))
    assert len(line) == MOST_BLOCK_BYTES
    assert read(reader, line) is not None
    assert read(reader, line.replace(b"xx", b"xxx", 1)) is None
    assert reader.read(bytearray(changed()), 0) is None
    assert reader.read(bytearray(changed()), len(changed()) + 1) is None
    assert reader.read(bytearray(changed()), len(changed()) - 1) is None


def test_the_shortest_lines_have_room(reader: ColumnReader) -> None:
    """As many as a block holds."""
    short = new_column_reader("s")
    assert short is not None
    line = changed(shard_id="s", partition_key="", arrival_ms=0, data="")
    block = line * (MOST_BLOCK_BYTES // len(line))
    columns = short.read(bytearray(block), len(block))
    assert columns is not None
    assert (columns.rows, columns.ascends) == (len(block) // len(line), False)
    assert reader.read(bytearray(block), len(block)) is None


def test_the_buffer_may_grow_behind_a_reading(reader: ColumnReader) -> None:
    """It is lent: a view of it would prevent that (BufferError)."""
    block = bytearray(changed())
    assert reader.read(block, len(block)) is not None
    assert reader.read(block, len(block) - 1) is None
    block.extend(bytes(1 << 20))
