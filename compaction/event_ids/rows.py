"""Events of records as rows of 32 bytes, partitioned by the digest of the id. Pure.

An event is an id and a payload: a producer that retries sends the same bytes again. A task evaluates the user's path
on each payload, and makes a row. Rows of equal ids go to one partition:

    event, 18 bytes: of the id 10, of the payload 8 | object, 4 | line, 4 | arrival, epoch ms, 6

Numbers are big-endian, so sorted bytes are sorted numbers. Raw objects are numbered in the order of day, shard and
position, so lines are in the order of the stream. However often an object holds an id, it makes few rows:

    event, 18 bytes                  | object, 4 | first line, 4  | its arrival, 6
    event, 18 bytes                  | object, 4 | second line, 4 | 2^47 + how many lines, 6     if there are several
    id, 10 bytes | 8 times 255       | object, 4 | a line, 4      | 2^47 + how many lines, 6     if payloads are left

The last row counts lines whose payloads are not compared: those beyond `MOST_PAYLOADS` of an id in one object. An id
that so many payloads share is no event's; and one that all records of a day share must not make a row for each.
"""

import struct
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import IO, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from minutebook.errors import SafetyRefusal
from minutebook.format.payload import PayloadPath

ID_BYTES: Final = 10
"""With two billion ids, two have one digest with a probability of 2 in 10^6: a conflict is reported, no more."""
PAYLOAD_BYTES: Final = 8
EVENT_BYTES: Final = ID_BYTES + PAYLOAD_BYTES
"""With two billion records, two are taken for one event wrongly with a probability below 1 in 10^24."""
ROW: Final = struct.Struct(">18sIIHI")
ROW_BYTES: Final = ROW.size
COUNTED: Final = 1 << 47
"""Flag in the last field (`pack_row`): it is a count of lines."""
MOST_PAYLOADS: Final = 4
"""Different payloads of one id in one object that are compared."""
UNCOMPARED: Final = b"\xff" * PAYLOAD_BYTES
"""The payload of a row for the lines that are not compared."""
NUMBERS: Final = 1 << 32
"""Upper limit of object numbers: four bytes of a row."""
RUN_BYTES: Final = 16 << 20
"""Bytes of rows that a task holds in memory; more are spilled as sorted runs to an unnamed temporary file."""
_PREFIX_BITS: Final = 32
_PREFIX_BYTES: Final = _PREFIX_BITS // 8
_LOW_BITS: Final = 32
_LOW: Final = (1 << _LOW_BITS) - 1


Rows = bytes | bytearray | memoryview


class IdOrder(NamedTuple):
    """How a task collects ids: their path, the number of its first object, and the number of partitions.

    `room`: how many numbers belong to the task.
    """

    expression: str
    first_number: int
    partitions: int
    room: int = NUMBERS

    def of(self, first_number: int, room: int) -> "IdOrder":
        """Return the order of a task with the numbers of its objects."""
        return self._replace(first_number=first_number, room=room)


