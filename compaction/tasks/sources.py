"""The sources of a merge: its objects, and lines restored from `_duplicates`."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from compaction.event_ids.dropping import DroppedLines
from compaction.parquet.fetching import fetch
from compaction.parquet.line_tables import table_of_records
from compaction.parquet.plan import MergeGroup, RawObject, RestoredLines
from compaction.parquet.reading import SegmentReader
from compaction.parquet.sorting import sorted_tables
from compaction.tasks.merging import MergeSource
from minutebook.compression import compression_of
from minutebook.errors import FormatError, ObjectVanished
from minutebook.format.record import decode_dropped_line
from minutebook.format.segment import inflate
from minutebook.store.retrying import RetryingStorage


def merge_sources(storage: RetryingStorage, group: MergeGroup, dropped: DroppedLines) -> list[MergeSource]:
    """Return the sources of a merge: the group's objects without dropped lines, and its restored lines.

    The merge opens the objects, and sorts those that are out of order. Restored lines were dropped as copies of a
    record that is not archived; they are read here.

    Raises:
        ObjectVanished, FormatError: an object of restored lines has changed since the audit read it.
    """

    def source(raw_object: RawObject) -> MergeSource:
        lines = partial(_reread, storage, raw_object, dropped)
        if raw_object.key not in group.unsorted:
            return MergeSource(raw_object, raw_object.first, lines)
        return MergeSource(raw_object, raw_object.first, lambda: sorted_tables(lines()))

    def restored_source(restored: RestoredLines) -> MergeSource:
        table = _restored(storage, restored)
        return MergeSource(
            group.objects[0]._replace(key=restored.key), min(restored.positions), lambda: iter([table])
        )

    return [*map(source, group.objects), *map(restored_source, group.restored)]


def changed(raw_object: RawObject) -> ObjectVanished:
    """Return the error for an object that has changed since it was first read."""
    return ObjectVanished(
        f"{raw_object.key} changed while the day was rewritten",
        next_step="find out who writes below the prefix; then run the command again",
    )


def _reread(storage: RetryingStorage, raw_object: RawObject, dropped: DroppedLines) -> Iterator[pa.Table]:
    """Yield the lines of an object that was read before, without dropped ones."""
    body = fetch(storage, raw_object)
    if body is None:
        raise changed(raw_object)
    reader, begin = SegmentReader(raw_object), 0
    for table in reader.tables(body.drain()):
        yield dropped.remaining(table, begin, raw_object.key)
        begin += table.num_rows
    problem = reader.facts({}).problem
    if problem:
        raise FormatError(f"{raw_object.key}: {problem}", next_step="run the command again")


def _restored(storage: RetryingStorage, restored: RestoredLines) -> pa.Table:
    stored = storage.get(restored.key)
    if stored is None:
        raise ObjectVanished(f"{restored.key} is gone", next_step="find out who deletes objects under the prefix")
    positions = set(restored.positions)
    records = {
        record.position: (shard_id, record)
        for shard_id, record, _ in map(decode_dropped_line, inflate([stored.body], compression_of(restored.key)))
        if record.position in positions
    }
    if len(records) != len(positions):
        raise FormatError(f"{restored.key} does not read the same again", next_step="run the command again")
    return table_of_records([records[position] for position in sorted(records)])
