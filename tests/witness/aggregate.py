"""KPL aggregation, written by hand: many user records in one Kinesis record.

Format: aws/amazon-kinesis-producer, aggregation-format.md: 4 magic bytes, a protobuf message, its MD5.

    AggregatedRecord { repeated string partition_key_table = 1; repeated string explicit_hash_key_table = 2;
                       repeated Record records = 3; }
    Record           { required uint64 partition_key_index = 1; optional uint64 explicit_hash_key_index = 2;
                       required bytes data = 3; }
"""

import hashlib
from collections.abc import Sequence
from typing import Final

MAGIC = b"\xf3\x89\x9a\xc2"
_LENGTH_DELIMITED = 2


def aggregate(
    records: Sequence[tuple[str, bytes]], *, hash_keys: Sequence[int] = (), broken_at: int | None = None
) -> bytes:
    """Return the Kinesis record that holds these (partition key, payload) pairs, in their order.

    `hash_keys` are their explicit hash keys, one for each of them if any. The record of the number `broken_at` names
    a partition key that the table does not hold.
    """
    keys = list(dict.fromkeys(key for key, _ in records))
    message = b"".join(_field(1, key.encode()) for key in keys)
    message += b"".join(_field(2, b"%d" % hash_key) for hash_key in hash_keys)
    for number, (key, data) in enumerate(records):
        at = len(keys) if number == broken_at else keys.index(key)
        hashed = _varint(2 << 3) + _varint(number) if hash_keys else b""
        message += _field(3, _varint(1 << 3) + _varint(at) + hashed + _field(3, data))
    return _seal(message)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(value)) + value


def _seal(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def _varint(value: int) -> bytes:
    out: list[int] = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


EMPTY: Final = _seal(_field(1, b"k"))
"""An aggregate with a table of keys and no user record: KCL delivers nothing of it."""