class IdCollector:
    """Collects the ids of a task's lines, object by object and block by block.

    Raises SafetyRefusal if the order has too few numbers for the objects.
    """

    def __init__(self, order: IdOrder, keys: Sequence[str], run_bytes: int = RUN_BYTES) -> None:
        if len(keys) > order.room or order.first_number + len(keys) > NUMBERS:
            raise SafetyRefusal(
                f"a task has {len(keys):,} objects, and numbers for {order.room:,} from {order.first_number:,} on: "
                "copies would be taken out of other objects",
                next_step="run the command without --event-id, and report this",
            )
        self._path = PayloadPath(order.expression)
        self._numbers = {key: number for number, key in enumerate(keys, start=order.first_number)}
        self._run_bytes = run_bytes
        self._runs = _Runs(order.partitions)
        self._rows = bytearray()
        self._key = ""
        self._of_object = bytearray()
        self._lines: dict[str, int] = {}
        self._missing: dict[str, int] = {}

    def add(self, payloads: Sequence[bytes], arrivals_ms: Sequence[int], key: str) -> None:
        """Evaluate the next lines of the object at `key`."""
        if key != self._key:
            self._end_object()
            self._key = key
        begin = self._lines.get(key, 0)
        self._lines[key] = begin + len(payloads)
        number, text, rows = self._numbers[key], self._path.text, self._of_object
        missing = 0
        for line, (payload, arrival_ms) in enumerate(zip(payloads, arrivals_ms, strict=True), start=begin):
            event_id = text(payload)
            if event_id is None:
                missing += 1
                continue
            rows += pack_row(event_digest(event_id, payload), number, line, min(max(0, arrival_ms), COUNTED - 1))
        if missing:
            self._missing[key] = self._missing.get(key, 0) + missing

    def missing(self) -> dict[str, int]:
        """Return the number of lines without an id, by object key."""
        return self._missing

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield (partition, rows), once."""
        self._end_object()
        yield from self._runs.drain(self._rows)

    def _end_object(self) -> None:
        self._rows += shortened(self._of_object)
        self._of_object.clear()
        if len(self._rows) >= self._run_bytes:
            self._runs.spill(self._rows)
            self._rows.clear()


class _Runs:
    """Sorted rows on disk, and the slices of each partition in the file."""

    def __init__(self, partitions: int) -> None:
        # The smallest prefix of each partition except the first.
        self._bounds = [-(-(part << _PREFIX_BITS) // partitions) for part in range(1, partitions)]
        self._files = ExitStack()
        self._file: IO[bytes] | None = None
        self._slices: list[tuple[int, int]] = []

    def spill(self, rows: bytearray) -> None:
        """Write rows to the file."""
        if self._file is None:
            file = tempfile.TemporaryFile()  # noqa: SIM115 - `drain` closes it
            self._file = self._files.enter_context(file)
        for part, chunk in self._cut(rows):
            self._slices.append((part, len(chunk)))
            self._file.write(chunk)

    def drain(self, rows: bytearray) -> Iterator[tuple[int, bytes]]:
        """Yield spilled rows, then `rows`."""
        with self._files:
            if self._file is not None:
                self._file.seek(0)
                for part, size in self._slices:
                    yield part, self._file.read(size)
            yield from self._cut(rows)
        rows.clear()

    def _cut(self, rows: bytearray) -> Iterator[tuple[int, bytes]]:
        ordered = memoryview(sorted_rows(rows))
        count, begin = len(rows) // ROW_BYTES, 0

        def prefix(index: int) -> int:
            return int.from_bytes(ordered[ROW_BYTES * index : ROW_BYTES * index + _PREFIX_BYTES], "big")

        for part, bound in enumerate([*self._bounds, 1 << _PREFIX_BITS]):
            end = bisect_left(range(count), bound, lo=begin, key=prefix)
            if end > begin:
                yield part, bytes(ordered[ROW_BYTES * begin : ROW_BYTES * end])
            begin = end


def event_digest(event_id: str, payload: bytes) -> bytes:
    """Return the digest of an event: of its id, given as `PayloadPath.text` returns it, and of its payload."""
    of_id = blake2b(event_id.encode(), digest_size=ID_BYTES).digest()
    return of_id + blake2b(payload, digest_size=PAYLOAD_BYTES).digest()


def pack_row(event: bytes, number: int, line: int, last: int) -> bytes:
    """Return a row; `last` has 48 bits."""
    return ROW.pack(event, number, line, last >> _LOW_BITS, last & _LOW)


def unpack_row(rows: Rows, index: int) -> tuple[bytes, int, int, int]:
    """Return event, object, line and last field of a row."""
    event, number, line, high, low = ROW.unpack_from(rows, ROW_BYTES * index)
    return event, number, line, high << _LOW_BITS | low


def sorted_rows(rows: bytes | bytearray) -> pa.Buffer:
    """Return the rows, sorted."""
    unsorted = pa.Array.from_buffers(pa.binary(ROW_BYTES), len(rows) // ROW_BYTES, [None, pa.py_buffer(bytes(rows))])
    return unsorted.take(pc.sort_indices(unsorted)).buffers()[1]


def stretches(ordered: pa.Buffer, key_bytes: int) -> list[tuple[int, int]]:
    """Return the ranges [begin, end) of two or more sorted rows that begin with the same bytes."""
    whole = pa.Array.from_buffers(pa.binary(ROW_BYTES), ordered.size // ROW_BYTES, [None, ordered])
    keys = pc.binary_slice(whole, 0, key_bytes)
    groups: list[tuple[int, int]] = []
    for index in pc.indices_nonzero(pc.equal(keys[1:], keys[:-1])).to_pylist():
        if groups and groups[-1][1] == index + 1:
            groups[-1] = (groups[-1][0], index + 2)
        else:
            groups.append((index, index + 2))
    return groups


def events_of(rows: Rows, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges [begin, end) of sorted rows of one id that have one payload."""
    while begin < end:
        at = bisect_left(range(end), 1, lo=begin, key=lambda index: _event_at(rows, index) != _event_at(rows, begin))
        yield begin, at
        begin = at


def shortened(rows: bytearray) -> Rows:
    """Return the sorted rows of one object, few for an id (see the module's head)."""
    ordered = sorted_rows(rows)
    ids = stretches(ordered, ID_BYTES)
    if not ids:
        return memoryview(ordered)
    view, few, done = memoryview(ordered), bytearray(), 0
    for begin, end in ids:
        few += view[ROW_BYTES * done : ROW_BYTES * begin]
        few += _few_rows(view, begin, end)
        done = end
    few += view[ROW_BYTES * done :]
    return few


def _few_rows(view: memoryview, begin: int, end: int) -> bytearray:
    """Return the rows of one id in one object."""
    few = bytearray()
    for payload, (first, behind) in enumerate(events_of(view, begin, end)):
        if payload == MOST_PAYLOADS:
            event, number, line, _ = unpack_row(view, first)
            return few + pack_row(event[:ID_BYTES] + UNCOMPARED, number, line, COUNTED | (end - first))
        few += view[ROW_BYTES * first : ROW_BYTES * (first + 1)]
        if behind - first > 1:
            event, number, line, _ = unpack_row(view, first + 1)
            few += pack_row(event, number, line, COUNTED | (behind - first))
    return few


def _event_at(rows: Rows, index: int) -> bytes:
    return bytes(rows[ROW_BYTES * index : ROW_BYTES * index + EVENT_BYTES])
