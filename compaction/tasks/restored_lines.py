"""Lines that come back from `_duplicates`: dropped as copies of a record that is not archived."""

import pyarrow as pa

from archive.compression import compression_of
from archive.errors import FormatError, ObjectVanished
from archive.format.record import decode_dropped_line
from archive.format.segment import inflate
from archive.store.retrying import RetryingStorage
from compaction.tasks.line_tables import table_of_records
from compaction.tasks.merging import Source
from compaction.tasks.plan import MergeGroup, RawObject, RestoredLines


def read_restored(storage: RetryingStorage, group: MergeGroup) -> list[Source]:
    """Return the lines that come back into a group, as a merge takes them.

    Raises:
        ObjectVanished, FormatError: the object is not what it was when the day was looked at.
        StoreUnavailable, StoreRefused: the store.
    """
    return [_source(storage, group.objects[0]._replace(key=restored.key), restored) for restored in group.restored]


def _source(storage: RetryingStorage, raw_object: RawObject, restored: RestoredLines) -> Source:
    table = _lines(storage, restored)
    return Source(raw_object, min(restored.positions), lambda: iter([table]))


def _lines(storage: RetryingStorage, restored: RestoredLines) -> pa.Table:
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
