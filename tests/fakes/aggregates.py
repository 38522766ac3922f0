"""KPL aggregates as any producer could send them: valid, odd, and malformed in each way that we know.

`SHAPES` names them; `tests/data/kpl/answers.json` holds what KCL makes of each. `random_aggregate` draws others.
"""

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

MAGIC: Final = b"\xf3\x89\x9a\xc2"
LARGEST_HASH_KEY: Final = 2**128 - 1
_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)


class Shape(NamedTuple):
    """The payload of a Kinesis record, and the hash range of its shard."""

    data: bytes
    first_hash_key: int = 0
    last_hash_key: int = LARGEST_HASH_KEY


def varint(value: int) -> bytes:
    """Return a protobuf varint."""
    out: list[int] = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: bytes | int) -> bytes:
    """Return one field: a number as varint, bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3 | _VARINT) + varint(value)
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


def seal(message: bytes) -> bytes:
    """Return the Kinesis record around an aggregate's message."""
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def record(data: bytes = b"d", key: int = 0, hash_key: int | None = None, more: bytes = b"") -> bytes:
    """Return one user record's field."""
    explicit = b"" if hash_key is None else field(2, hash_key)
    return field(3, field(1, key) + explicit + field(3, data) + more)


def _hashed(*texts: str) -> bytes:
    """Return an aggregate whose records have these explicit hash keys, one each."""
    tables = b"".join(field(2, text.encode()) for text in texts)
    return seal(_KEY + tables + b"".join(record(b"%d" % n, hash_key=n) for n in range(len(texts))))


def _keyed(key: bytes) -> bytes:
    return seal(field(1, key) + record())


def _among(odd: bytes) -> bytes:
    """Return an aggregate with `odd` between two good records."""
    return seal(_KEY + record(b"before") + odd + record(b"after"))


def _costing(cost: int) -> bytes:
    """Return an aggregate of 64 records that cost this much, by `BoundedAggregatorUtil`."""
    size, rest = divmod(cost - 64 * 256, 64)
    return seal(field(1, b"k" * size) + record(b"") * 63 + record(b"x" * rest))


_KEY: Final = field(1, b"k")
_TWO: Final = _KEY + record(b"a") + record(b"b")
BOMB: Final = seal(field(1, b"k" * 300_000) + record(b"") * 60_000)
"""0.7 MB that KCL alone would make 18 GB of."""
_HALF: Final = LARGEST_HASH_KEY // 2

