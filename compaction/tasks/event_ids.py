"""Event ids of a day's records, and which records repeat an event: the rules of producer duplicates. Pure.

A task evaluates the user's path on each payload and keeps 32 bytes per record: a digest of the id, the record's
line, and its time of arrival. The payload stays where it is. Rows of equal digests come into one partition:

    digest, 16 bytes | object, 4 | line, 4 | arrival, epoch ms, 8        big-endian: sorted bytes are sorted numbers

Raw objects are numbered in the order of day, shard and position, so the order of lines is that of the stream.
"""

import itertools
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from archive.format.payload import PayloadPath

DIGEST_BYTES: Final = 16
"""At a billion ids, the chance that any two are mistaken for one another is below 1 in 10^20."""
_ROW: Final = struct.Struct(">16sIIQ")
ROW_BYTES: Final = _ROW.size
_COPY: Final = struct.Struct("<IIII")
_PREFIX_RANGE_BITS: Final = 32


class IdOrder(NamedTuple):
    """What a task is asked: the path, its first object's number, and in how many partitions ids are dealt out."""

    expression: str
    first_number: int
    partitions: int


class LineRef(NamedTuple):
    """A record: the number of its raw object, and its line there, counted from 0."""

    number: int
    line: int


class Copy(NamedTuple):
    """A record that repeats the event of `original`, which comes first."""

    ref: LineRef
    original: LineRef


class Layout(NamedTuple):
    """What the numbers of objects mean.

    Numbers below `first_of_day` are of the day before. `shards` holds the first number of each shard of the day,
    ascending. Raw objects in `excluded` take no part: their lines are in doubt.
    """

    first_of_day: int
    shards: tuple[int, ...]
    excluded: frozenset[int] = frozenset()


class IdCollector:
    """Takes the lines of a task's objects, block by block, and collects their ids."""

    def __init__(self, order: IdOrder, keys: Sequence[str]) -> None:
        self._path = PayloadPath(order.expression)
        self._numbers = {key: order.first_number + index for index, key in enumerate(keys)}
        self._partitions = order.partitions
        self._rows = [bytearray() for _ in range(order.partitions)]
        self._lines: dict[str, int] = {}
        self._missing: dict[str, int] = {}

    def add(self, payloads: Sequence[bytes], arrivals_ms: Sequence[int], key: str) -> None:
        """Evaluate the next lines of the object at `key`."""
        begin = self._lines.get(key, 0)
        self._lines[key] = begin + len(payloads)
        number, text, rows, parts = self._numbers[key], self._path.text, self._rows, self._partitions
        missing = 0
        for line, (payload, arrival_ms) in enumerate(zip(payloads, arrivals_ms, strict=True), start=begin):
            event_id = text(payload)
            if event_id is None:
                missing += 1
                continue
            digest = blake2b(event_id.encode(), digest_size=DIGEST_BYTES).digest()
            part = int.from_bytes(digest[:4], "big") * parts >> _PREFIX_RANGE_BITS
            rows[part] += _ROW.pack(digest, number, line, max(0, arrival_ms))
        if missing:
            self._missing[key] = self._missing.get(key, 0) + missing

    def missing(self) -> dict[str, int]:
        """Return how many lines of each object have no id, where there are any."""
        return self._missing

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yield (partition, rows), once: what was given out is kept no longer."""
        for part, rows in enumerate(self._rows):
            if rows:
                yield part, bytes(rows)
                rows.clear()


def payloads(lines: pa.Table | pa.RecordBatch) -> list[bytes]:
    """Return the payloads of lines or of rows, as the producer wrote them."""
    texts: list[bytes] = lines["data"].cast(pa.binary()).to_pylist()
    others = lines["data_bytes"]
    if others.null_count == lines.num_rows:
        return texts
    return [other if text is None else text for text, other in zip(texts, others.to_pylist(), strict=True)]


def find_copies(chunks: Iterable[bytes], layout: Layout) -> bytes:
    """Return the copies of one partition, as `unpack_copies` reads them. Memory: about five times the rows."""
    rows = b"".join(chunks)
    ordered, groups = _repeated(rows)
    found = bytearray()
    for begin, end in groups:
        members = [_Member(*_ROW.unpack_from(ordered, ROW_BYTES * index)) for index in range(begin, end)]
        for copy in _copies(members, layout):
            found += _COPY.pack(*copy.ref, *copy.original)
    return bytes(found)


def unpack_copies(packed: bytes) -> Iterator[Copy]:
    """Yield the copies."""
    for number, line, original_number, original_line in _COPY.iter_unpack(packed):
        yield Copy(LineRef(number, line), LineRef(original_number, original_line))


def _repeated(rows: bytes) -> tuple[pa.Buffer, list[tuple[int, int]]]:
    """Sort rows; return them, and the stretches [begin, end) of equal digests that are longer than one."""
    count = len(rows) // ROW_BYTES
    unsorted = pa.Array.from_buffers(pa.binary(ROW_BYTES), count, [None, pa.py_buffer(rows)])
    ordered = unsorted.take(pc.sort_indices(unsorted))
    digests = pc.binary_slice(ordered, 0, DIGEST_BYTES)
    same = pc.indices_nonzero(pc.equal(digests[1:], digests[:-1])).to_pylist()
    groups: list[tuple[int, int]] = []
    for index in same:
        if groups and groups[-1][1] == index + 1:
            groups[-1] = (groups[-1][0], index + 2)
        else:
            groups.append((index, index + 2))
    return ordered.buffers()[1], groups


class _Member(NamedTuple):
    """A record of an event that several records share."""

    digest: bytes
    number: int
    line: int
    arrival_ms: int

    @property
    def ref(self) -> LineRef:
        return LineRef(self.number, self.line)


def _copies(members: Sequence[_Member], layout: Layout) -> Iterator[Copy]:
    """Yield the copies among records of one event, which come in the order of their lines.

    The first one stays: any record of the day before; else, within each shard, the one at the lowest position, and
    among the shards the one that arrived first (of two at the same time that of the first shard). Positions of
    different shards cannot be compared, and within a shard arrival times may step back.
    """
    known = [member for member in members if member.number not in layout.excluded]
    day = [member for member in known if member.number >= layout.first_of_day]
    if len(day) < len(known):
        first = known[0]
    elif day:
        shards = itertools.groupby(day, lambda member: bisect_right(layout.shards, member.number))
        first = min((next(group) for _, group in shards), key=lambda member: member.arrival_ms)
    for member in day:
        if member is not first:
            yield Copy(member.ref, first.ref)


def without(lines: pa.Table, begin: int, dropped: Sequence[int]) -> pa.Table:
    """Return lines without those that are dropped; `begin` is the number of the first, `dropped` ascends."""
    low, high = bisect_left(dropped, begin), bisect_left(dropped, begin + lines.num_rows)
    if low == high:
        return lines
    keep = [True] * lines.num_rows
    for number in dropped[low:high]:
        keep[number - begin] = False
    return lines.filter(pa.array(keep))
