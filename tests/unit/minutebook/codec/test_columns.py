"""Lines read in C give the rows that Python gives; what is not written as we write it is left to Python."""

import itertools

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction.columns.arrow_columns import constant_column, text_column
from compaction.parquet.line_tables import Block, table_of_block, table_of_columns
from minutebook.codec.columns import (
    MOST_BLOCK_BYTES,
    ColumnReader,
    LineBuffers,
    ReadRows,
    new_column_reader,
    own_buffers,
)
from minutebook.format.record import Record, encode_lines

SHARD = "shardId-000000000000"
SHARDS = (SHARD, "shardId-000000000001", "s")
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


def read(
    reader: ColumnReader, lines: bytes, buffers: LineBuffers | None = None, latest_ms: int = 0
) -> ReadRows | None:
    """Read lines from the front of a longer block."""
    block = bytearray(lines + b"what the block before left")
    return (buffers or own_buffers()).read(reader, block, len(lines), latest_ms)


def rows(reader: ColumnReader, lines: bytes) -> list[dict[str, object]] | None:
    """Read lines, and return their rows."""
    buffers = own_buffers()
    found = read(reader, lines, buffers)
    if found is None:
        return None
    table = table_of_columns(buffers.take(), constant_column(SHARD, found.rows))
    table.validate(full=True)
    return table.to_pylist()


def twin(lines: bytes) -> list[dict[str, object]]:
    """Return the rows that Python makes of lines."""
    return table_of_block(Block(bytearray(lines), len(lines)), 0).to_pylist()


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
several = st.lists(records, min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(st.lists(records, min_size=1, max_size=8))
@example([Record("1", 0, "é\0日", 0, bytes(range(256))), Record("1", 1, "\U0001f9ff", 5, bytes(range(128)) * 3)])
def test_what_we_write_is_read_as_python_reads_it(reader: ColumnReader, written: list[Record]) -> None:
    """Rows, and what is said of them: none of it is left to Python."""
    lines = encode_lines(SHARD, written)
    assert rows(reader, lines) == twin(lines)
    said = read(reader, lines)
    assert said is not None
    arrivals, positions = [one.arrival_ms for one in written], [one.position for one in written]
    assert (said.arrival_min_ms, said.arrival_max_ms) == (min(arrivals), max(arrivals))
    assert said.step_back_ms == max(max(arrivals[: at + 1]) - each for at, each in enumerate(arrivals))
    assert said.payload_bytes == sum(len(one.data) for one in written)
    assert said.ascends == all(one < two for one, two in itertools.pairwise(positions))
    assert (said.first, said.last, said.positions()) == (positions[0], positions[-1], positions)
    assert said.arrivals_ms() == arrivals


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SHARDS), several), min_size=1, max_size=6))
def test_blocks_gather_in_one_table(reader: ColumnReader, blocks: list[tuple[str, list[Record]]]) -> None:
    """Rows of several shards; each block is told of alone; what is refused leaves no trace."""
    del reader
    gathered, latest_ms = LineBuffers(), -1
    expected: list[dict[str, object]] = []
    shards: list[str] = []
    for shard, written in blocks:
        of_shard = new_column_reader(shard)
        assert of_shard is not None
        lines = encode_lines(shard, written)
        assert read(of_shard, lines + lines[:-2] + b"\n", gathered) is None
        said = read(of_shard, lines, gathered, latest_ms)
        arrivals, before = [one.arrival_ms for one in written], latest_ms
        latest_ms = max(before, *arrivals)
        assert said is not None
        assert said[:4] == (len(written), sum(len(one.data) for one in written), min(arrivals), max(arrivals))
        assert said.step_back_ms == max(max([before, *arrivals[: at + 1]]) - each for at, each in enumerate(arrivals))
        positions = [one.position for one in written]
        assert (said.first, said.last, said.positions()) == (positions[0], positions[-1], positions)
        assert (said.ascends, said.arrivals_ms()) == (positions == sorted({*positions}), arrivals)
        expected += twin(lines)
        shards += [shard] * len(written)
    table = table_of_columns(gathered.take(), text_column(shards))
    table.validate(full=True)
    assert table.to_pylist() == expected
    assert (gathered.bytes, gathered.take().rows) == (0, 0)


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
    found = rows(reader, damaged)
    if found is not None:
        assert found == twin(damaged)


def test_payloads_in_base64_that_are_text_are_text(reader: ColumnReader) -> None:
    """However they were written; beside bytes, and where no bytes are."""
    lines = changed(data=None, data_base64="eHk=") + changed(sequence_number="6", data=None, data_base64="/w==")
    for block, expected in ((lines, [("xy", None), (None, b"\xff")]), (lines.splitlines(True)[0], [("xy", None)])):
        found = rows(reader, block)
        assert found is not None
        assert [(row["data"], row["data_bytes"]) for row in found] == expected


def test_only_blocks_that_have_room_are_taken(reader: ColumnReader) -> None:
    """The longest one is; nothing is read behind the size that is named, or where a size is none."""
    line = changed(data="x" * (MOST_BLOCK_BYTES - len(changed(data=""))))
    assert len(line) == MOST_BLOCK_BYTES
    assert read(reader, line) is not None
    assert read(reader, line.replace(b"xx", b"xxx", 1)) is None
    for size in (0, len(changed()) - 1, len(changed()) + 1):
        assert own_buffers().read(reader, bytearray(changed()), size, 0) is None


def test_blocks_gather_while_there_is_room(reader: ColumnReader) -> None:
    """Whoever asks for no room is refused, and the rows before stay."""
    gathered = LineBuffers()
    long = changed(data="x" * (MOST_BLOCK_BYTES - 2 * len(changed(data=""))))
    assert read(reader, long, gathered) is not None
    assert (gathered.has_room(len(changed(data=""))), gathered.has_room(len(changed(data="")) + 1)) == (True, False)
    assert read(reader, changed(data="x"), gathered) is None
    assert read(reader, changed(data=""), gathered) is not None
    assert gathered.take().rows == 2


def test_the_shortest_lines_have_room(reader: ColumnReader) -> None:
    """As many as a block holds."""
    short = new_column_reader("s")
    assert short is not None
    line = changed(shard_id="s", partition_key="", arrival_ms=0, data="")
    block = line * (MOST_BLOCK_BYTES // len(line))
    said = read(short, block)
    assert said is not None
    assert (said.rows, said.ascends) == (len(block) // len(line), False)
    assert read(reader, block) is None


def test_the_buffer_may_grow_behind_a_reading(reader: ColumnReader) -> None:
    """It is lent: a view of it would prevent that (BufferError)."""
    block = bytearray(changed())
    assert own_buffers().read(reader, block, len(block), 0) is not None
    assert own_buffers().read(reader, block, len(block) - 1, 0) is None
    block.extend(bytes(1 << 20))
