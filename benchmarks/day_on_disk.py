"""A day of any size as files: segments of shards and minutes, each with a chain, numbers and times of its own.

The lines are copies of 20,000 that are made once, as a matrix of bytes into which the numbers are written: a segment
takes little more than its compression. Payloads come again after 20,000 lines, at another place in each segment.
"""

import base64
import itertools
import json
import random
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.archives import APPLICATION, DAY, FIRST, PAYLOAD_BYTES, PREFIX
from consumer.stream.port import StreamIdentity
from minutebook.compression import Compression, new_compressor
from minutebook.coverage.evidence import segment_link
from minutebook.format.day import MINUTES_A_DAY
from minutebook.format.keys import segment_key
from minutebook.format.metadata import ChainStart, Continuity, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.format.record import Record, encode_lines
from minutebook.store.objects import ObjectStore
from tests.fakes.archive_scene import ArchiveScene

_POOL: Final = 20_000
_WORDS: Final = 1_000
_LOW_DIGITS: Final = 18
_STEP: Final = 1_000_000
_SEQUENCE: Final = "1".ljust(56, "0")
_ARRIVAL_MS: Final = 1_999_999_999_999
BUCKET: Final = "bench"


class Shape(NamedTuple):
    """How large the day is."""

    shards: int
    records: int


class Template:
    """Lines of one width, as a matrix of their bytes, and where in them the numbers stand."""

    def __init__(self) -> None:
        rng = random.Random(1)  # noqa: S311 - the same day every time
        words = [base64.b64encode(rng.randbytes(9)).decode() for _ in range(_WORDS)]
        payloads = [
            f'{{"id":{number + 100_000_000},"text":"{" ".join(rng.choices(words, k=PAYLOAD_BYTES // 13))}"}}'.encode()
            for number in range(_POOL)
        ]
        shard = "shardId-000000000000"
        lines = encode_lines(
            shard, [Record(_SEQUENCE, 0, f"key-{n % 90 + 10}", _ARRIVAL_MS, data) for n, data in enumerate(payloads)]
        )
        self.lines: NDArray[np.uint8] = np.frombuffer(lines, np.uint8).reshape(_POOL, -1)
        self.payload_bytes = len(payloads[0])
        first = self.lines[0].tobytes()
        self.shard = first.index(shard.encode())
        self.sequence = first.index(_SEQUENCE.encode())
        self.arrival = first.index(str(_ARRIVAL_MS).encode())

    @property
    def width(self) -> int:
        """Bytes of a line."""
        return int(self.lines.shape[1])


@cache
def template() -> Template:
    """Return the template; made once in each process."""
    return Template()


def lines_of(number: int, minute: int, shape: Shape) -> bytes:
    """Return the lines of a shard's minute."""
    made, records = template(), shape.records
    lines = made.lines[(np.arange(records) + (number * 7919 + minute * 104_729)) % _POOL]
    base = FIRST + number * 10**40
    places = base % 10**_LOW_DIGITS + place(np.arange(1, records + 1) + (minute - DAY.first_minute) * records)
    _write(lines, made.shard, _shard_id(number))
    _write(lines, made.sequence, str(base)[:-_LOW_DIGITS])
    _write_numbers(lines, made.sequence + len(_SEQUENCE) - _LOW_DIGITS, _LOW_DIGITS, places)
    _write_numbers(lines, made.arrival, len(str(_ARRIVAL_MS)), _arrival_ms(minute, np.arange(records), shape))
    return lines.tobytes()


