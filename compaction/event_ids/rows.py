"""Event ids of records as rows of 32 bytes, partitioned by digest. Pure.

A task evaluates the user's path on each payload, and makes a row. Rows of equal digests go to one partition:

    digest, 16 bytes | object, 4 | line, 4 | arrival, epoch ms, 8        big-endian: sorted bytes are sorted numbers

Raw objects are numbered in the order of day, shard and position, so lines are in the order of the stream. An event
that an object holds several times makes only two rows, so that an id shared by all records makes two rows an object:

    digest, 16 bytes | object, 4 | first line, 4 | its arrival, 8
    digest, 16 bytes | object, 4 | second line, 4 | 2^63 + how many lines, 8
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

DIGEST_BYTES: Final = 16
"""With a billion ids, the probability of any collision is below 1 in 10^20."""
ROW: Final = struct.Struct(">16sIIQ")
ROW_BYTES: Final = ROW.size
COUNTED: Final = 1 << 63
"""Flag of a second row, whose last field is a count of lines."""
NUMBERS: Final = 1 << 32
"""Upper limit of object numbers: four bytes of a row."""
RUN_BYTES: Final = 16 << 20
"""Bytes of rows that a task holds in memory; more are spilled as sorted runs to an unnamed temporary file."""
_PREFIX_BITS: Final = 32
_PREFIX_BYTES: Final = _PREFIX_BITS // 8


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
            rows += ROW.pack(id_digest(event_id), number, line, max(0, arrival_ms))
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
        self._rows += first_two(self._of_object)
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


def id_digest(event_id: str) -> bytes:
    """Return the digest of an id, given as `PayloadPath.text` returns it."""
    return blake2b(event_id.encode(), digest_size=DIGEST_BYTES).digest()


def sorted_rows(rows: bytes | bytearray) -> pa.Buffer:
    """Return the rows, sorted."""
    unsorted = pa.Array.from_buffers(pa.binary(ROW_BYTES), len(rows) // ROW_BYTES, [None, pa.py_buffer(bytes(rows))])
    return unsorted.take(pc.sort_indices(unsorted)).buffers()[1]


def stretches(ordered: pa.Buffer, key_bytes: int = DIGEST_BYTES) -> list[tuple[int, int]]:
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


def first_two(rows: bytearray) -> bytearray | memoryview:
    """Return the sorted rows of one object, at most two for an event; the second one counts the event's lines."""
    ordered = sorted_rows(rows)
    groups = stretches(ordered)
    if not groups:
        return memoryview(ordered)
    view, shortened, done = memoryview(ordered), bytearray(), 0
    for begin, end in groups:
        shortened += view[ROW_BYTES * done : ROW_BYTES * (begin + 1)]
        digest, number, line, _ = ROW.unpack_from(view, ROW_BYTES * (begin + 1))
        shortened += ROW.pack(digest, number, line, COUNTED | (end - begin))
        done = end
    shortened += view[ROW_BYTES * done :]
    return shortened
