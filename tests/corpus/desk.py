"""An archive and an output in two folders, the nightly job's runs on them, and what a reader of the output finds."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from compaction.columns.columns import Columns
from compaction.job.context import MAX_REPEATS, AuditOptions, JobContext
from compaction.night.rewrite import Compacted, CompactOptions, compact_day
from compaction.parquet.rows import ZSTD_LEVEL
from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.tasks.task import Order, TaskResult
from minutebook.clock import SystemClock
from minutebook.coverage.evidence import segment_link
from minutebook.format.day import Day
from minutebook.format.minute import iso_time
from minutebook.format.payload import PayloadPath
from minutebook.format.position import Position
from minutebook.published.generation import DayFolder, Manifest
from minutebook.store.directory_storage import METADATA_SUFFIX
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, Storage
from tests.corpus.auditing import job_context
from tests.corpus.event_defects import (
    repeated_after_midnight,
    repeated_event,
    repeated_in_another_shard,
    repeated_later,
)
from tests.corpus.model import PREFIX, Corpus, Shape, Stored, make_segment
from tests.fakes.archive_scene import APPLICATION
from tests.fakes.clock import ManualClock

DAY = Day.parse("2026-11-20")
OUT = "tables/"
Row = tuple[str, Position, bytes]


class Desk:
    """An archive and an output in two folders, or in one bucket, and runs on them."""

    def __init__(
        self, where: Path | Address, corpus: Corpus | None = None, *, application: str = APPLICATION
    ) -> None:
        self.corpus = corpus or Corpus(DAY)
        self.application = application
        folder = where if isinstance(where, Path) else Path("in a bucket")
        self.raw = folder / "raw"
        self.archive = Address(None, str(self.raw)) if isinstance(where, Path) else where
        self.out = StorePrefix(Address(None, str(folder / "out")) if isinstance(where, Path) else where, OUT)
        self.clock = ManualClock()
        self.storage = open_storage(self.out.address)
        self.put()

    def put(self) -> None:
        """Write what is new in the corpus."""
        self.corpus.write(open_storage(self.archive), application=self.application)

    def context(self) -> JobContext:
        """Return the context of one run."""
        return job_context(self.archive, self.corpus.checkpoints, clock=self.clock)

    def compact(
        self,
        storage: Storage | None = None,
        *,
        audit: AuditOptions | None = None,
        day: Day = DAY,
        accept: str | None = None,
        columns: Columns | None = None,
        zstd_level: int = ZSTD_LEVEL,
        rewrite_columns: bool = False,
        is_confirmed: bool = False,
        **changes: object,
    ) -> Compacted:
        """Compact a day; `changes` replace parts of the context."""
        self.corpus.write_marks(open_storage(self.archive))
        options = CompactOptions(
            audit or AuditOptions(), self.out, accept, zstd_level, columns, rewrite_columns, is_confirmed
        )
        given = self.context()._replace(**changes)  # type: ignore[arg-type]
        return compact_day(given, self._retrying(storage or self.storage), day, options)

    def publisher(self, storage: Storage | None = None) -> Publisher:
        """Return the publisher of the day."""
        return Publisher(self._retrying(storage or self.storage), DayFolder(self.out.prefix, DAY))

    def age(self, key: str, modified_ms: int) -> None:
        """Let a file of the output be written at another time."""
        os.utime(self.storage.uri(key), ns=(modified_ms * 1_000_000,) * 2)

    def age_raw(self, key: str, modified_ms: int) -> None:
        """Let an object of the archive be written at another time."""
        os.utime(self.raw / key, ns=(modified_ms * 1_000_000,) * 2)

    def store_again(self, stored: Stored, hours_later: int) -> None:
        """Store a segment again, some hours after the day."""
        path = self.raw / stored.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(stored.body)
        path.with_name(path.name + METADATA_SUFFIX).write_text(json.dumps(stored.fields))
        self.age_raw(stored.key, DAY.end_ms + hours_later * 3_600_000)

    def _retrying(self, storage: Storage) -> RetryingStorage:
        return RetryingStorage(storage, self.context().archive.new_backoff)

    def published_rows(self) -> list[tuple[str, str, int]]:
        """Read the day as a reader does: the pointer, its manifest, its files."""
        pointer = self.publisher().current().pointer
        if pointer is None:
            return []
        manifest = self.publisher().manifest(pointer)
        assert manifest is not None
        rows = []
        for file in manifest.files:
            stored = self.storage.get(file.key)
            assert stored is not None, file.key
            table = pq.ParquetFile(pa.BufferReader(stored.body)).read()
            rows += [
                (row["shard_id"], row["sequence_number"], row["sub_sequence_number"]) for row in table.to_pylist()
            ]
        return rows

    def after_grace_ms(self) -> int:
        """Return a time at which all that is there now, by the file system's clock and by ours, is old."""
        return max(SystemClock().now_ms(), self.clock.now_ms()) + GRACE_MS + 60_000

    def archive_more(self) -> None:
        """Let one more segment of the day arrive in the shard whose end the checkpoint proves."""
        shard = self.corpus.shards[2]
        last = shard.segments[-1]
        record = last.records[-1]
        late = msgspec.structs.replace(record, sequence_number=str(int(record.sequence_number) + 9))
        made = make_segment(shard.shard_id, last.metadata.minute, [late], last.metadata.last, "writer2-late")
        shard.segments.append(made)
        shard.checkpoint = made.metadata.last
        store = open_storage(self.archive)
        store.put_if_absent(made.key, made.body, made.fields, "application/gzip")


