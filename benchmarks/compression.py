"""Compressing segments: what gzip and zstd cost and save on real records, as lines with the archive's envelope.

Measured are the flights of the demo, and files that are named: NAME=FILE, whose lines are the records, or the values
of its JSON array or object. Each is cut into segments of so many records: those of a busy minute, and of a quiet one.
The archive's own two (gzip by ISA-L and zstd with a window of 128 KiB, both at level 1) run through its own code, the
others beside it as their libraries do it, fed in the same blocks. CPU seconds are for a gigabyte of lines, the best
of the rounds.
"""

import argparse
import json
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from backports import zstd

from demo.flights import read_flights
from minutebook.compression import Compression, decompress, new_compressor
from minutebook.format.record import Record, encode_lines

SHARD = "shardId-000000000000"
FIRST = 49680430009993180326445188721472315949130085524050018306
START_MS = 1_795_256_160_000
FEED_BYTES = 128 * 1024
READ_BYTES = 256 * 1024
LEVEL = zstd.CompressionParameter.compression_level
CHECKSUM = zstd.CompressionParameter.checksum_flag


class Codec(NamedTuple):
    """One way to compress; `unpack` returns how long the content is."""

    name: str
    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes], int]


class Measured(NamedTuple):
    """One codec on one set of segments; CPU seconds for a gigabyte of lines."""

    data: str
    records: int
    line_bytes: int
    codec: str
    body_bytes: int
    write_seconds: float
    read_seconds: float


def main(arguments: list[str]) -> int:
    """Measure, print a Markdown table, and write JSON where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compression", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="NAME=FILE", help="further records")
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 100], help="in one segment")
    parser.add_argument("--most", type=int, default=20_000, help="records of a data set that are taken")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    sets = {"flights": [event.data for event in islice(read_flights(), options.most)]}
    sets |= {name: list(islice(_items(Path(file)), options.most)) for name, _, file in map(_named, options.files)}
    found = [
        measured
        for data, payloads in sets.items()
        for count in options.records
        for measured in _measure(data, _segments(payloads, count), options.rounds)
    ]
    _print(found)
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in found], indent=1) + "\n")
    return 0


def _named(argument: str) -> tuple[str, str, str]:
    return argument.partition("=")


def _items(path: Path) -> Iterator[bytes]:
    """Yield a file's records: the values of a JSON array or object, else its lines."""
    text = path.read_text(errors="replace")
    try:
        found = json.loads(text)
    except ValueError:
        yield from (line.encode() for line in text.splitlines() if line)
        return
    for value in found.values() if isinstance(found, dict) else found:
        yield json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _segments(payloads: Sequence[bytes], count: int) -> list[list[Record]]:
    """Give each payload an envelope as Kinesis would: numbers that grow unevenly, times that run on."""
    rng = random.Random(1)  # noqa: S311 - no secret
    sequence, arrival_ms, records = FIRST, START_MS, []
    for payload in payloads:
        sequence += rng.randrange(1, 10**12)
        arrival_ms += rng.randrange(3)
        records.append(Record(str(sequence), 0, f"key-{rng.randrange(1000)}", arrival_ms, payload))
    return [records[at : at + count] for at in range(0, len(records), count)]


def _measure(data: str, segments: Sequence[Sequence[Record]], rounds: int) -> Iterator[Measured]:
    lines = [encode_lines(SHARD, records) for records in segments]
    total = sum(map(len, lines))
    for codec in _codecs():
        write, read = [], []
        bodies: list[bytes] = []
        for _ in range(rounds):
            begun = time.process_time()
            bodies = [codec.pack(text) for text in lines]
            write.append(time.process_time() - begun)
            begun = time.process_time()
            sizes = [codec.unpack(body) for body in bodies]
            read.append(time.process_time() - begun)
            if sizes != list(map(len, lines)):
                raise ValueError(f"{codec.name} does not give back what it was given")
        size, gigabytes = sum(map(len, bodies)), total / 1e9
        yield Measured(data, len(segments[0]), total, codec.name, size, min(write) / gigabytes, min(read) / gigabytes)


def _codecs() -> list[Codec]:
    return [
        *(Codec(f"{one} (ours)", _ours(one), _reader(one)) for one in Compression),
        Codec("zlib 6", _zlib6, _unzlib),
        *(Codec(f"zstd {level}", _zstd(level), _unzstd) for level in (-1, 1, 3, 6)),
    ]


def _ours(compression: Compression) -> Callable[[bytes], bytes]:
    def pack(lines: bytes) -> bytes:
        packer = new_compressor(compression)
        *blocks, last = _blocks(lines)
        return b"".join([*map(packer.compress, blocks), packer.finish(last)])

    return pack


def _reader(compression: Compression) -> Callable[[bytes], int]:
    return lambda body: sum(map(len, decompress(compression, [body], READ_BYTES)))


def _blocks(lines: bytes) -> Iterator[memoryview]:
    view = memoryview(lines)
    return (view[at : at + FEED_BYTES] for at in range(0, len(lines), FEED_BYTES))


def _zlib6(lines: bytes) -> bytes:
    packer = zlib.compressobj(6, wbits=31)
    return b"".join([*map(packer.compress, _blocks(lines)), packer.flush()])


def _unzlib(body: bytes) -> int:
    reader, size, rest = zlib.decompressobj(wbits=31), 0, body
    while rest:
        size += len(reader.decompress(rest, READ_BYTES))
        rest = reader.unconsumed_tail
    return size


def _zstd(level: int) -> Callable[[bytes], bytes]:
    options: dict[int, int] = {LEVEL: level, CHECKSUM: 1}

    def pack(lines: bytes) -> bytes:
        packer = zstd.ZstdCompressor(options=options)
        if len(lines) <= FEED_BYTES:
            return packer.compress(lines, packer.FLUSH_FRAME)
        return b"".join([*map(packer.compress, _blocks(lines)), packer.flush()])

    return pack


def _unzstd(body: bytes) -> int:
    reader = zstd.ZstdDecompressor()
    size = len(reader.decompress(body, READ_BYTES))
    while not reader.eof:
        size += len(reader.decompress(b"", READ_BYTES))
    return size


def _print(found: Sequence[Measured]) -> None:
    header = [
        "data",
        "records a segment",
        "codec",
        "bytes of gzip's",
        "ratio",
        "write, CPU s a GB",
        "read, CPU s a GB",
    ]
    rows = [header, ["---", "---:", "---", "---:", "---:", "---:", "---:"]]
    gzip = {(row.data, row.records): row.body_bytes for row in found if row.codec.startswith("gzip")}
    for row in found:
        share = row.body_bytes / gzip[row.data, row.records]
        ratio = row.line_bytes / row.body_bytes
        cells = [f"{share:.0%}", f"{ratio:.1f}", f"{row.write_seconds:.2f}", f"{row.read_seconds:.2f}"]
        rows.append([row.data, str(row.records), row.codec, *cells])
    sys.stdout.write("".join(f"| {' | '.join(cells)} |\n" for cells in rows))
