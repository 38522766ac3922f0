"""Where the lines of a merge come from: its objects, and lines that come back from `_duplicates`."""

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
    """Return what a merge takes: the group's objects, less the lines that are dropped, and its restored lines.

    Objects are opened by the merge; those out of order are sorted then. Restored lines were dropped as copies of a
    record that is not archived, and are read here.

    Raises:
        ObjectVanished, FormatError: an object of restored lines is not what it was when the day was looked at.
        StoreUnavailable, StoreRefused: the store.
    """

    def source(raw_object: RawObject) -> MergeSource:
        lines = partial(_lines_again, storage, raw_object, dropped)
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
    """Return the error of an object that was read before and is another one by now."""
    return ObjectVanished(
        f"{raw_object.key} changed while the day was rewritten",
        next_step="find out who writes below the prefix; then run the command again",
    )


def _lines_again(storage: RetryingStorage, raw_object: RawObject, dropped: DroppedLines) -> Iterator[pa.Table]:
    """Yield the lines of an object that was read before, less those that are dropped."""
    body = fetch(storage, raw_object)
    if body is None:
        raise changed(raw_object)
    reader, begin = SegmentReader(raw_object), 0
    for table in reader.tables(body.drain()):
        yield dropped.kept(table, begin, raw_object.key)
        begin += table.num_rows
    problem = reader.facts({}).problem
    if problem:
        raise FormatError(f"{raw_object.key}: {problem}", next_step="run the command again")


def _restored(storage: RetryingStorage, restored: RestoredLines) -> pa.Table:
    stored = storage.get(restored.key)
    if stored is None:
        raise ObjectVanished(f"{restored.key} is gone", next_step="find out who deletes objects under the prefix")
    wanted = set(restored.positions)
    found = {
        record.position: (shard_id, record)
        for shard_id, record, _ in map(decode_dropped_line, inflate([stored.body], compression_of(restored.key)))
        if record.position in wanted
    }
    if len(found) != len(wanted):
        raise FormatError(f"{restored.key} does not read the same again", next_step="run the command again")
    return table_of_records([found[position] for position in sorted(found)])
