"""The columns, partitions and properties of new tables."""

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import BinaryType, IcebergType, LongType, NestedField, StringType, TimestamptzType

from compaction.columns.columns import EVENT_TIME
from minutebook.published.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

ARRIVAL: Final = "arrival_time"
MAPPING: Final = "schema.name-mapping.default"
"""Files have no field ids: columns are found by name."""
_TYPES: Final[dict[pa.DataType, IcebergType]] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.int64(): LongType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}
TABLE_SCHEMA: Final = Schema(
    *(NestedField(number, field.name, _TYPES[field.type]) for number, field in enumerate(SCHEMA, start=1))
)
_ARRIVAL_ID: Final = TABLE_SCHEMA.find_field(ARRIVAL).field_id
_ARRIVAL_FIELD: Final = PartitionField(_ARRIVAL_ID, 1000, DayTransform(), "arrival_day")
SPEC: Final = PartitionSpec(_ARRIVAL_FIELD)
_EVENT_ID: Final = len(TABLE_SCHEMA.fields) + 1
EVENT_SCHEMA: Final = Schema(*TABLE_SCHEMA.fields, NestedField(_EVENT_ID, EVENT_TIME, TimestamptzType()))
EVENT_SPEC: Final = PartitionSpec(_ARRIVAL_FIELD, PartitionField(_EVENT_ID, 1001, DayTransform(), "event_day"))
"""By arrival day first, so that a run replaces whole partitions, whatever its events' days."""
PROPERTIES: Final = {
    "format-version": "2",
    # The published files belong to the pointer, too: maintenance of the table must not delete them.
    "gc.enabled": "false",
    # All begin with the same twenty digits: bounds of 16 characters would be useless.
    "write.metadata.metrics.column.shard_id": "full",
    "write.metadata.metrics.column.sequence_number": "full",
    # The files have no statistics for these.
    **dict.fromkeys(
        (f"write.metadata.metrics.column.{name}" for name in ("partition_key", "data", "data_bytes")), "none"
    ),
}


_SOURCES: Final = {"arrival_day": ARRIVAL, "event_day": EVENT_TIME}
"""Our partition names, which stay when somebody renames the column."""


def partitioned_by(table: "Table", spec: PartitionSpec) -> list[str]:
    """Return the original names of the columns by whose days a spec partitions; "" for other partitions."""
    return [was if field.transform == DayTransform() else "" for field, was, _ in _sources(table, spec)]


def renamed_sources(table: "Table") -> dict[str, str]:
    """Return the renamed columns by which the table is partitioned: old name -> new name."""
    return {was: name for _, was, name in _sources(table, table.spec()) if name not in {"", was}}


def _sources(table: "Table", spec: PartitionSpec) -> "Iterator[tuple[PartitionField, str, str]]":
    for field in spec.fields:
        name = table.schema().find_column_name(field.source_id) or ""
        yield field, name if name in _SOURCES.values() or not name else _SOURCES.get(field.name, name), name
