"""The columns that the Parquet files of every published day begin with. Needs pyarrow.

Sequence numbers stay the decimal text that Kinesis wrote (they exceed every integer type of SQL engines). Payloads
are text where they are valid UTF-8, else bytes. Arrival times are microseconds, always whole milliseconds: the one
unit that Iceberg's specification knows, and Spark's Iceberg reader takes milliseconds for it without a word.
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