class Mill(Desk):
    """Rewrites that leave repeated events out."""

    def rewrite(
        self,
        event_id: str | None = "n",
        *,
        drop: bool = True,
        day: Day = DAY,
        accept: str | None = None,
        max_repeats: float = MAX_REPEATS,
    ) -> Compacted:
        """Compact a day; with an event id, copies are left out unless `drop` is false."""
        drop = drop and event_id is not None
        audit = AuditOptions(
            event_id=event_id, published=self.out, drop_producer_duplicates=drop, max_repeats=max_repeats
        )
        return self.compact(audit=audit, day=day, accept=accept)

    def manifest(self, event_id: str | None = "n", *, drop: bool = True) -> Manifest:
        """Compact the day; return what was published."""
        found = self.rewrite(event_id, drop=drop).manifest
        assert found is not None
        return found

    def rows(self, manifest: Manifest) -> list[Row]:
        """Return the rows of a generation, file by file."""
        return list(published_rows(self.storage, manifest))


def unproven(folder: Path) -> tuple[Desk, Position | None]:
    """Publish a day whose end nothing proves yet; returns the checkpoint that its proof goes with."""
    corpus = Corpus(DAY)
    proof, corpus.shards[2].checkpoint = corpus.shards[2].checkpoint, None
    desk = Desk(folder, corpus)
    desk.compact()
    return desk, proof


def rows_of(corpus: Corpus, day: Day = DAY) -> list[Row]:
    """Return the lines of a day, in order."""
    return [
        (shard.shard_id, record.position, record.data)
        for shard in corpus.shards
        for index in shard.in_day(day)
        for record in shard.segments[index].records
    ]


def repeated() -> tuple[Corpus, list[Row]]:
    """Return an archive with copies of every kind, and the rows that must not be published."""
    corpus = Corpus(DAY, shape=Shape(shards=5))
    for number, defect in enumerate(
        (repeated_event, repeated_later, repeated_after_midnight, repeated_in_another_shard)
    ):
        defect(corpus, corpus.shards[number], 3)
    one, two, three, four, _ = corpus.shards
    copies = [
        (one, one.segments[3], 2),
        (one, one.segments[3], 4),
        (two, two.segments[two.in_day(DAY)[-1]], 1),
        (three, three.segments[3], 0),
        (three, three.segments[3], 3),
        (four, four.segments[3], 2),
    ]
    return corpus, [
        (shard.shard_id, stored.records[place].position, stored.records[place].data)
        for shard, stored, place in copies
    ]


def expire(mill: Desk, generation: str, days: int = 1, manifest: str = "") -> None:
    """Delete the raw objects of the day that lies so many days before, as `minutebook expire` does."""
    expired = DAY.shift(-days)
    tombstone = {
        "format": 1,
        "day": str(expired),
        "generation": generation,
        "segments": 0,
        "bytes": 0,
        "shards": {
            shard.shard_id: {
                "runs": [
                    {
                        "after": str(segment.metadata.after),
                        "first": str(segment.metadata.first),
                        "last": str(segment.metadata.last),
                        "segments": 1,
                        "until_ms": segment_link(segment.metadata).until_ms,
                        "writer": segment.metadata.writer,
                    }
                    for segment in shard.segments
                    if segment.metadata.minute in expired
                ],
                "kept": [],
                "proven": [(1, expired.end_ms)],
            }
            for shard in mill.corpus.shards
        },
        "writer": "w",
        "written_at": iso_time(mill.clock.now_ms()),
        "manifest": manifest,
    }
    store = open_storage(mill.archive)
    store.put_if_absent(f"{PREFIX}_expired/{expired}.json", json.dumps(tombstone).encode(), {}, "application/json")
    store.delete([row.key for row in store.list_objects(expired.path(PREFIX))])


def published_rows(storage: Storage, manifest: Manifest) -> Iterator[tuple[str, Position, bytes]]:
    """Yield (shard, position, payload) of each row, file by file."""
    for file in manifest.files:
        stored = storage.get(file.key)
        assert stored is not None
        for row in pq.ParquetFile(pa.BufferReader(stored.body)).read().to_pylist():
            payload = row["data_bytes"] if row["data"] is None else row["data"].encode()
            yield row["shard_id"], Position(int(row["sequence_number"]), row["sub_sequence_number"]), payload


def published_events(storage: Storage, manifest: Manifest, path: str = "n") -> list[str | None]:
    """Return the event id of each row; None where it has none."""
    ids = PayloadPath(path)
    return [ids.text(payload) for _, _, payload in published_rows(storage, manifest)]


def no_engine(orders: Sequence[Order]) -> list[TaskResult]:
    """Fail: nothing is left to run."""
    raise AssertionError(f"{len(orders)} tasks were run")
