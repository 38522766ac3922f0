"""Records of segments as rows of the published columns (`minutebook.published.schema`). Needs pyarrow."""

from typing import Final

import pyarrow as pa

from minutebook.published.schema import SCHEMA
from minutebook.segments.merging import SegmentRecord

_LEAST_BYTES: Final = 200
"""The least memory of a record in Python."""


class RecordRows:
    """Gathers records into tables of about `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rows: list[tuple[object, ...]] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether the rows should be taken now."""
        return self._bytes >= self._most_bytes

    def add(self, row: SegmentRecord) -> None:
        """Append a record."""
        record = row.record
        try:
            text, raw = record.data.decode(), None
        except UnicodeDecodeError:
            text, raw = None, record.data
        number, sub, arrival_us = record.sequence_number, record.sub_sequence_number, record.arrival_ms * 1000
        shard_id, segment = row.segment.parsed.shard_id, row.segment.key
        self._rows.append((shard_id, number, sub, record.partition_key, arrival_us, text, raw, segment))
        self._bytes += len(record.data) + _LEAST_BYTES

    def take(self) -> pa.Table:
        """Return the rows, and start over."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(SCHEMA)
        arrays = [
            pa.array(values, field.type if field.name != "arrival_time" else pa.int64()).cast(field.type)
            for values, field in zip(columns, SCHEMA, strict=True)
        ]
        self._rows.clear()
        self._bytes = 0
        return pa.Table.from_arrays(arrays, schema=SCHEMA)
