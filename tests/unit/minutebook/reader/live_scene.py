"""An archive in a folder, and days that are published of it with the rows that it really has."""

import gzip
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from consumer.stream.port import StreamIdentity
from minutebook.format.day import Day
from minutebook.format.keys import parse_segment_key
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.record import Record
from minutebook.format.segment import read_records
from minutebook.format.tombstone import FOLDER
from minutebook.published.generation import File, Manifest
from minutebook.published.inventory import inventory_digest
from minutebook.published.schema import SCHEMA
from minutebook.reader import read
from minutebook.reader.live import LiveDays
from minutebook.store.directory_storage import DirectoryStorage
from minutebook.store.places import StorePrefix
from minutebook.store.storage import Address, Storage
from tests.corpus.shelf import Shelf
from tests.fakes.archive_scene import ArchiveScene, Stored

DAY = Day.parse("2026-11-20")
NOON = DAY.first_minute + 720
S0, S1 = "shardId-000000000000", "shardId-000000000001"
ARN = "arn:aws:kinesis:us-east-1:000000000000:stream/corpus"
_NUMBERS = itertools.count(1)
S = TypeVar("S", bound=Storage)


class LiveScene(Generic[S]):
    """An archive, published at a place; `uri` is its address as a person writes it."""

    def __init__(self, store: S, prefix: str, place: StorePrefix, uri: str) -> None:
        self.store = store
        self.prefix = prefix
        self.scene = ArchiveScene(store, prefix)
        self.scene.settle(StreamIdentity(ARN, 1, 86_400_000))
        self.shelf = Shelf(place)
        self.uri = uri

    def write(self, shard: str, minute: int, first: int, payloads: Sequence[str | bytes], **more: Any) -> Stored:  # noqa: ANN401 - of the scene
        """Write a segment of records that follow each other."""
        return self.scene.segment(shard, minute, records(minute, first, payloads), **more)

    def publish(
        self,
        day: Day = DAY,
        *,
        until: int | None = None,
        without: Collection[str] = (),
        columns: Callable[[pa.Table], pa.Table] = lambda rows: rows,
    ) -> None:
        """Publish what lies in a day now, up to a minute, without some payloads, as repeated events are left out."""
        rows, inventory = list[dict[str, object]](), list[tuple[str, str, int, int]]()
        for row in self.store.list_objects(day.path(self.prefix)):
            parsed = parse_segment_key(self.prefix, row.key)
            stored = self.store.get(row.key)
            if stored is None or (until is not None and parsed.minute >= until):
                continue
            inventory.append((row.key, row.etag, row.size, row.last_modified_ms))
            for _, record in read_records(stored.body, parsed.shard_id):
                if record.data.decode(errors="replace") not in without:
                    rows.append(published_row(parsed.shard_id, record, row.key))
        rows.sort(key=lambda row: (row["shard_id"], int(str(row["sequence_number"])), row["sub_sequence_number"]))
        self.put_generation(day, columns(pa.Table.from_pylist(unrepeated(rows), SCHEMA)), inventory, until)

    def put_generation(
        self, day: Day, rows: pa.Table, inventory: list[tuple[str, str, int, int]], until: int | None
    ) -> None:
        """Publish rows as one file with several row groups."""
        publisher = self.shelf.publisher(day)
        generation = f"g{next(_NUMBERS)}"
        key = f"{publisher.folder.generation(generation)}part-00000.parquet"
        sink = self.shelf.storage.open_write(key, "application/vnd.apache.parquet", self.shelf.waits)
        pq.write_table(rows, pa.PythonFile(sink, mode="w"), row_group_size=2)
        sink.close()
        manifest = Manifest(
            format=1,
            day=str(day),
            generation=generation,
            files=(File(key=key, rows=rows.num_rows, bytes=sink.size),),
            rows=rows.num_rows,
            inventory=inventory_digest(row[:3] for row in inventory),
            verdict="clean",
            audit="",
            ends={},
            writer=f"w{next(_NUMBERS)}",
            written_at=iso_time(self.shelf.clock.now_ms()),
            until=None if until is None else iso_time(until * MINUTE_MS),
        )
        lines = msgspec.json.Encoder().encode_lines(inventory)
        publisher.put_inventory(publisher.folder.manifest(generation, manifest.writer), [gzip.compress(lines)])
        publisher.put_manifest(manifest)
        assert publisher.swap_pointer(manifest, publisher.current(), manifest.writer, manifest.written_at)

    def expire(self, day: Day = DAY) -> None:
        """Write the tombstone, then delete the segments."""
        self.store.put_if_absent(f"{self.prefix}{FOLDER}{day}.json", b"{}", {}, "application/json")
        self.store.delete([row.key for row in self.store.list_objects(day.path(self.prefix))])

    def read(self, from_: Day = DAY, to: Day | None = None, **more: Any) -> LiveDays:  # noqa: ANN401 - of the reader
        """Open the days."""
        return read(self.uri, from_.date, (to or from_).date, live=True, **more)

    def payloads(self, from_: Day = DAY, to: Day | None = None, **more: Any) -> list[object]:  # noqa: ANN401 - of the reader
        """Return the payloads of the days, in the order in which they come."""
        return payloads_of(self.read(from_, to, **more))


def in_folder(root: Path) -> LiveScene[DirectoryStorage]:
    """Return an archive in a folder, published below `_parquet/` in it, as by default."""
    uri = str(root / "_parquet")
    return LiveScene(DirectoryStorage(root), "", StorePrefix(Address(None, uri), ""), uri)


def payloads_of(days: LiveDays) -> list[object]:
    """Return the payloads, in order."""
    return [row["data"] if row["data"] is not None else row["data_bytes"] for row in pa.table(days).to_pylist()]


def records(minute: int, first: int, payloads: Sequence[str | bytes]) -> list[Record]:
    """Return records one millisecond apart, whose positions follow each other."""
    return [
        Record(str(first + n), 0, "p", minute * MINUTE_MS + n, p.encode() if isinstance(p, str) else p)
        for n, p in enumerate(payloads)
    ]


def published_row(shard: str, record: Record, segment: str) -> dict[str, object]:
    """Return a record as compact publishes it."""
    try:
        text, raw = record.data.decode(), None
    except UnicodeDecodeError:
        text, raw = None, record.data
    return {
        "shard_id": shard,
        "sequence_number": record.sequence_number,
        "sub_sequence_number": record.sub_sequence_number,
        "partition_key": record.partition_key,
        "arrival_time": pa.scalar(record.arrival_ms, pa.timestamp("ms", "UTC")).as_py(),
        "data": text,
        "data_bytes": raw,
        "segment": segment,
    }


def unrepeated(rows: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return each position once."""
    places = ((row["shard_id"], row["sequence_number"], row["sub_sequence_number"]) for row in rows)
    return list(dict(zip(places, rows, strict=True)).values())


def during(store: DirectoryStorage, prefix: str, act: Callable[[], None]) -> None:
    """Act once, right behind the next LIST below a prefix."""
    answer = store.list_objects

    def listing(folder: str) -> Iterator[Any]:
        rows = list(answer(folder))
        if folder.startswith(prefix):
            store.list_objects = answer  # type: ignore[method-assign]
            act()
        return iter(rows)

    store.list_objects = listing  # type: ignore[assignment,method-assign]
