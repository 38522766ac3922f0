"""KPL aggregation, written by hand: many user records in one Kinesis record.

Format: aws/amazon-kinesis-producer, aggregation-format.md: 4 magic bytes, a protobuf message, its MD5.

    AggregatedRecord { repeated string partition_key_table = 1; repeated Record records = 3; }
    Record           { required uint64 partition_key_index = 1; required bytes data = 3; }
"""

import hashlib
from collections.abc import Sequence

MAGIC = b"\xf3\x89\x9a\xc2"
_LENGTH_DELIMITED = 2


def aggregate(records: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the Kinesis record that holds these (partition key, payload) pairs, in their order."""
    keys = list(dict.fromkeys(key for key, _ in records))
    message = b"".join(_field(1, key.encode()) for key in keys)
    message += b"".join(
        _field(3, _varint(1 << 3) + _varint(keys.index(key)) + _field(3, data)) for key, data in records
    )
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out: list[int] = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