def metadata_of(number: int, minute: int, shape: Shape) -> SegmentMetadata:
    """Return what the segment of a shard's minute says about itself."""
    is_first = minute == DAY.first_minute
    begin = (minute - DAY.first_minute) * shape.records
    return SegmentMetadata(
        shard_id=_shard_id(number),
        minute=minute,
        first=position(number, begin + 1),
        last=position(number, begin + shape.records),
        after=ChainStart("TRIM_HORIZON") if is_first else position(number, begin),
        records=shape.records,
        dropped=0,
        payload_bytes=shape.records * template().payload_bytes,
        arrival_min_ms=_arrival_ms(minute, 0, shape),
        arrival_max_ms=_arrival_ms(minute, shape.records - 1, shape),
        writer=f"run{number:08d}-{minute:08x}",
        continuity=Continuity.PROVEN if is_first else None,
        evidence_ms=DAY.begin_ms if is_first else None,
    )


def _shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def _arrival_ms(minute: int, index: Any, shape: Shape) -> Any:  # noqa: ANN401 - a number, or an array of them
    return minute * MINUTE_MS + index * MINUTE_MS // shape.records


def _write(lines: NDArray[np.uint8], at: int, text: str) -> None:
    lines[:, at : at + len(text)] = np.frombuffer(text.encode(), np.uint8)


def _write_numbers(lines: NDArray[np.uint8], at: int, digits: int, numbers: NDArray[np.int64]) -> None:
    powers = 10 ** np.arange(digits - 1, -1, -1, dtype=np.int64)
    lines[:, at : at + digits] = numbers[:, None] // powers % 10 + ord("0")


def place(number: Any) -> Any:  # noqa: ANN401 - a number, or an array of them
    """Return how far the n-th sequence number of a shard lies behind its beginning: they are not dense."""
    return number * _STEP + number * 2_654_435 % _STEP


def position(number: int, count: int) -> Position:
    """Return the position of a shard's record: the first is 1."""
    return Position(FIRST + number * 10**40 + place(count))


def store_markers(store: ObjectStore, shape: Shape) -> None:
    """Store whose the archive is, where its shards begin, and that each was read past the end of the day."""
    scene = ArchiveScene(store, PREFIX)
    identity = StreamIdentity(APPLICATION.stream_arn, DAY.begin_ms, 2 * MINUTES_A_DAY * MINUTE_MS)
    scene.settle(identity, application=APPLICATION.application)
    shards = [_shard_id(number) for number in range(shape.shards)]
    scene.first(*shards)
    for number, shard_id in enumerate(shards):
        scene.begin(shard_id, first=str(position(number, 1)))
        last = metadata_of(number, DAY.first_minute + MINUTES_A_DAY - 1, shape)
        read = (segment_link(last).until_ms, DAY.end_ms + 60 * MINUTE_MS, last.last, "bench")
        scene.mark(ReadMark(shard_id, MarkKind.READ, Continuity.PROVEN, *read))


def write_shard(folder: Path, number: int, shape: Shape) -> list[str]:
    """Write the segments of a shard; returns their lines of the index."""
    rows = []
    (folder / f"{number:04d}").mkdir(parents=True, exist_ok=True)
    for minute in range(DAY.first_minute, DAY.first_minute + MINUTES_A_DAY):
        metadata = metadata_of(number, minute, shape)
        body = new_compressor(Compression.GZIP).finish(memoryview(lines_of(number, minute, shape)))
        file = f"{number:04d}/{minute}"
        (folder / file).write_bytes(body)
        key = segment_key(f"{BUCKET}/{PREFIX}", metadata.shard_id, minute, metadata.first)
        rows.append(json.dumps([key, file, len(body), (minute + 1) * MINUTE_MS + 6_000, metadata.encode()]))
    return rows


def make_day(folder: Path, shape: Shape) -> Path:
    """Write the day unless the folder holds it; returns its index."""
    index = folder / f"index-{shape.shards}-{shape.records}.jsonl"
    if not index.exists():
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            numbers = range(shape.shards)
            rows = pool.map(write_shard, itertools.repeat(folder), numbers, itertools.repeat(shape))
            text = "".join(f"{row}\n" for row in itertools.chain.from_iterable(rows))
        index.write_text(text)
    return index
