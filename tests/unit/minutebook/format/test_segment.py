"""The segment writer and the reader of its body."""

import gzip
import json
import random
import shutil
import subprocess
import tracemalloc

import pytest
from backports import zstd

from minutebook.compression import Compression
from minutebook.errors import FormatError
from minutebook.format.position import Position
from minutebook.format.record import Record, encode_lines
from minutebook.format.segment import SegmentWriter, inflate, read_records

SHARD = "shardId-000000000000"
START_MS = 1_795_256_160_000
MINUTE = START_MS // 60_000


def records(count: int, seed: int = 1) -> list[Record]:
    """Return records of many sizes, compressible and not."""
    rng = random.Random(seed)
    return [
        Record(str(n + 1), 0, f"p{n % 7}", START_MS + n, rng.randbytes(rng.randrange(900)) * rng.choice([0, 1, 3]))
        for n in range(count)
    ]


@pytest.fixture(params=list(Compression))
def compression(request: pytest.FixtureRequest) -> Compression:
    """Return either compression: what holds for one holds for the other."""
    return Compression(request.param)


def written(batch: list[Record], compression: Compression = Compression.GZIP) -> SegmentWriter:
    """Return a writer that took the batch."""
    writer = SegmentWriter(SHARD, MINUTE, compression)
    writer.extend(batch)
    return writer


def packed(content: bytes, compression: Compression) -> bytes:
    """Compress as another tool does."""
    if compression is Compression.GZIP:
        return gzip.compress(content, 1, mtime=0)
    return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1})


def unpacked(body: bytes, compression: Compression) -> bytes:
    """Decompress as another tool does."""
    return gzip.decompress(body) if compression is Compression.GZIP else zstd.decompress(body)


def pieces(body: bytes, size: int) -> list[bytes]:
    """Cut a body as a network does."""
    return [body[n : n + size] for n in range(0, len(body), size)]


def test_what_was_written_is_read_back(compression: Compression) -> None:
    """Thousands of records, in order, with positions."""
    batch = records(3000)
    body = written(batch, compression).body()
    assert list(read_records(body, SHARD, compression)) == [(record.position, record) for record in batch]


@pytest.mark.parametrize("seed", range(8))
def test_the_same_records_give_the_same_bytes(seed: int, compression: Compression) -> None:
    """Two writers that hold the same records make the same object, in whatever batches they got them."""
    batch, rng = records(4000), random.Random(seed)
    writer, start = SegmentWriter(SHARD, MINUTE, compression), 0
    while start < len(batch):
        size = rng.choice([1, 2, 50, 1500])
        writer.extend(batch[start : start + size])
        start += size
    assert writer.body() == written(batch, compression).body()
    assert writer.metadata(after=Position(0), writer="w") == written(batch).metadata(after=Position(0), writer="w")


def test_the_gzip_header_holds_no_time() -> None:
    """Bytes 4 to 7, the modification time, are 0."""
    assert written(records(3)).body()[4:8] == bytes(4)


@pytest.mark.parametrize("count", [0, 1, 50, 3000])
def test_python_reads_the_body(count: int, compression: Compression) -> None:
    """Lines end in a line feed, the last one too; a segment whose records were all dropped has none."""
    batch = records(count)
    writer = SegmentWriter(SHARD, MINUTE, compression)
    if batch:
        writer.extend(batch)
    assert unpacked(writer.body(), compression) == encode_lines(SHARD, batch)


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 262_144, 262_145])
def test_a_body_may_end_with_a_block(size: int, compression: Compression) -> None:
    """The compressor is fed in blocks of 128 KiB: one line fewer, as many, and one more."""
    line = len(encode_lines(SHARD, [Record("1", 0, "p", START_MS, b"")]))
    batch = [Record("1", 0, "p", START_MS, b"x" * (size - line))]
    assert len(unpacked(written(batch, compression).body(), compression)) == size