SHAPES: Final[Mapping[str, Shape]] = {
    "no data": Shape(b""),
    "shorter than the magic": Shape(MAGIC[:3]),
    "magic alone": Shape(MAGIC),
    "magic and a digest of nothing": Shape(seal(b"")),
    "one byte less than a digest": Shape(MAGIC + bytes(15)),
    "wrong digest": Shape(MAGIC + _TWO + bytes(16)),
    "cut at the end": Shape(seal(_TWO)[:-1]),
    "cut in the message": Shape(seal(_TWO[:-1])),
    "two records": Shape(seal(_TWO)),
    "keys behind the records": Shape(seal(record(b"a") + record(b"b") + _KEY)),
    "unused keys": Shape(seal(_KEY + field(1, b"unused") + field(2, b"unused") + record())),
    "no record": Shape(seal(_KEY)),
    "empty key, empty data": Shape(seal(field(1, b"") + record(b""))),
    "no key table": Shape(seal(record())),
    "tags": Shape(_among(record(b"t", more=field(4, field(1, b"name") + field(2, b"value"))))),
    "a tag without its name": Shape(_among(record(b"t", more=field(4, field(2, b"value"))))),
    "explicit hash keys": Shape(_hashed("0", "7", str(LARGEST_HASH_KEY))),
    "index and data twice": Shape(seal(_KEY + field(1, b"l") + record(b"x", more=field(1, 1) + field(3, b"y")))),
    # what protobuf skips
    "unknown number": Shape(_among(field(9, 1 << 63))),
    "unknown bytes": Shape(_among(field(9, b"?"))),
    "unknown fixed": Shape(_among(varint(9 << 3 | _FIXED64) + bytes(8) + varint(9 << 3 | _FIXED32) + bytes(4))),
    "unknown in a record": Shape(_among(record(b"t", more=field(9, b"?") + field(8, 5)))),
    "a group": Shape(_among(varint(5 << 3 | _GROUP) + field(1, 1) + varint(5 << 3 | _GROUP_END))),
    "a group in a record": Shape(_among(record(more=varint(5 << 3 | _GROUP) + varint(5 << 3 | _GROUP_END)))),
    "groups 100 deep": Shape(_among(b"\x2b" * 100 + b"\x2c" * 100)),
    "groups 101 deep": Shape(_among(b"\x2b" * 101 + b"\x2c" * 101)),
    "groups 99 deep in a record": Shape(_among(record(more=b"\x2b" * 99 + b"\x2c" * 99))),
    "groups 100 deep in a record": Shape(_among(record(more=b"\x2b" * 100 + b"\x2c" * 100))),
    "groups 98 deep in a tag": Shape(_among(record(more=field(4, field(1, b"n") + b"\x2b" * 98 + b"\x2c" * 98)))),
    "groups 99 deep in a tag": Shape(_among(record(more=field(4, field(1, b"n") + b"\x2b" * 99 + b"\x2c" * 99)))),
    "a known field of another type": Shape(_among(field(3, 1) + field(1, 1) + field(2, 1))),
    "index as bytes": Shape(_among(field(3, field(1, b"\0") + field(3, b"x")))),
    "data as a number": Shape(_among(field(3, field(1, 0) + field(3, 7)))),
    "records as a group": Shape(_among(varint(3 << 3 | _GROUP) + varint(3 << 3 | _GROUP_END))),
    # what protobuf refuses
    "a group without end": Shape(_among(varint(5 << 3 | _GROUP))),
    "a group with another's end": Shape(_among(varint(5 << 3 | _GROUP) + varint(6 << 3 | _GROUP_END))),
    "an end without a group": Shape(_among(varint(5 << 3 | _GROUP_END))),
    "an end in a record": Shape(_among(record(more=varint(5 << 3 | _GROUP_END)))),
    "a group that ends behind its record": Shape(
        _among(record(more=varint(5 << 3 | _GROUP)) + varint(5 << 3 | _GROUP_END))
    ),
    "field number 0": Shape(_among(b"\x00\x01")),
    "wire type 6": Shape(_among(b"\x0e\x01")),
    "wire type 7": Shape(_among(b"\x0f\x01")),
    "a record without index": Shape(_among(field(3, field(3, b"x")))),
    "a record without data": Shape(_among(field(3, field(1, 0)))),
    "an empty record": Shape(_among(field(3, b""))),
    "longer than the rest": Shape(seal(_TWO + varint(9 << 3 | _BYTES) + varint(2) + b"x")),
    "negative length": Shape(seal(_TWO + varint(9 << 3 | _BYTES) + varint((1 << 64) - 1) + b"x")),
    "fixed64 cut": Shape(seal(_TWO + varint(9 << 3 | _FIXED64) + bytes(7))),
    "fixed32 cut": Shape(seal(_TWO + varint(9 << 3 | _FIXED32) + bytes(3))),
    "a number cut": Shape(seal(_TWO + field(9, 1 << 40)[:-1])),
    "a number of 10 bytes": Shape(_among(varint(9 << 3) + b"\xff" * 9 + b"\x7f")),
    "a number of 11 bytes": Shape(_among(varint(9 << 3) + b"\xff" * 10 + b"\x01")),
    "a number of 400,000 bytes": Shape(seal(_KEY + varint(9 << 3) + b"\xff" * 400_000 + b"\x01")),
    # what Java casts
    "index 2^32": Shape(_among(record(b"x", key=1 << 32))),
    "index 2^64": Shape(_among(field(3, varint(1 << 3) + b"\x80" * 9 + b"\x02" + field(3, b"x")))),
    "hash key index 2^32": Shape(seal(_KEY + field(2, b"5") + record(b"x", hash_key=1 << 32))),
    "length 2^32 + 1": Shape(seal(_TWO + varint(9 << 3 | _BYTES) + varint((1 << 32) + 1) + b"x")),
    "field number 2^29 + 9": Shape(_among(varint((1 << 29 | 9) << 3) + b"\x01")),
    "field number 2^29": Shape(_among(varint(1 << 32) + b"\x01")),
    # what runs into KCL's `catch`
    "index beyond the table": Shape(_among(record(b"x", key=1))),
    "index beyond the table at once": Shape(seal(_KEY + record(b"x", key=1) + record(b"y"))),
    "index 2^31": Shape(_among(record(b"x", key=1 << 31))),
    "index 2^64 - 1": Shape(_among(record(b"x", key=(1 << 64) - 1))),
    "hash key index beyond its table": Shape(_among(record(b"x", hash_key=0))),
    **{
        f"hash key {text!r}": Shape(_hashed("1", text, "2"))
        for text in (
            "",
            "x",
            "+",
            "-",
            "1-2",
            "+-1",
            "--1",
            " 1",
            "1 ",
            "0x1",
            "1_0",
            "1.0",
            "1e3",
            "\U0001d7d8",
            "²",
        )
    },
    # what is a number for Java
    **{
        f"hash key {text!r}": Shape(_hashed("1", text, "2"))
        for text in ("+5", "-0", "0005", "\uff15", "\u0665", "\u0966\uff15")
    },
    "hash key of 5,000 zeros and a 5": Shape(_hashed("1", "0" * 5000 + "5", "2")),
    "hash key of 5,000 zeros and an x": Shape(_hashed("1", "0" * 5000 + "x", "2")),
    "hash key of 5,000 digits": Shape(_hashed("1", "9" * 5000, "2")),
    "hash key of 5,000 digits and an x": Shape(_hashed("1", "9" * 5000 + "x", "2")),
    # outside the shard: all or nothing
    "hash key -1": Shape(_hashed("1", "-1", "2")),
    "hash key 2^128": Shape(_hashed("1", str(1 << 128), "2")),
    "hash keys at both ends of the shard": Shape(_hashed("100", "200"), 100, 200),
    "hash key below the shard": Shape(_hashed("100", "99", "150"), 100, 200),
    "hash key above the shard": Shape(_hashed("100", "201", "150"), 100, 200),
    "hash key outside, then no number": Shape(_hashed("100", "201", "x"), 100, 200),
    "no number, then a hash key outside": Shape(_hashed("100", "x", "201"), 100, 200),
    "key in the lower half": Shape(seal(_TWO), 0, _HALF),
    "key in the upper half": Shape(seal(_TWO), _HALF + 1, LARGEST_HASH_KEY),
    # what would become too large: delivered whole
    "as large as it may become": Shape(_costing(32 << 20)),
    "larger than it may become": Shape(_costing((32 << 20) + 1)),
    "larger than it may become behind a wrong index": Shape(
        seal(field(1, b"k" * 100_000) + record() * 200 + record(key=1) + record() * 200)
    ),
    "hash key of 500,000 zeros": Shape(_hashed("0" * 500_000)),
    "hash key of 525,000 zeros": Shape(_hashed("0" * 525_000)),
    "unused hash key of 525,000 zeros": Shape(seal(_TWO + field(2, b"0" * 525_000))),
    # keys that are no UTF-8
    **{
        f"key {key.hex()}": Shape(_keyed(key))
        for key in (
            b"caf\xc3\xa9 \xf0\x9f\x9b\xa9",
            b"\xff",
            b"\xc0\x80",
            b"\xc3",
            b"\xc3A",
            b"\x80",
            b"\xed\xa0\x80",
            b"\xed\xa0\x80\xed\xb0\x80",
            b"\xed\xa0",
            b"\xed\xa0A",
            b"\xed",
            b"\xe0\x80\x80",
            b"\xe0\xa0",
            b"\xe0\xa0A",
            b"\xf0\x80\x80\x80",
            b"\xf0\x90",
            b"\xf0\x90\x80",
            b"\xf0\x90\x80A",
            b"\xf0\x90AB",
            b"\xf0\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
            b"\xf8\x88\x80\x80\x80",
            b"A\xe6\x97\xed\xa0\x80\xe6\x97\xa5",
            b"\xef\xbb\xbfbom",
            b"\0",
        )
    },
}

