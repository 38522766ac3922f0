"""The first columns of the Parquet files of every published day. Needs pyarrow.

Sequence numbers stay decimal text: they exceed every integer type of SQL engines. Payloads are text if they are valid
UTF-8, else bytes. Arrival times are whole milliseconds in microseconds, the only unit in Iceberg's specification;
Spark's Iceberg reader silently misreads milliseconds.
"""

from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = "2"
"""2: arrival times in microseconds (docs/decisions/0012-iceberg.md)."""

SCHEMA: Final = pa.schema(
    [
        ("shard_id", pa.string()),
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_time", pa.timestamp("us", "UTC")),
        ("data", pa.string()),
        ("data_bytes", pa.binary()),
        ("segment", pa.string()),
    ]
)