@pytest.mark.skipif(shutil.which("zcat") is None, reason="no zcat on this machine")
def test_zcat_reads_the_body() -> None:
    """Other tools need nothing of ours."""
    body = written(records(50)).body()
    done = subprocess.run(["zcat"], input=body, capture_output=True, check=True, timeout=30)
    assert done.stdout == gzip.decompress(body)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd on this machine")
@pytest.mark.parametrize("count", [50, 3000])
def test_zstd_reads_the_body(count: int) -> None:
    """Nor do they for the other compression; the tool checks the checksum."""
    body = written(records(count), Compression.ZSTD).body()
    done = subprocess.run(["zstd", "-dc"], input=body, capture_output=True, check=True, timeout=30)
    assert done.stdout == zstd.decompress(body)


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq on this machine")
def test_jq_reads_the_lines() -> None:
    """Each line is one JSON object; sequence numbers are text, which no float can round."""
    lines = gzip.decompress(written(records(5)).body())
    done = subprocess.run(["jq", "-r", ".sequence_number"], input=lines, capture_output=True, check=True, timeout=30)
    assert done.stdout.split() == [b"1", b"2", b"3", b"4", b"5"]


def test_every_line_is_json_for_python_too() -> None:
    """The standard library reads each line."""
    assert [json.loads(line)["sequence_number"] for line in inflate([written(records(3)).body()])] == ["1", "2", "3"]


def test_the_metadata_counts_what_was_taken() -> None:
    """Ends of the span, lines, payload bytes and arrival times, which may step back."""
    writer = SegmentWriter(SHARD, MINUTE)
    for sequence, arrival_ms, data in [(5, 200, b"ab"), (6, 100, b""), (9, 300, b"c")]:
        writer.extend([Record(str(sequence), 0, "p", START_MS + arrival_ms, data)])
    found = writer.metadata(after=Position(4), writer="w")
    assert (found.first, found.last, found.records, found.payload_bytes) == (Position(5), Position(9), 3, 3)
    assert (found.arrival_min_ms, found.arrival_max_ms) == (START_MS + 100, START_MS + 300)


def test_an_empty_segment_has_no_metadata() -> None:
    """There is no slot without a first record."""
    with pytest.raises(FormatError):
        SegmentWriter(SHARD, MINUTE).metadata(after=Position(1), writer="w")


def test_the_body_may_be_asked_for_twice(compression: Compression) -> None:
    """A retry sends the same bytes."""
    writer = written(records(10), compression)
    assert writer.body() == writer.body()


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 30])
@pytest.mark.parametrize("line_bytes", [0, 1, 262_143, 262_144, 262_145, 1_000_000])
def test_lines_do_not_depend_on_how_the_body_arrives(size: int, line_bytes: int, compression: Compression) -> None:
    """Lines shorter and longer than a block, in pieces of any size."""
    lines = [b"x" * line_bytes, b"", b"y"]
    body = packed(b"".join(line + b"\n" for line in lines), compression)
    assert list(inflate(pieces(body, size), compression)) == lines


@pytest.mark.parametrize("size", [1, 5, 1 << 30])
def test_bodies_in_a_row_are_one_body(size: int, compression: Compression) -> None:
    """Bodies joined with cat are read, a line across the joint included."""
    body = packed(b"a\nb", compression) + packed(b"", compression) + packed(b"c\n", compression)
    assert list(inflate(pieces(body, size), compression)) == [b"a", b"bc"]


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 9, 10, 100, -9, -8, -4, -1])
@pytest.mark.parametrize("before", [0, 1])
def test_a_truncated_body_is_an_error(cut: int, before: int, compression: Compression) -> None:
    """In the header, in the data, in the trailer, of the second of two: nothing short is taken for whole."""
    body = written(records(100), compression).body()
    if before and not cut:
        return
    with pytest.raises(FormatError):
        list(inflate([body * before + body[:cut]], compression))


