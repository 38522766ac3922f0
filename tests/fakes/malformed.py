"""Malformed aggregates, drawn by a seed: every kind that a hostile or a broken producer could send, by its name.

Not every drawn one is malformed for KCL: what a kind delivers, and what not, only `minutebook.format.aggregate` says.
"""

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from minutebook.format.aggregate import HashRange
from tests.fakes.aggregates import LARGEST_HASH_KEY, MAGIC, field, poison_aggregate, record, seal, varint

_GROUP, _GROUP_END, _BYTES = 3, 4, 2
_BAD_UTF8: Final = (
    b"\xff",
    b"\xc0\x80",
    b"\xc3",
    b"\x80",
    b"\xed\xa0\x80",
    b"\xe0\xa0",
    b"\xf0\x90\x80",
    b"\xf5\x80",
)
_NO_NUMBERS: Final = ("", "x", "-", "+-1", "1 ", " 1", "0x10", "1_0", "1.0", "1e3", "²", "\U0001d7d8", "7\n", "\0")
_BOMB_KEY: Final = 20_000
_BOMB_EVERY: Final = 100
"""Records between two bombs: below the bound one becomes 30 MB."""


class Aim(NamedTuple):
    """Where a record goes: a key of its shard, that shard's hash keys, and a key of another shard."""

    key: str
    stray: str
    home: HashRange


class Drawn(NamedTuple):
    """The payload of a Kinesis record, and what was done to it."""

    kind: str
    data: bytes


_Draw = Callable[[random.Random, Aim], bytes]


class Deck:
    """Draws every kind as often as every other, in a drawn order, and a key bomb now and then."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._number = 0
        self._kinds: list[str] = []

    def draw(self, aim: Aim) -> Drawn:
        """Draw the next payload."""
        self._number += 1
        if self._number % _BOMB_EVERY == _BOMB_EVERY // 2:
            kind = self._rng.choice(sorted(BOMBS))
            return Drawn(kind, BOMBS[kind](self._rng, aim))
        if not self._kinds:
            self._kinds = sorted(KINDS)
            self._rng.shuffle(self._kinds)
        kind = self._kinds.pop()
        return Drawn(kind, KINDS[kind](self._rng, aim))


def _records(rng: random.Random, most: int = 5) -> list[bytes]:
    return [record(rng.randbytes(rng.randrange(30))) for _ in range(rng.randint(1, most))]


def _good(rng: random.Random, aim: Aim) -> bytes:
    """Return the message of a good aggregate."""
    return field(1, aim.key.encode()) + b"".join(_records(rng))


def _among(rng: random.Random, aim: Aim, odd: bytes, tables: bytes = b"") -> bytes:
    """Return an aggregate with `odd` somewhere among good records."""
    records = _records(rng)
    records.insert(rng.randrange(len(records) + 1), odd)
    return seal(field(1, aim.key.encode()) + tables + b"".join(records))


def _hashed(rng: random.Random, aim: Aim, text: str) -> bytes:
    """Return an aggregate of which one record has this explicit hash key, and the others good ones."""
    tables = field(2, str(aim.home.first).encode()) + field(2, text.encode())
    return _among(rng, aim, record(b"odd", hash_key=1) + record(b"good", hash_key=0), tables)


def _wrong_digest(rng: random.Random, aim: Aim) -> bytes:
    data = bytearray(seal(_good(rng, aim)))
    data[-rng.randint(1, 16)] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _mutated(rng: random.Random, aim: Aim) -> bytes:
    """Change a few bytes of the message, then seal it: the digest is right."""
    message = bytearray(_good(rng, aim) + field(2, b"5") + record(b"tagged", more=_tag(b"name")))
    for _ in range(rng.randint(1, 5)):
        at, length = rng.randrange(len(message)), rng.randint(1, 6)
        match rng.choice(("flip", "flip", "byte", "cut", "repeat", "new")):
            case "flip":
                message[at] ^= 1 << rng.randrange(8)
            case "byte":
                message[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case "cut" if len(message) > length + 1:
                del message[at : at + length]
            case "repeat":
                message[at:at] = message[at : at + length] * rng.randint(1, 20)
            case _:
                message[at:at] = rng.randbytes(length)
    return seal(bytes(message))


def _tag(name: bytes) -> bytes:
    return field(4, field(1, name) + field(2, b"value"))


def _huge_number(rng: random.Random, aim: Aim) -> bytes:
    """Put a varint of 1 to 200,000 bytes in the place of an index, of a length, of a tag, or of nothing known."""
    huge = b"\xff" * rng.choice((4, 8, 9, 10, 11, 100, 200_000)) + bytes([rng.choice((0, 1, 0x7F))])
    lead = varint(9 << 3)
    return _among(
        rng,
        aim,
        rng.choice(
            (
                field(3, varint(1 << 3) + huge + field(3, b"index")),
                field(3, field(1, 0) + varint(2 << 3) + huge + field(3, b"hash key index")),
                varint(9 << 3 | _BYTES) + huge + b"length",
                lead + huge,
                huge + b"\0",
            )
        ),
    )


def _wrong_index(rng: random.Random, aim: Aim) -> bytes:
    index = rng.choice((1, 2, rng.randrange(1, 1 << 31), 1 << 31, (1 << 32) - 1, (1 << 63), (1 << 64) - 1))
    odd = record(b"odd", key=index) if rng.random() < 0.5 else record(b"odd", hash_key=index)
    return _among(rng, aim, odd)


def _wrapped_index(rng: random.Random, aim: Aim) -> bytes:
    index = rng.choice((1, 2, 1 << 8, (1 << 32) - 1)) << 32
    return _among(rng, aim, record(b"odd", key=index + rng.choice((0, 0, 1))))


def _bad_text(rng: random.Random, aim: Aim) -> bytes:
    """Let some records have a key that is no UTF-8; explicit hash keys take them to the shard, sometimes."""
    key = rng.choice((b"", b"key")) + rng.choice(_BAD_UTF8) + rng.choice((b"", b"A", rng.choice(_BAD_UTF8)))
    tables = field(1, key) + field(2, str(rng.randint(aim.home.first, aim.home.last)).encode())
    return _among(rng, aim, record(b"odd", key=1, hash_key=0 if rng.random() < 0.8 else None), tables)


def _no_record(rng: random.Random, aim: Aim) -> bytes:
    more = rng.choice((b"", field(1, b"unused"), field(2, b"5"), field(9, b"?"), field(2, b"x") * 50))
    return seal(field(1, aim.key.encode()) + more)


def _groups(rng: random.Random, aim: Aim) -> bytes:
    start, end = varint(5 << 3 | _GROUP), varint(5 << 3 | _GROUP_END)
    depth = rng.choice((1, 2, 50, 98, 99, 100, 101, 300))
    odd = start * depth + field(7, 7) + end * (depth if rng.random() < 0.7 else rng.randrange(depth + 2))
    return _among(rng, aim, odd if rng.random() < 0.5 else record(b"odd", more=odd))


def _unknown(rng: random.Random, aim: Aim) -> bytes:
    number = rng.choice((5, 9, 100, (1 << 29) - 1))
    odd = field(number, rng.getrandbits(rng.randrange(1, 64)) if rng.random() < 0.5 else rng.randbytes(20))
    return _among(rng, aim, rng.choice((odd, record(b"odd", more=odd), record(b"odd", more=field(4, odd)))))


def _outside(rng: random.Random, aim: Aim) -> bytes:
    places = (aim.home.first - 1, aim.home.last + 1, -1, LARGEST_HASH_KEY + 1, 10**5000)
    number = rng.choice(places)
    return _hashed(rng, aim, "9" * 5001 if number == places[-1] else str(number))


def _strays(rng: random.Random, aim: Aim) -> bytes:
    odd = record(b"stray", key=1) * rng.randint(1, 3)
    return _among(rng, aim, odd, field(1, aim.stray.encode()))


def _tags(rng: random.Random, aim: Aim) -> bytes:
    """Repeat tags, and what is in them; or leave a tag's name out."""
    tag = rng.choice((_tag(b"name"), field(4, field(1, b"a") * 3 + field(2, b"b") * 2), field(4, field(2, b"v"))))
    return _among(rng, aim, record(b"odd", more=tag * rng.choice((2, 3, 500))))


