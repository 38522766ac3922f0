"""The segment writer and the reader of its body."""

import gzip
import json
import random
import shutil
import subprocess
import tracemalloc

import pytest

from archive.errors import FormatError
from archive.format.position import Position
from archive.format.record import Record, encode_lines
from archive.format.segment import SegmentWriter, inflate, read_records

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


def written(batch: list[Record]) -> SegmentWriter:
    """Return a writer that took the batch."""
    writer = SegmentWriter(SHARD, MINUTE)
    writer.extend(batch)
    return writer


def pieces(body: bytes, size: int) -> list[bytes]:
    """Cut a body as a network does."""
    return [body[n : n + size] for n in range(0, len(body), size)]


def test_what_was_written_is_read_back() -> None:
    """Thousands of records, in order, with positions."""
    batch = records(3000)
    assert list(read_records(written(batch).body(), SHARD)) == [(record.position, record) for record in batch]


@pytest.mark.parametrize("seed", range(8))
def test_the_same_records_give_the_same_bytes(seed: int) -> None:
    """Two writers that hold the same records make the same object, in whatever batches they got them."""
    batch, rng = records(4000), random.Random(seed)
    writer, start = SegmentWriter(SHARD, MINUTE), 0
    while start < len(batch):
        size = rng.choice([1, 2, 50, 1500])
        writer.extend(batch[start : start + size])
        start += size
    assert writer.body() == written(batch).body()
    assert writer.metadata(after=Position(0), writer="w") == written(batch).metadata(after=Position(0), writer="w")


def test_the_gzip_header_holds_no_time() -> None:
    """Bytes 4 to 7, the modification time, are 0."""
    assert written(records(3)).body()[4:8] == bytes(4)


def test_python_gzip_reads_the_body() -> None:
    """Lines end in a line feed, the last one too."""
    batch = records(50)
    assert gzip.decompress(written(batch).body()) == encode_lines(SHARD, batch)


@pytest.mark.skipif(shutil.which("zcat") is None, reason="no zcat on this machine")
def test_zcat_reads_the_body() -> None:
    """Other tools need nothing of ours."""
    body = written(records(50)).body()
    done = subprocess.run(["zcat"], input=body, capture_output=True, check=True, timeout=30)
    assert done.stdout == gzip.decompress(body)


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


def test_the_body_may_be_asked_for_twice() -> None:
    """A retry sends the same bytes."""
    writer = written(records(10))
    assert writer.body() == writer.body()


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 30])
@pytest.mark.parametrize("line_bytes", [0, 1, 262_143, 262_144, 262_145, 1_000_000])
def test_lines_do_not_depend_on_how_the_body_arrives(size: int, line_bytes: int) -> None:
    """Lines shorter and longer than a block, in pieces of any size."""
    lines = [b"x" * line_bytes, b"", b"y"]
    body = gzip.compress(b"".join(line + b"\n" for line in lines), mtime=0)
    assert list(inflate(pieces(body, size))) == lines


def test_several_gzip_members_are_one_body() -> None:
    """Bodies joined with cat are read, a line across the joint included."""
    body = gzip.compress(b"a\nb") + gzip.compress(b"") + gzip.compress(b"c\n")
    assert list(inflate(pieces(body, 5))) == [b"a", b"bc"]


@pytest.mark.parametrize("cut", [0, 1, 9, 10, 100, -9, -8, -4, -1])
def test_a_truncated_body_is_an_error(cut: int) -> None:
    """In the header, in the data, in the trailer: nothing short is taken for whole."""
    with pytest.raises(FormatError):
        list(inflate([written(records(100)).body()[:cut]]))


def test_any_damaged_byte_is_an_error() -> None:
    """Behind the header every flipped bit is found, by the format or by the CRC."""
    body = written(records(4)).body()
    for at in range(10, len(body)):
        damaged = bytearray(body)
        damaged[at] ^= 0x10
        with pytest.raises(FormatError):
            list(inflate([bytes(damaged)]))


@pytest.mark.parametrize("garbage", [b"x", b"\0\0", b"garbage that is longer than any gzip header", b"\x1f\x8b"])
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_garbage_behind_the_body_is_an_error(garbage: bytes, size: int) -> None:
    """What follows a member is another member or damage."""
    with pytest.raises(FormatError):
        list(inflate(pieces(written(records(4)).body() + garbage, size)))


def test_a_last_line_without_a_line_break_is_an_error() -> None:
    """A torn last line is never taken for a whole one."""
    with pytest.raises(FormatError):
        list(inflate([gzip.compress(b"a\nb")]))


def test_a_line_without_end_is_stopped_at_the_limit() -> None:
    """One line of 200 MB of zeros fits into no memory limit."""
    bomb = gzip.compress(bytes(200_000_000), 1)
    with pytest.raises(FormatError, match="longer than"):
        list(inflate([bomb], max_line_bytes=1_000_000))


def test_memory_is_bounded_by_the_longest_line() -> None:
    """A body of 64 MB of short lines is read within a few MB."""
    body = gzip.compress((b"0" * 1023 + b"\n") * 65_536, 1)
    tracemalloc.start()
    try:
        count = sum(1 for _ in inflate([body]))
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
