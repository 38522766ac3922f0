"""KPL aggregates: many user records in one Kinesis record, and how many.

Format (aws/amazon-kinesis-producer, aggregation-format.md): 4 magic bytes, a protobuf message, its MD5. The message's
field 3, repeated, holds the user records; KCL numbers them from 0 (AggregatorUtil.java).
"""

import hashlib
from typing import Final

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES: Final = 16
_RECORDS_FIELD: Final = 3
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


def count_user_records(data: bytes) -> int:
    """Return how many user records KCL makes of a Kinesis record's payload: 1 when it is not an aggregate."""
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC) or hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return 1
    return _count(message)


def _count(message: bytes) -> int:
    found = at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _varint(message, at)
            at += size
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in {_FIXED64, _FIXED32}:
            at += 8 if kind == _FIXED64 else 4
        else:
            return 1  # groups: nothing that the KPL ever wrote, and KCL takes what it cannot read for a plain record
        found += field == _RECORDS_FIELD
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and where it ends; what is cut short ends with the message."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            break
    return value, at
