"""KPL aggregates: many user records in one Kinesis record, deaggregated exactly as KCL does it.

Format (awslabs/amazon-kinesis-producer, aggregation-format.md): 4 magic bytes, a protobuf message, its MD5.

    AggregatedRecord { repeated string partition_key_table = 1; repeated string explicit_hash_key_table = 2;
                       repeated Record records = 3; }
    Record           { required uint64 partition_key_index = 1; optional uint64 explicit_hash_key_index = 2;
                       required bytes data = 3; repeated Tag tags = 4; }
    Tag              { required string key = 1; optional string value = 2; }

What the daemon delivers (KCL's AggregatorUtil.java, protobuf-java 4.27; tests/data/kpl/answers.json has KCL's results
for many shapes):

    no magic, wrong digest, not the message above ........ the record as it is, with sub-sequence number 0
    user records that would cost more than 32 MiB ........ the same: consumer/daemon/classes/minutebook, not KCL
    an index beyond its table, a hash key not a number ... the user records before that one
    a hash key outside the shard's range ................. nothing
    anything else ........................................ every user record, numbered from 0

Any byte string is parsed in linear time.
"""

import enum
import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES: Final = 16
LAST_HASH_KEY: Final = (1 << 128) - 1
"""Kinesis hashes partition keys by MD5: 128 bits."""
_HASH_KEY_DIGITS: Final = len(str(LAST_HASH_KEY))
_HASH_KEY: Final = re.compile(r"([+-]?)(\d+)")
_BASIC_PLANE: Final = "\uffff"
# Java replaces a surrogate's bytes by one U+FFFD, Python each byte by one; otherwise they agree.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)
_FIXED_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}
_DEEPEST: Final = 100
"""protobuf-java's limit for nested messages and groups."""
_MAX_COST: Final = 32 << 20
_RECORD_COST: Final = 256
_HASH_KEY_FACTOR: Final = 64
"""BoundedAggregatorUtil.java: keys are repeated with each of their user records."""
_KEYS, _HASH_KEYS, _RECORDS = 1, 2, 3
_KEY_INDEX, _HASH_KEY_INDEX, _DATA, _TAGS = 1, 2, 3, 4


class UserRecord(NamedTuple):
    """One record as its producer sent it. `sub` is its index in the aggregate; 0 for a plain record."""

    sub: int
    partition_key: str
    data: bytes


class HashRange(NamedTuple):
    """The hash keys of a shard, both ends included."""

    first: int
    last: int

    @property
    def width(self) -> int:
        """The number of keys."""
        return self.last - self.first + 1

    def meets(self, other: "HashRange") -> bool:
        """Return whether the ranges overlap."""
        return self.first <= other.last and other.first <= self.last


EVERY_HASH_KEY: Final = HashRange(0, LAST_HASH_KEY)


class Fault(enum.StrEnum):
    """Why KCL withholds user records of an aggregate."""

    MALFORMED = "malformed"
    OUTSIDE_SHARD = "outside_shard"


class DeliveredAggregate(NamedTuple):
    """The user records that KCL delivers of a Kinesis record, and those that it withholds.

    Both are numbered alike. A withheld record with a wrong partition key index has the key of the Kinesis record.
    """

    delivered: list[UserRecord]
    withheld: list[UserRecord]
    fault: Fault | None = None


def deaggregate(partition_key: str, data: bytes, hash_range: HashRange = EVERY_HASH_KEY) -> DeliveredAggregate:
    """Deaggregate one Kinesis record. Data that only looks like an aggregate is a plain record."""
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if (
        not data.startswith(MAGIC)
        or len(data) <= len(MAGIC) + _DIGEST_BYTES
        or hashlib.md5(message, usedforsecurity=False).digest() != digest
    ):
        return DeliveredAggregate([UserRecord(0, partition_key, data)], [])
    try:
        aggregate = _parse(message)
    except _NotAnAggregateError:
        return DeliveredAggregate([UserRecord(0, partition_key, data)], [])
    if aggregate.cost() > _MAX_COST:
        return DeliveredAggregate([UserRecord(0, partition_key, data)], [])
    users = [
        UserRecord(sub, aggregate.key_of(record, partition_key), record.data)
        for sub, record in enumerate(aggregate.records)
    ]
    for sub, record in enumerate(aggregate.records):
        hash_key = aggregate.hash_key_of(record)
        if hash_key is None:
            return DeliveredAggregate(users[:sub], users[sub:], Fault.MALFORMED)
        if not hash_range.first <= hash_key <= hash_range.last:
            return DeliveredAggregate([], users, Fault.OUTSIDE_SHARD)
    return DeliveredAggregate(users, [])


class _NotAnAggregateError(ValueError):
    """protobuf-java refuses the message."""


class _Record(NamedTuple):
    """One user record, by indexes; `hash_key` is None if it has no explicit one."""

    key: int
    hash_key: int | None
    data: bytes