_ODD: Final[tuple[Callable[[random.Random], bytes], ...]] = (
    lambda rng: record(rng.randbytes(3), key=rng.choice((0, 1, 2, 9, 1 << 31, 1 << 32, (1 << 32) + 1))),
    lambda rng: record(rng.randbytes(3), key=0, hash_key=rng.choice((0, 1, 2, 9, 1 << 32))),
    lambda rng: field(rng.randrange(1, 12), rng.randbytes(rng.randrange(4))),
    lambda rng: field(rng.randrange(1, 12), rng.getrandbits(rng.randrange(1, 64))),
    lambda rng: field(3, rng.randbytes(rng.randrange(8))),
    lambda rng: b"\x2b" * rng.randrange(1, 4) + b"\x2c" * rng.randrange(4),
    lambda rng: rng.randbytes(rng.randrange(1, 4)),
)


def random_aggregate(rng: random.Random) -> bytes:
    """Draw an aggregate with one to three odd fields among good records; its digest is right, nearly always."""
    fields = [field(1, b"k"), field(1, rng.randbytes(4)), field(2, b"5"), field(2, rng.choice((b"x", b"6", b"-1")))]
    fields += [record(b"%d" % number) for number in range(rng.randrange(4))]
    for _ in range(rng.randrange(1, 4)):
        fields.insert(rng.randrange(len(fields) + 1), rng.choice(_ODD)(rng))
    message = bytearray(b"".join(fields))
    if rng.random() < 0.3:
        message[rng.randrange(len(message))] = rng.randrange(256)
    whole = seal(bytes(message))
    return whole if rng.random() < 0.97 else whole[: -rng.randrange(1, 20)]


def poison_aggregate(rng: random.Random, key: str) -> bytes:
    """Draw an aggregate that the KPL never wrote, of which KCL delivers nothing: its first record is malformed."""
    first = rng.choice(
        (
            record(b"x", key=rng.randrange(1, 1 << 31)),
            record(b"x", key=rng.randrange(1 << 31, 1 << 32)),
            record(b"x", hash_key=rng.randrange(1, 1 << 31)),
            record(b"x", hash_key=0),
        )
    )
    good = b"".join(record(rng.randbytes(rng.randrange(50))) for _ in range(rng.randrange(4)))
    return seal(field(1, key.encode()) + field(2, rng.choice((b"", b"no number", b"0x10", b"1 2"))) + first + good)
