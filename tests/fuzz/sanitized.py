"""A program that throws damaged text at a codec compiled with sanitizers: any byte touched outside ends it.

python -m tests.fuzz.sanitized LIBRARY CASES SEED      prints {"written": ..., "read": ..., ...}: taken of each

Each input and each output lies in memory of its very size, which the sanitizer's malloc fences. What is taken is what
the codec in Python makes of the same text.
"""

import ctypes
import json
import os
import random
import sys
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

import msgspec

from minutebook.codec.columns import (
    BYTES,
    FIELDS,
    FLAGS,
    LONGS,
    OFFSETS,
    SLACK_BYTES,
    LineColumns,
    Shown,
    Texts,
    reading,
)
from minutebook.codec.documents import (
    ColumnsOfDocuments,
    FoundValues,
    MappedMemory,
    ValueKind,
    WantedColumn,
    WantedField,
    WantedList,
    WantedStruct,
    WantedValues,
)
from minutebook.codec.lines import Stretch, writing
from minutebook.format.record import Record, decode_block, encode_lines
from tests.fuzz import payloads

SHARD = "s"
PREFIX = b'{"shard_id":"s","sequence_number":"'
FIRST = 4968 * 10**52
SIZES = (0, 1, 2, 3, 7, 11, 12, 13, 14, 15, 16, 17, 18, 31, 32, 33, 47, 48, 49, 100, 300)
KEYS = ("", "p", "k" * 40, "é日", "x" * 15, "y" * 16, "z" * 17 + "é")
PIECES = (
    *(b'"', b"\\", b"\\u00", b"\\u001", b"\\u000a", b"=", b"==", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f"),
    *(b"\xf4\x90\x80\x80", b",", b"}", b"{", b"0", b"9" * 20, b"-", b" ", b"\n", b"\0", b"\x1f"),
    *(b'"data_base64":"', b'"data":"'),
)
LONG = WantedValues(ValueKind.WHOLE, 8, low=-(1 << 63), high=(1 << 63) - 1)
AFTER = WantedStruct(
    (
        WantedField("id", LONG, is_required=True),
        WantedField("price", WantedValues(ValueKind.DECIMAL, 16, 10, 2)),
        WantedField("at", WantedValues(ValueKind.ZONED_TIME, 8)),
        WantedField("tags", WantedList(WantedValues(ValueKind.TEXT), is_element_required=True)),
    )
)
ITEM = WantedStruct((WantedField("sku", WantedValues(ValueKind.TEXT)), WantedField("n", LONG)))
WANTED = (
    WantedColumn(("text",), WantedValues(ValueKind.TEXT), is_required=True),
    WantedColumn(("truth",), WantedValues(ValueKind.TRUTH, 1)),
    WantedColumn(("small",), WantedValues(ValueKind.WHOLE, 4, low=-(1 << 31), high=(1 << 31) - 1)),
    WantedColumn(("numbers", "large"), LONG),
    WantedColumn(("numbers", "double"), WantedValues(ValueKind.DOUBLE, 8)),
    WantedColumn(("numbers", "price"), WantedValues(ValueKind.DECIMAL, 16, 10, 2)),
    WantedColumn(("numbers", "wide"), WantedValues(ValueKind.DECIMAL, 16, 38, 20)),
    WantedColumn(("day",), WantedValues(ValueKind.DATE, 4)),
    WantedColumn(("time",), WantedValues(ValueKind.ZONED_TIME, 8)),
    WantedColumn(("local",), WantedValues(ValueKind.LOCAL_TIME, 8)),
    WantedColumn(("names",), WantedList(WantedValues(ValueKind.TEXT))),
    WantedColumn(("counts",), WantedList(LONG, is_element_required=True)),
    WantedColumn(("rest",), WantedValues(ValueKind.JSON)),
    WantedColumn(("rest", "inner"), WantedValues(ValueKind.TEXT)),
    WantedColumn(("after",), AFTER),
    WantedColumn(("items",), WantedList(ITEM)),
    WantedColumn(("grid",), WantedList(WantedList(LONG))),
)
decode = msgspec.json.Decoder(list[Record]).decode
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]