class _Aggregate:
    """A parsed message. Keys are hashed once, however many records share them."""

    def __init__(self, keys: list[bytes], hash_keys: list[bytes], records: list[_Record]) -> None:
        self._key_sizes = [len(key) for key in keys]
        self._hash_key_sizes = [len(key) for key in hash_keys]
        self._keys = [_text(key) for key in keys]
        self._hash_keys = [_text(key) for key in hash_keys]
        self.records = records
        self._hashes: dict[tuple[int, int | None], int | None] = {}

    def cost(self) -> int:
        """Return the cost of delivering the user records before the first that KCL cannot deliver."""
        cost = 0
        for record in self.records:
            if not 0 <= record.key < len(self._keys):
                break
            if record.hash_key is not None:
                if not 0 <= record.hash_key < len(self._hash_keys):
                    break
                cost += _HASH_KEY_FACTOR * self._hash_key_sizes[record.hash_key]
            cost += _RECORD_COST + len(record.data) + self._key_sizes[record.key]
        return cost

    def key_of(self, record: _Record, default: str) -> str:
        return self._keys[record.key] if 0 <= record.key < len(self._keys) else default

    def hash_key_of(self, record: _Record) -> int | None:
        """Return the hash key that KCL compares with the shard's range; None where KCL throws."""
        indexes = record.key, record.hash_key
        if indexes not in self._hashes:
            self._hashes[indexes] = self._hash_key(*indexes)
        return self._hashes[indexes]

    def _hash_key(self, key: int, hash_key: int | None) -> int | None:
        if not 0 <= key < len(self._keys):
            return None
        if hash_key is None:
            return int.from_bytes(hashlib.md5(self._keys[key].encode(), usedforsecurity=False).digest(), "big")
        return _number(self._hash_keys[hash_key]) if 0 <= hash_key < len(self._hash_keys) else None


def _number(text: str) -> int | None:
    """Parse `text` as Java's BigInteger; None where it throws. Too large values become LAST_HASH_KEY + 1."""
    match = _HASH_KEY.fullmatch(text)
    if match is None or max(text) > _BASIC_PLANE:
        return None
    digits = match[2].lstrip("0")
    value = int(digits or "0") if len(digits) <= _HASH_KEY_DIGITS else LAST_HASH_KEY + 1
    return -value if match[1] == "-" else value


def _parse(message: bytes) -> _Aggregate:
    keys: list[bytes] = []
    hash_keys: list[bytes] = []
    records: list[_Record] = []
    for number, value in _fields(message, depth=0):
        if not isinstance(value, bytes):
            continue
        if number == _KEYS:
            keys.append(value)
        elif number == _HASH_KEYS:
            hash_keys.append(value)
        elif number == _RECORDS:
            records.append(_record(value))
    return _Aggregate(keys, hash_keys, records)


def _record(body: bytes) -> _Record:
    key: int | None = None
    hash_key: int | None = None
    data: bytes | None = None
    for number, value in _fields(body, depth=1):
        if isinstance(value, int):
            if number == _KEY_INDEX:
                key = _java_int(value)
            elif number == _HASH_KEY_INDEX:
                hash_key = _java_int(value)
        elif number == _DATA:
            data = value
        elif number == _TAGS:
            tag = list(_fields(value, depth=2))  # all of it: KCL refuses a tag that is malformed behind its name
            if not any(number == 1 and isinstance(name, bytes) for number, name in tag):
                raise _NotAnAggregateError("a tag without its name")
    if key is None or data is None:
        raise _NotAnAggregateError("a record without key or data")
    return _Record(key, hash_key, data)


def _fields(message: bytes, depth: int) -> Iterator[tuple[int, int | bytes]]:
    """Yield (field number, value) of the varints and byte strings of a message; other fields are skipped."""
    at = 0
    groups: list[int] = []
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = (tag & 0xFFFFFFFF) >> 3, tag & 7
        if number == 0:
            raise _NotAnAggregateError("field number 0")
        value: int | bytes | None = None
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _BYTES:
            size, at = _varint(message, at)
            value, at = _take(message, at, _java_int(size))
        elif kind in _FIXED_SIZES:
            _, at = _take(message, at, _FIXED_SIZES[kind])
        elif kind == _GROUP and depth + len(groups) < _DEEPEST:
            groups.append(number)
        elif kind != _GROUP_END or not groups or groups.pop() != number:
            raise _NotAnAggregateError(f"wire type {kind}")
        if value is not None and not groups:
            yield number, value
    if groups:
        raise _NotAnAggregateError("a group without end")


def _take(message: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(message) - at:
        raise _NotAnAggregateError("a field that is longer than the message")
    return message[at : at + size], at + size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and the index after it. More than ten bytes are refused, more than 64 bits are cut off."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
    raise _NotAnAggregateError("a number without end")


def _java_int(value: int) -> int:
    """Return `(int) value` as Java casts: the low 32 bits, signed."""
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _text(raw: bytes) -> str:
    """Decode as Java does: malformed UTF-8 is replaced."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, raw).decode(errors="replace")
