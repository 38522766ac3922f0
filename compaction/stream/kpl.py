"""KPL de-aggregation, our own: what one Kinesis record holds.

Independent of KCL on purpose: KCL throws away a whole aggregate when one of its records hashes outside the shard, and
only logs it (AggregatorUtil.java). The audit counts what the producer sent, so such a loss is seen.

Format (amazon-kinesis-producer, aggregation-format.md): 4 magic bytes, a protobuf message, the MD5 of the message.

    AggregatedRecord { repeated string partition_key_table = 1; repeated string explicit_hash_key_table = 2;
                       repeated Record records = 3; }
    Record           { required uint64 partition_key_index = 1; optional uint64 explicit_hash_key_index = 2;
                       required bytes data = 3; repeated Tag tags = 4; }
"""

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES: Final = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class UserRecord(NamedTuple):
    """One record as the producer sent it. `sub` is its index in the aggregate; 0 for a plain record."""

    sub: int
    partition_key: str
    data: bytes


class _NotAggregatedError(ValueError):
    """The bytes only look like an aggregate."""


def user_records(partition_key: str, data: bytes) -> list[UserRecord]:
    """Take a Kinesis record apart.

    What is not an aggregate, or only begins like one, is a plain record: its payload is data, whatever it looks like.
    """
    plain = [UserRecord(0, partition_key, data)]
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST_BYTES:
        return plain
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return plain
    try:
        return _parse(message)
    except (_NotAggregatedError, UnicodeDecodeError):
        return plain


def _parse(message: bytes) -> list[UserRecord]:
    keys: list[str] = []
    bodies: list[bytes] = []
    for number, value in _fields(message):
        if number == 1 and isinstance(value, bytes):
            keys.append(value.decode())
        elif number == 3 and isinstance(value, bytes):  # noqa: PLR2004 - the field `records`
            bodies.append(value)
    return [_record(sub, body, keys) for sub, body in enumerate(bodies)]


def _record(sub: int, body: bytes, keys: list[str]) -> UserRecord:
    index: int | None = None
    data: bytes | None = None
    for number, value in _fields(body):
        if number == 1 and isinstance(value, int):
            index = value
        elif number == 3 and isinstance(value, bytes):  # noqa: PLR2004 - the field `data`
            data = value
    if index is None or data is None or index >= len(keys):
        raise _NotAggregatedError("a record without key or data")
    return UserRecord(sub, keys[index], data)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
        else:
            raise _NotAggregatedError(f"wire type {kind}")
        if at + size > len(message):
            raise _NotAggregatedError("a field that is longer than the message")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
    raise _NotAggregatedError("a number without end")
