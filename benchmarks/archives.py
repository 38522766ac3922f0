"""An archive to measure with: ten shards of one day, written by the archive's own codec into a folder."""

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from minutebook.format.day import Day
from minutebook.format.document import FORMAT
from minutebook.format.keys import application_key, end_marker_key, segment_key, start_marker_key
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker, encode_marker
from minutebook.format.metadata import ChainStart, Predecessor
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.objects import ObjectStore

DAY = Day.parse("2026-11-20")
PREFIX = "raw/"
FIRST = 49680430009993180326445188721472315949130085524050018306
PAYLOAD_BYTES = 660
APPLICATION = ApplicationRecord(
    format=FORMAT,
    stream_arn="arn:aws:kinesis:us-east-1:000000000000:stream/bench",
    stream_created_ms=1,
    application="bench",
    start="oldest",
    start_at_ms=None,
    writer="bench",
    written_at_ms=1,
)


class Line(NamedTuple):
    """Which line a payload is for: its number in the archive, its sequence number, its place in its segment."""

    number: int
    sequence: int
    place: int


def make_archive(folder: Path, objects: int, records: int, vocabulary: int) -> int:
    """Write `objects` segments of `records` lines each; returns the bytes of all lines.

    A folder that holds such an archive is taken as it is. The payloads are JSON with random words of a vocabulary in
    it: with 4,000 words gzip takes the lines to a half, with 1,000 to a quarter, which is more like events.
    """
    rng = random.Random(1)  # noqa: S311 - the same archive every time
    words = [base64.b64encode(rng.randbytes(9)).decode() for _ in range(vocabulary)]

    def payload(line: Line) -> bytes:
        text = " ".join(rng.choices(words, k=PAYLOAD_BYTES // 13))
        return f'{{"id":{line.sequence % 10**9},"at":{line.place},"text":"{text}"}}'.encode()

    return make_archive_of(folder, f"{objects}-{records}-{vocabulary}", (objects, records), payload, rng)


def make_archive_of(
    folder: Path, name: str, shape: tuple[int, int], payload: Callable[[Line], bytes], rng: random.Random
) -> int:
    """Write segments of payloads of one's own; `shape` is (segments, records in each). As `make_archive`."""
    size_file = folder / f"size-{name}"
    if size_file.exists():
        return int(size_file.read_text())
    raw = write_archive(DirectoryStorage(folder / "raw"), shape, payload, rng)
    size_file.write_text(str(raw))
    return raw


def write_archive(
    store: ObjectStore, shape: tuple[int, int], payload: Callable[[Line], bytes], rng: random.Random
) -> int:
    """Write such an archive into a store that has none; returns the bytes of all lines."""
    objects, records = shape
    shards = min(10, objects)
    raw = sum(_make_shard(store, rng, payload, number, (objects // shards, records)) for number in range(shards))
    store.put_if_absent(application_key(PREFIX), encode_marker(APPLICATION), {}, "application/json")
    return raw


def _make_shard(
    store: ObjectStore,
    rng: random.Random,
    payload: Callable[[Line], bytes],
    number: int,
    shape: tuple[int, int],
) -> int:
    shard_id = f"shardId-{number:012d}"
    sequence = FIRST + number * 10**40
    after: Predecessor = ChainStart("TRIM_HORIZON")
    first = Position(sequence + 1)
    objects, records = shape
    raw = 0
    for index in range(objects):
        minute = DAY.first_minute + index * 1440 // objects
        writer = SegmentWriter(shard_id, minute)
        batch = []
        for place in range(records):
            sequence += 1 if not index and not place else rng.randrange(1, 10**9)
            data = payload(Line((number * objects + index) * records + place, sequence, place))
            batch.append(Record(str(sequence), 0, f"key-{place % 97}", minute * MINUTE_MS + place % 60_000, data))
        writer.extend(batch)
        metadata = writer.metadata(after=after, writer=f"{number}-{index}")
        key = segment_key(PREFIX, shard_id, minute, metadata.first)
        store.put_if_absent(key, writer.body(), metadata.encode(), "application/gzip")
        after, raw = metadata.last, raw + writer.raw_bytes
    mark(store, shard_id, first, after)
    return raw


def start_marker(shard_id: str, first: Position) -> StartMarker:
    """Return the marker of a shard that was begun before the day."""
    return StartMarker(
        format=FORMAT,
        shard=shard_id,
        sentinel="TRIM_HORIZON",
        first=str(first),
        starting_hash_key="0",
        ending_hash_key="1",
        parents=[],
        writer="bench",
        written_at="2026-11-20T00:00:00.000Z",
    )


def mark(store: ObjectStore, shard_id: str, first: Position, last: Predecessor) -> None:
    """Store where a shard began, and that it has ended."""
    start = start_marker(shard_id, first)
    end = EndMarker(
        format=FORMAT,
        shard=shard_id,
        last=str(last),
        children=[],
        proof="read",
        writer="bench",
        written_at="2026-11-21T00:00:00.000Z",
    )
    store.put_if_absent(start_marker_key(PREFIX, shard_id), encode_marker(start), {}, "application/json")
    store.put_if_absent(end_marker_key(PREFIX, shard_id), encode_marker(end), {}, "application/json")