@pytest.mark.parametrize("count", [4, 400])
def test_any_damaged_byte_is_an_error(count: int, compression: Compression) -> None:
    """By the format or by the checksum; but for the few of the header that say nothing of the content."""
    batch = records(count)
    body = written(batch, compression).body()
    missed = 0
    for at in range(0, len(body), 1 + len(body) // 700):
        damaged = bytearray(body)
        damaged[at] ^= 0x10
        try:
            assert b"\n".join(inflate([bytes(damaged)], compression)) + b"\n" == encode_lines(SHARD, batch)
            missed += 1
        except FormatError:
            continue
    assert missed <= (6 if compression is Compression.GZIP else 2)


@pytest.mark.parametrize("garbage", [b"x", b"\0\0", b"garbage that is longer than any gzip header", b"\x1f\x8b"])
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_garbage_behind_the_body_is_an_error(garbage: bytes, size: int, compression: Compression) -> None:
    """What follows a gzip member or a zstd frame is another one or damage."""
    with pytest.raises(FormatError):
        list(inflate(pieces(written(records(4), compression).body() + garbage, size), compression))


def test_a_body_of_the_other_compression_is_an_error(compression: Compression) -> None:
    """Alone or behind one of the right compression: the name says what other tools will take it for."""
    (other,) = set(Compression) - {compression}
    body = written(records(4), other).body()
    for found in (body, written(records(4), compression).body() + body):
        with pytest.raises(FormatError, match="damaged"):
            list(inflate([found], compression))


def test_a_last_line_without_a_line_break_is_an_error(compression: Compression) -> None:
    """A torn last line is never taken for a whole one."""
    with pytest.raises(FormatError):
        list(inflate([packed(b"a\nb", compression)], compression))


def test_a_line_without_end_is_stopped_at_the_limit(compression: Compression) -> None:
    """One line of 200 MB of zeros fits into no memory limit."""
    bomb = packed(bytes(200_000_000), compression)
    with pytest.raises(FormatError, match="longer than"):
        list(inflate([bomb], compression, max_line_bytes=1_000_000))


def test_memory_is_bounded_by_the_longest_line(compression: Compression) -> None:
    """A body of 64 MB of short lines is read within a few MB."""
    body = packed((b"0" * 1023 + b"\n") * 65_536, compression)
    tracemalloc.start()
    try:
        count = sum(1 for _ in inflate([body], compression))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 65_536
    assert peak < 4_000_000


def test_a_line_of_another_shard_is_an_error() -> None:
    """A body copied under another shard's key is found."""
    with pytest.raises(FormatError, match="belongs to shard"):
        list(read_records(written(records(2)).body(), "shardId-000000000001"))


@pytest.mark.parametrize("order", [(2, 1), (1, 1)])
def test_positions_that_do_not_ascend_are_an_error(order: tuple[int, int]) -> None:
    """A reader never passes a body on that holds a record twice or out of order."""
    batch = records(2)
    with pytest.raises(FormatError, match="does not lie after"):
        list(read_records(written([batch[n - 1] for n in order]).body(), SHARD))


def test_a_zstd_frame_without_a_checksum_is_an_error() -> None:
    """Nothing would show that a byte of it is another one."""
    with pytest.raises(FormatError, match="no checksum"):
        list(inflate([zstd.compress(b"a\n")], Compression.ZSTD))


def test_a_zstd_frame_that_asks_for_much_memory_is_an_error() -> None:
    """Eight MiB are what every reader has; a frame may ask for two GiB."""
    option = zstd.CompressionParameter
    maker = zstd.ZstdCompressor(options={option.checksum_flag: 1, option.window_log: 24})
    body = maker.compress(b"a\n" * 1_000_000) + maker.compress(b"b\n") + maker.flush()
    with pytest.raises(FormatError, match="damaged zstd"):
        list(inflate([body], Compression.ZSTD))


def test_a_zstd_frame_that_is_skipped_is_an_error() -> None:
    """A skippable frame holds no line, and nothing checks what it holds."""
    body = written(records(4), Compression.ZSTD).body()
    with pytest.raises(FormatError, match="no frame begins here"):
        list(inflate([body + b"\x50\x2a\x4d\x18\x01\0\0\0x"], Compression.ZSTD))