@contextmanager
def memory(*sizes: int, text: bytes = b"") -> Iterator[list[int]]:
    """Lend blocks of these sizes; before them one of the text's size that holds it, where there is a text."""
    places = [libc.malloc(max(1, size)) for size in (*([len(text)] if text else []), *sizes)]
    if text:
        ctypes.memmove(places[0], text, len(text))
    yield places
    for place in places:
        libc.free(place)


def payload(rng: random.Random) -> bytes:
    """Return a payload: bytes, text of any kind, text that is damaged at its end."""
    size = rng.choice(SIZES)
    makers: tuple[Callable[[], bytes], ...] = (
        lambda: rng.randbytes(size),
        lambda: bytes(rng.choices(b'abc"\\\n\0\x1f', k=size)),
        lambda: "".join(rng.choices(["é", "日", "\U0001f9ff", "a", '"'], k=size)).encode(),
        lambda: b"x" * size + b"\xff",
        lambda: "日".encode() * (size // 3) + b"\xe6",
        lambda: b"\xed\xa0\x80" * (size // 3 + 1),  # a surrogate
        lambda: bytes(size),
        lambda: bytes(rng.choices(b'abcdefgh {}":,', k=size)),
    )
    return rng.choice(makers)()


def damaged(rng: random.Random, text: bytes) -> bytes:
    """Change, cut or insert a little, often nothing."""
    made = bytearray(text)
    if rng.random() < 0.1 and (padded := text.find(b"=")) > 0:
        made[padded - 1] = rng.choice(b"BJz9/")  # base64 whose last bits say something
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        at, piece = rng.randrange(len(made) + 1), rng.choice(PIECES)
        cut = rng.choice([0, 1, len(piece), 8, len(made)])
        made[at : at + cut] = rng.choice([b"", piece, rng.randbytes(1)])
    return bytes(made)


def records(rng: random.Random) -> list[Record]:
    """Return a few records that ascend."""
    return [
        Record(
            str(FIRST + number),
            rng.choice([0, number, 10**18 - 1]),
            rng.choice(KEYS),
            rng.choice([0, 5, 1_795_256_161_000, 2**63 // 1000]),
            payload(rng),
        )
        for number in range(rng.randrange(1, 5))
    ]


def wire(rng: random.Random, record: Record) -> dict[str, object]:
    """Return a record as the daemon writes it, its last two fields in either order."""
    last = [("approximateArrivalTimestamp", record.arrival_ms), ("subSequenceNumber", record.sub_sequence_number)]
    rng.shuffle(last)
    head = {"action": "record", "data": b64encode(record.data).decode(), "partitionKey": record.partition_key}
    return {**head, "sequenceNumber": record.sequence_number, **dict(last)}


def try_writing(library: ctypes.CDLL, rng: random.Random) -> bool:
    """Give damaged records, and room for less or more than their lines; tells whether they were taken."""
    sound = json.dumps([wire(rng, one) for one in records(rng)], separators=(",", ":"), ensure_ascii=False)
    text, seen = damaged(rng, sound.encode()[1:-1]), Stretch()
    room = rng.choice([0, 1, len(text), len(text) + 200, 3 * len(text) + 2000, rng.randrange(3 * len(text) + 100)])
    with memory(room, text=text or b" ") as (source, target):
        size = writing(library)(source, len(text), PREFIX, len(PREFIX), target, room, seen)
        lines = ctypes.string_at(target, max(0, size))
    if size < 0:
        return False
    twins = decode(b"[" + text + b"]")
    assert lines == encode_lines(SHARD, twins), text
    assert seen.payload_bytes == sum(len(twin.data) for twin in twins), text
    return True


def try_reading(library: ctypes.CDLL, rng: random.Random) -> bool:
    """Give damaged lines, and room for fewer or more rows; tells whether they were taken.

    They come in two blocks, the second behind the rows of the first.
    """
    sound = records(rng)
    text, rows, shown = damaged(rng, encode_lines(SHARD, sound)), rng.randrange(len(sound) + 3), Shown()
    sizes = {BYTES: len(text) + SLACK_BYTES, OFFSETS: 4 * (rows + 1), LONGS: 8 * rows, FLAGS: rows}
    cut = text.find(b"\n", rng.randrange(len(text) + 1)) + 1
    with memory(*(sizes[kind] for _, kind in FIELDS)) as places:
        columns = LineColumns(*places, rows)
        for block in (text[:cut], text[cut:]):
            with memory(text=block or b" ") as (source,):
                taken = reading(library)(source, len(block), PREFIX, len(PREFIX), columns, shown)
            if taken < 0 and (block or not text):
                return False
            columns.rows += max(taken, 0)
        ends = ctypes.string_at(columns.key_offsets, 4 * (columns.rows + 1))
        keys = ctypes.string_at(columns.keys, array("i", ends)[-1])
    twins = decode_block(text, len(text))
    assert twins is not None, text
    assert (columns.rows, keys.decode()) == (len(twins), "".join(twin.partition_key for twin in twins)), text
    return True


class FencedMemory(MappedMemory):
    """Lends blocks of malloc's, each of the very size that was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._places: list[int] = []

    def place(self, size: int) -> tuple[memoryview, int]:
        """Return so many bytes, and their address."""
        at = libc.malloc(size)
        self._places.append(at)
        return memoryview((ctypes.c_char * size).from_address(at)).cast("B"), at

    def free(self) -> None:
        """Give them back."""
        for at in self._places:
            libc.free(at)


def try_documents(library: ctypes.CDLL, rng: random.Random) -> bool:
    """Give a few payloads, and room for no more than they take; tells whether any was taken."""
    texts = [payloads.payload(rng) for _ in range(rng.randrange(1, 4))]
    joined, room = b"".join(texts), FencedMemory()
    reader = ColumnsOfDocuments(library, WANTED, len(texts), len(joined), room)
    ends = memoryview(array("i", accumulate(map(len, texts), initial=0)))
    with memory(text=joined or b" ") as (source,):
        found = reader.read(ends, source)
    assert found is not None
    column = found.columns[0]
    assert isinstance(column, FoundValues)
    assert isinstance(column.content, Texts)
    offsets = memoryview(column.content.offsets).cast("i")
    for row in {*range(len(texts))} - {*found.left}:
        text = column.content.content[offsets[row] : offsets[row + 1]].decode()
        assert text == json.loads(texts[row])["text"], texts[row]
    room.free()
    return len(found.left) < len(texts)


def try_pipe(library: ctypes.CDLL, rng: random.Random) -> bool:
    """Give a pipe more or less than there is room for; tells whether a line ended in it."""
    text = rng.choice([payload(rng), damaged(rng, b"a\nbc\n")])
    filled, free = rng.choice([0, 1, 17]), rng.choice([0, 1, max(0, len(text) - 1), len(text), len(text) + 3])
    source, target = os.pipe()
    os.write(target, text)
    os.close(target)
    end = (ctypes.c_int64 * 2)(-1, -2)
    with memory(filled + free) as (place,):
        ctypes.memset(place, 0, filled + free)
        size = library.minutebook_read_pipe(
            source,
            ctypes.c_void_p(place),
            ctypes.c_size_t(filled),
            ctypes.c_size_t(filled + free),
            end,
        )
        found = ctypes.string_at(place, size)
    os.close(source)
    assert found == bytes(filled) + text[:free], text
    is_line = b"\n" in text[:free]
    assert end[0] == (filled + text.index(b"\n") + 1 if is_line else 0), text
    assert end[1] == (0 if is_line or free <= len(text) else -1), text
    return is_line


def main() -> None:
    """Throw it."""
    library, rng = ctypes.CDLL(sys.argv[1]), random.Random(int(sys.argv[3]))
    written = read = documents = pipes = 0
    for _ in range(int(sys.argv[2])):
        written += try_writing(library, rng)
        read += try_reading(library, rng)
        documents += try_documents(library, rng)
        pipes += try_pipe(library, rng)
    taken = {"written": written, "read": read, "documents": documents, "pipes": pipes}
    sys.stdout.write(json.dumps(taken) + "\n")


if __name__ == "__main__":
    main()