def _twice(rng: random.Random, aim: Aim) -> bytes:
    """Give a record its index and its data twice: the last ones count."""
    more = field(1, rng.choice((0, 0, 1))) + field(3, b"again") + (field(2, 0) * 2 if rng.random() < 0.3 else b"")
    return _among(rng, aim, record(b"odd", more=more))


def _other_type(rng: random.Random, aim: Aim) -> bytes:
    odd = (
        field(3, 1) + field(1, 1) + field(2, 1),
        field(3, field(1, b"\0") + field(3, b"x")),
        field(3, field(1, 0) + field(3, 7)),
        field(3, b""),
        b"\0\1",
        b"\x0e\1",
        b"\x0f\1",
    )
    return _among(rng, aim, rng.choice(odd))


def _small_bomb(rng: random.Random, aim: Aim) -> bytes:
    """Stay below our bound: all of it is delivered, 5 to 30 MB."""
    key = key_in(aim.home, "k" * _BOMB_KEY).encode()
    return seal(field(1, key) + b"".join(record(b"%d" % n) for n in range(rng.randint(250, 1_500))))


def _large_bomb(rng: random.Random, _: Aim) -> bytes:
    """Go beyond it: 400 MB, if KCL alone had its way."""
    return seal(field(1, b"k" * _BOMB_KEY) + b"".join(record(b"") for _ in range(rng.randint(2_000, 20_000))))


KINDS: Final[Mapping[str, _Draw]] = {
    "cut off": lambda rng, aim: _cut(rng, seal(_good(rng, aim))),
    "cut off, then sealed": lambda rng, aim: seal(_cut(rng, _good(rng, aim))),
    "wrong checksum": _wrong_digest,
    "changed bytes, then sealed": _mutated,
    "noise, sealed": lambda rng, _: seal(rng.randbytes(rng.randrange(60))),
    "magic alone": lambda rng, _: rng.choice((MAGIC, MAGIC[:3], MAGIC + bytes(15), MAGIC + bytes(16), MAGIC * 6)),
    "huge numbers": _huge_number,
    "first record malformed": lambda rng, aim: poison_aggregate(rng, aim.key),
    "index outside its table": _wrong_index,
    "index beyond 2^32": _wrapped_index,
    "key that is no UTF-8": _bad_text,
    "no record": _no_record,
    "groups": _groups,
    "unknown fields": _unknown,
    "hash key outside the shard": _outside,
    "hash key that is no number": lambda rng, aim: _hashed(rng, aim, rng.choice(_NO_NUMBERS)),
    "another shard's key": _strays,
    "tags twice": _tags,
    "fields twice": _twice,
    "fields of another type": _other_type,
}
BOMBS: Final[Mapping[str, _Draw]] = {"key bomb": _small_bomb, "key bomb beyond the bound": _large_bomb}


def key_in(home: HashRange, begin: str = "key-") -> str:
    """Return a partition key whose hash lies in a range, well away from its ends: kinesis-local moves them by one."""
    margin = home.width // 1_000
    for number in range(100_000):
        key = f"{begin}{number}"
        place = int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest(), "big")
        if home.first + margin < place < home.last - margin:
            return key
    raise AssertionError(f"no key for {home}")
