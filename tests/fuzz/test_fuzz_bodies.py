"""Segments' bodies and lines: damage is named, never read as something else, never a crash."""

import gzip

from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from minutebook.compression import Compression
from minutebook.errors import FormatError
from minutebook.format.record import Record, decode_dropped_line, decode_line, encode_dropped_line, encode_lines
from minutebook.format.segment import SegmentWriter, inflate, read_dropped, read_records
from tests.fakes.shard import SHARD
from tests.fuzz.hostile import damaged, search
from tests.fuzz.valid import MINUTE, runs

COMPRESSIONS = st.sampled_from(Compression)


def body_of(run: list[Record], compression: Compression = Compression.GZIP) -> bytes:
    """Return the body that the writer makes."""
    writer = SegmentWriter(SHARD, MINUTE, compression)
    writer.extend(run)
    return writer.body()


def read(body: bytes, compression: Compression = Compression.GZIP) -> list[Record] | None:
    """Return the records of a body, None when it is refused by name."""
    try:
        return [record for _, record in read_records(body, SHARD, compression)]
    except FormatError:
        return None


@search(250)
@given(run=runs(), compression=COMPRESSIONS, data=st.data())
def test_a_damaged_body_is_refused_or_reads_as_it_was_written(
    run: list[Record], compression: Compression, data: st.DataObject
) -> None:
    """A checksum covers every line: what is read to the end is what was written."""
    body = data.draw(damaged(st.just(body_of(run, compression))))
    assert read(body, compression) in (None, run)


@search(100)
@given(run=runs(), compression=COMPRESSIONS, data=st.data())
def test_a_body_that_is_cut_short_is_refused(
    run: list[Record], compression: Compression, data: st.DataObject
) -> None:
    """At every byte, also behind a whole line."""
    body = body_of(run, compression)
    assert read(body[: data.draw(st.integers(0, len(body) - 1))], compression) is None


@search(250)
@given(run=runs(), data=st.data())
def test_a_body_of_damaged_lines_is_refused_or_holds_records(run: list[Record], data: st.DataObject) -> None:
    """A sound gzip stream of whatever: every record that comes out can be written and read again."""
    body = gzip.compress(data.draw(damaged(st.just(encode_lines(SHARD, run)))), 1)
    found = read(body)
    assert found is None or read(body_of(found) if found else gzip.compress(b"")) == found


@search(400)
@given(run=runs(most=1), data=st.data())
def test_a_damaged_line_is_refused_or_is_a_line(run: list[Record], data: st.DataObject) -> None:
    """What is read is what would be written."""
    line = data.draw(damaged(st.just(encode_lines(SHARD, run).rstrip(b"\n")))).replace(b"\n", b"")
    try:
        shard_id, record = decode_line(line)
    except FormatError:
        return
    assert decode_line(encode_lines(shard_id, [record]).rstrip(b"\n")) == (shard_id, record)


@search(200)
@given(run=runs(most=1), data=st.data())
def test_a_damaged_line_of_duplicates_is_refused_or_is_a_line(run: list[Record], data: st.DataObject) -> None:
    """The same for what was left out."""
    line = encode_dropped_line(SHARD, run[0], "shardId-000000000001@7:0").rstrip(b"\n")
    line = data.draw(damaged(st.just(line))).replace(b"\n", b"")
    try:
        shard_id, record, of = decode_dropped_line(line)
    except FormatError:
        return
    assert decode_dropped_line(encode_dropped_line(shard_id, record, of).rstrip(b"\n")) == (shard_id, record, of)


@search(300)
@given(body=st.binary(max_size=300), compression=COMPRESSIONS)
def test_any_bytes_are_refused(body: bytes, compression: Compression) -> None:
    """No body comes by chance, not even behind the right beginning."""
    begun = body if compression is Compression.GZIP else b"\x28\xb5\x2f\xfd" + body
    for reader in (read_records, read_dropped):
        for found in (body, begun):
            try:
                assert not list(reader(found, SHARD, compression))
            except FormatError:
                continue
            assert unpacked(found, compression) == b""


@search(60)
@given(
    unit=st.sampled_from([b"\n", b"a\n", b"ab" * 500 + b"\n"]),
    size=st.integers(1, 1_200_000),
    level=st.integers(1, 9),
    cut=st.sampled_from([1 << 30, 65_536, 1000, 97]),
    compression=COMPRESSIONS,
)
def test_however_well_a_body_is_compressed_and_cut_nothing_is_left_behind(
    unit: bytes, size: int, level: int, cut: int, compression: Compression
) -> None:
    """A block that is full when the input ends is no end."""
    raw = unit * (size // len(unit) + 1)
    body = packed(raw, level, compression)
    chunks = [body[start : start + cut] for start in range(0, len(body), cut)]
    assert sum(len(line) + 1 for line in inflate(chunks, compression)) == len(raw)


def packed(content: bytes, level: int, compression: Compression) -> bytes:
    """Compress as another tool does."""
    if compression is Compression.GZIP:
        return gzip.compress(content, level)
    option = zstd.CompressionParameter
    return zstd.compress(content, options={option.compression_level: level, option.checksum_flag: 1})


def unpacked(body: bytes, compression: Compression) -> bytes:
    """Decompress as another tool does."""
    return gzip.decompress(body) if compression is Compression.GZIP else zstd.decompress(body)
