"""Lines that come back from `_duplicates`: dropped as copies of a record that is not archived."""

import pyarrow as pa

from archive.clock import SystemClock, new_random
from archive.errors import FormatError, ObjectVanished
from archive.format.record import Record, decode_dropped_line
from archive.format.segment import inflate
from archive.retry import Backoff, until_known
from archive.store.storage import Storage
from compaction.tasks.plan import Back, Piece, Unit
from compaction.tasks.reading import LINE_SCHEMA

_BUDGET_SECONDS = 180


def read_back(storage: Storage, unit: Unit) -> tuple[list[pa.Table], list[Piece]]:
    """Return the lines that come back into a unit, and the pieces that they come from.

    Raises:
        ObjectVanished, FormatError: the object is not what it was when the day was looked at.
        StoreUnavailable, StoreRefused: the store.
    """
    tables = [_lines(storage, back) for back in unit.back]
    return tables, [unit.pieces[0]._replace(key=back.key) for back in unit.back]


def _lines(storage: Storage, back: Back) -> pa.Table:
    waits = Backoff(SystemClock(), new_random(), budget_seconds=_BUDGET_SECONDS)
    stored = until_known(lambda: storage.get(back.key), waits, f"GET {back.key}")
    if stored is None:
        raise ObjectVanished(f"{back.key} is gone", next_step="find out who deletes objects under the prefix")
    wanted = set(back.positions)
    found = {
        record.position: (shard_id, record)
        for shard_id, record, _ in map(decode_dropped_line, inflate([stored.body]))
        if record.position in wanted
    }
    if len(found) != len(wanted):
        raise FormatError(f"{back.key} does not read the same again", next_step="run the command again")
    return table_of([found[position] for position in sorted(found)])


def table_of(records: list[tuple[str, Record]]) -> pa.Table:
    """Return records as lines."""
    rows = [
        {
            "shard_id": shard_id,
            "sequence_number": record.sequence_number,
            "sub_sequence_number": record.sub_sequence_number,
            "partition_key": record.partition_key,
            "arrival_ms": record.arrival_ms,
            **_payload(record.data),
        }
        for shard_id, record in records
    ]
    return pa.Table.from_pylist(rows, schema=LINE_SCHEMA)


def _payload(data: bytes) -> dict[str, str | bytes]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_bytes": data}
