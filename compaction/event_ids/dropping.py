"""Drop copies from lines, and collect the ids of lines.

Drops are packed for the task that reads their objects:

    object, 4 bytes | line, 4 | event, 18        zeros: drop this line; else all lines of the event but this one

Nearly all are lines by number. If an object holds an event more than twice, the task drops by digest and evaluates
the ids of that object again.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from compaction.event_ids.copies import EventCopies, IdConflict, Layout, LineRef, Tallies, find_copies
from compaction.event_ids.rows import EVENT_BYTES, IdCollector, event_digest
from compaction.parquet.fetching import parquet_batches
from compaction.parquet.rows import ParquetPart
from minutebook.format.payload import PayloadPath
from minutebook.store.retrying import RetryingStorage

_DROP: Final = struct.Struct(">II18s")
_BY_LINE: Final = bytes(EVENT_BYTES)
_DIGEST_BYTES: Final = 16
_NO_LINE: Final = (1 << 32) - 1
_ROWS: Final = 10_000
_CHUNK_BYTES: Final = 64 << 10
_MOST_CHUNKS_BYTES: Final = 16 << 20


class Drops(NamedTuple):
    """What is dropped from one object: lines, ascending, and events by digest with the line that stays, if any."""

    lines: Sequence[int] = ()
    events: Mapping[bytes, int | None] = {}

    def test(self, expression: str) -> Callable[[int, bytes], bool]:
        """Return a test of whether a line with this number and payload is dropped."""
        text, lines = PayloadPath(expression).text, frozenset(self.lines)

        def is_dropped(number: int, payload: bytes) -> bool:
            if number in lines:
                return True
            event_id = text(payload)
            digest = b"" if event_id is None else event_digest(event_id, payload)
            return digest in self.events and self.events[digest] != number

        return is_dropped


class DroppedLines(NamedTuple):
    """What a task drops, by the key of the object; `expression` is the path of the ids."""

    expression: str = ""
    objects: Mapping[str, Drops] = {}

    @property
    def digest(self) -> str:
        """The digest of what is dropped; empty if nothing is."""
        if not self.objects:
            return ""
        hashed = blake2b(self.expression.encode(), digest_size=_DIGEST_BYTES)
        for key, drops in sorted(self.objects.items()):
            events = sorted((digest.hex(), -1 if line is None else line) for digest, line in drops.events.items())
            hashed.update(repr((key, list(drops.lines), events)).encode())
        return hashed.hexdigest()

    def remaining(self, lines: pa.Table, begin: int, key: str) -> pa.Table:
        """Return the lines of an object that are not dropped; `begin` is the number of the first."""
        drops = self.objects.get(key)
        if drops is None:
            return lines
        if not drops.events:
            return without(lines, begin, drops.lines)
        is_dropped = drops.test(self.expression)
        keep = [not is_dropped(number, payload) for number, payload in enumerate(payloads(lines), start=begin)]
        return lines.filter(pa.array(keep))


def payloads(lines: pa.Table | pa.RecordBatch) -> list[bytes]:
    """Return the payloads of lines or rows, as the producer wrote them."""
    texts: list[bytes] = lines["data"].cast(pa.binary()).to_pylist()
    others = lines["data_bytes"]
    if others.null_count == lines.num_rows:
        return texts
    return [other if text is None else text for text, other in zip(texts, others.to_pylist(), strict=True)]


def without(lines: pa.Table, begin: int, dropped: Sequence[int]) -> pa.Table:
    """Return lines without the `dropped` numbers, which ascend; `begin` is the number of the first line."""
    low, high = bisect_left(dropped, begin), bisect_left(dropped, begin + lines.num_rows)
    if low == high:
        return lines
    keep = [True] * lines.num_rows
    for number in dropped[low:high]:
        keep[number - begin] = False
    return lines.filter(pa.array(keep))


def pack_line(line: LineRef) -> bytes:
    """Return one line, packed."""
    return _DROP.pack(line.number, line.line, _BY_LINE)


def pack_drops(copies: EventCopies) -> bytes:
    """Return copies packed for the task that writes the object."""
    number = copies.first.number
    if copies.lines is not None:
        return b"".join(pack_line(LineRef(number, line)) for line in copies.lines)
    return _DROP.pack(number, _NO_LINE if copies.kept is None else copies.kept, copies.digest)


def packed_copies(chunks: Iterable[bytes], layout: Layout, tallies: Tallies) -> Iterator[tuple[int, bytes]]:
    """Find the copies among the rows of one partition, and count them in `tallies`.

    Yields (group, packed drops) for the groups of the tasks that leave them out.
    """
    drops: dict[int, bytearray] = {}
    size = 0
    for copies in find_copies(chunks, layout):
        tallies.add(copies)
        writer = layout.writer(copies.first.number)
        if writer is None or isinstance(copies, IdConflict):
            continue
        packed = pack_drops(copies)
        chunk = drops.setdefault(writer, bytearray())
        chunk += packed
        size += len(packed)
        if len(chunk) >= _CHUNK_BYTES or size >= _MOST_CHUNKS_BYTES:
            yield from ((to, bytes(waiting)) for to, waiting in drops.items())
            drops.clear()
            size = 0
    yield from ((to, bytes(waiting)) for to, waiting in drops.items())


def unpack_drops(chunks: Iterable[bytes], keys: Mapping[int, str]) -> dict[str, Drops]:
    """Return what is dropped, by object key; `keys` maps numbers to keys."""
    lines: dict[int, array[int]] = {}
    events: dict[int, dict[bytes, int | None]] = {}
    for chunk in chunks:
        for number, line, digest in _DROP.iter_unpack(chunk):
            if digest == _BY_LINE:
                lines.setdefault(number, array("I")).append(line)
            else:
                events.setdefault(number, {})[digest] = None if line == _NO_LINE else line
    return {
        keys[number]: Drops(array("I", sorted(lines.get(number, ()))), events.get(number, {}))
        for number in sorted({*lines, *events})
    }


class LineFilter:
    """Collects the ids of lines, drops lines, and passes the others on to the Parquet file."""

    def __init__(self, part: ParquetPart | None, ids: IdCollector | None, dropped: DroppedLines) -> None:
        self._part = part
        self._ids = ids
        self._dropped = dropped
        self._lines: dict[str, int] = {}

    def add(self, lines: pa.Table, segment: str | pa.StringArray) -> None:
        """Add the next lines of a segment, or merged lines with the segment of each.

        The ids of merged lines are not collected, because their objects are in doubt, and their copies were dropped
        before the merge.
        """
        if not isinstance(segment, str):
            if self._part is not None:
                self._part.add(lines, segment)
            return
        if self._ids is not None:
            self._ids.add(payloads(lines), lines["arrival_ms"].to_pylist(), segment)
        if self._part is None:
            return
        begin = self._lines.get(segment, 0)
        self._lines[segment] = begin + lines.num_rows
        remaining = self._dropped.remaining(lines, begin, segment)
        if remaining.num_rows:
            self._part.add(remaining, segment)


def read_published_ids(storage: RetryingStorage, keys: Sequence[str], ids: IdCollector) -> None:
    """Collect the ids of a day whose raw objects have expired, from its Parquet files. Memory is one row group.

    Of a record that is several rows, the first holds the payload.
    """
    for key in keys:
        for rows in parquet_batches(storage, key, _ROWS, ["data", "data_bytes", "arrival_time"]):
            batch = rows.filter(pc.or_(pc.is_valid(rows["data"]), pc.is_valid(rows["data_bytes"])))
            arrivals_ms = batch["arrival_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
            ids.add(payloads(batch), arrivals_ms, key)
