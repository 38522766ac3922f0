"""Published days without a rewrite: a few rows a generation, in files as the nightly job writes them."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from compaction.publish.publisher import Publisher
from compaction.tables.commit import DayTable, TableCommit, TableCommitter
from minutebook.clock import SystemClock, new_id
from minutebook.format.day import Day
from minutebook.format.minute import iso_time
from minutebook.published.generation import DayFolder, File, Manifest
from minutebook.published.inventory import inventory_digest
from minutebook.published.schema import SCHEMA
from minutebook.retry import Backoff
from minutebook.store.places import StorePrefix, open_storage
from minutebook.store.retrying import RetryingStorage
from tests.fakes.clock import ManualClock

Row = dict[str, object]
_NUMBERS = itertools.count(1)


class Shelf:
    """Days that are published at a place, and commits of them to tables."""

    def __init__(self, place: StorePrefix) -> None:
        self.place = place
        self.storage = open_storage(place.address)
        self.clock = ManualClock(SystemClock().now_ms())

    def waits(self) -> Backoff:
        """Return waits that take no time."""
        return Backoff(self.clock, random.Random(1), budget_seconds=10)

    def publisher(self, day: Day) -> Publisher:
        """Return the publisher of a day."""
        return Publisher(RetryingStorage(self.storage, self.waits), DayFolder(self.place.prefix, day))

    def publish(
        self,
        day: Day,
        generation: str,
        counts: tuple[int, ...] = (3, 2),
        *,
        off_ms: int = 0,
        encodings: dict[str, str] | None = None,
    ) -> list[Row]:
        """Publish a generation of one file for each count, and point to it; returns its rows.

        `off_ms` moves the last row of the last file away from its day, `encodings` are those of columns' pages.
        """
        publisher, files, rows = self.publisher(day), list[File](), list[Row]()
        for number, count in enumerate(counts):
            part = [_row(day, generation, number, index) for index in range(count)]
            if part and off_ms and number == len(counts) - 1:
                part[-1]["arrival_time"] = pa.scalar(day.begin_ms + off_ms, pa.timestamp("ms", "UTC")).as_py()
            key = f"{publisher.folder.generation(generation)}part-{number:05d}.parquet"
            sink = self.storage.open_write(key, "application/vnd.apache.parquet", self.waits)
            pq.write_table(
                pa.Table.from_pylist(part, SCHEMA),
                pa.PythonFile(sink, mode="w"),
                compression="zstd",
                use_dictionary=encodings is None,
                column_encoding=encodings,
            )
            sink.close()
            files.append(File(key=key, rows=count, bytes=sink.size))
            rows += part
        manifest = _manifest(day, generation, files, iso_time(self.clock.now_ms()))
        publisher.put_manifest(manifest)
        assert publisher.swap_pointer(manifest, publisher.current(), f"run-{next(_NUMBERS)}", manifest.written_at)
        return rows

    def complete(self, day: Day) -> None:
        """Put the audit and the inventory of a published day beside its manifest, as runs do."""
        publisher = self.publisher(day)
        pointer, manifest = publisher.published()
        assert pointer is not None
        assert manifest is not None
        key = publisher.folder.audit(manifest.generation, "0123456789abcdef")
        audit = {"verdict": manifest.verdict, "equation": {"compacted": manifest.rows}}
        publisher.put_audit(key, msgspec.json.encode(audit))
        publisher.put_inventory(pointer.manifest, [])
        documents = {
            pointer.manifest: msgspec.structs.replace(manifest, audit=key, inventory=inventory_digest(())),
            publisher.folder.pointer: msgspec.structs.replace(pointer, audit=key),
        }
        for name, document in documents.items():
            Path(self.storage.uri(name)).write_bytes(msgspec.json.encode(document))

    def change_file(
        self, day: Day, change: Callable[[pa.Table], pa.Table], columns: dict[str, str] | None = None
    ) -> None:
        """Write the one file of a published day anew, as another version of the job would have written it.

        `columns` are those that the manifest names.
        """
        publisher = self.publisher(day)
        pointer, manifest = publisher.published()
        assert pointer is not None
        assert manifest is not None
        [file] = manifest.files
        path = Path(self.storage.uri(file.key))
        pq.write_table(change(pq.read_table(path, partitioning=None)), path)
        changed = msgspec.structs.replace(file, bytes=path.stat().st_size)
        body = msgspec.json.encode(msgspec.structs.replace(manifest, files=(changed,), columns=columns))
        Path(self.storage.uri(pointer.manifest)).write_bytes(body)

    def evolve(self, day: Day, columns: dict[str, pa.Array]) -> None:
        """Publish a day of one row with typed columns, as its manifest says."""
        self.publish(day, "typed", (1,))

        def typed(table: pa.Table) -> pa.Table:
            for name, values in columns.items():
                table = table.append_column(name, values)
            return table

        self.change_file(day, typed, {name: str(values.type) for name, values in columns.items()})

    def commit(self, table: DayTable, day: Day) -> TableCommit | None:
        """Bring the table into step with the day's pointer."""
        return TableCommitter(table, self.publisher(day), self.clock, new_id).commit()


def keys_of(rows: list[Row]) -> list[tuple[object, ...]]:
    """Return what a row is, in an order that does not depend on the reader's."""
    return sorted((tuple(str(row[name]) for name in SCHEMA.names) for row in rows), key=str)


def _row(day: Day, generation: str, part: int, index: int) -> Row:
    payload: Row = {"data": None, "data_bytes": b"\xff"} if index % 2 else {"data": f"é {index}", "data_bytes": None}
    at = day.begin_ms + (86_399_999 if index == 0 and part == 0 else index * 1001)
    return {
        "shard_id": f"shardId-{part:012d}",
        "sequence_number": f"{4968 + index}{'7' * 52}",
        "sub_sequence_number": index,
        "partition_key": f"p{index}",
        "arrival_time": pa.scalar(at, pa.timestamp("ms", "UTC")).as_py(),
        **payload,
        "segment": f"raw/{day}/{generation}",
    }


def _manifest(day: Day, generation: str, files: list[File], written_at: str) -> Manifest:
    return Manifest(
        format=1,
        day=str(day),
        generation=generation,
        files=tuple(files),
        rows=sum(file.rows for file in files),
        inventory="",
        verdict="clean",
        audit="",
        ends={},
        writer=f"run-{next(_NUMBERS)}",
        written_at=written_at,
    )
