"""Cut a batch into slices, and a segment after a position.

A slice is added to a segment as a whole: its records ascend within one minute, and no stored range begins among them.
Where lack of room ends it does not matter for correctness; the caller continues after it.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from minutebook.errors import DeliveryDoubt
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Measured, Record
from minutebook.format.segment import SegmentWriter, measure_records, read_dropped, read_records

_SLICE_BYTES = 1 << 20
"""Payload that is encoded at once: limits what a large batch adds to the process's memory."""
_SLICE_RECORDS = 500
"""The same for records that are read back one by one."""


class BatchSlice(NamedTuple):
    """Records of a batch that are added together: the index after them, and the position of the last one.

    `measured`: their sizes, if they were needed to find the slice.
    """

    end: int
    last: Position
    measured: Measured | None = None


def check_order(shard_id: str, position: Position, delivered: Position | None) -> None:
    """Raise DeliveryDoubt unless a record lies after the last delivered one."""
    if delivered is not None and position <= delivered:
        raise DeliveryDoubt(
            f"record {position} of {shard_id} was delivered after {delivered}",
            next_step="nothing was checkpointed beyond the archive; the records will be delivered again",
        )


def find_slice(
    records: Sequence[Record],
    start: int,
    minute: int,
    *,
    ascends: bool,
    bound: tuple[int, int] | None,
    room: int,
    most: int | None = None,
) -> BatchSlice:
    """Return the slice of records that begins at `start`, whose record is of `minute` and always included.

    It ends before the position `bound`, before its payload exceeds `room` bytes or one MiB, and after `most` records.
    `ascends`: each record is known to lie after the one before.
    """
    room = min(room, _SLICE_BYTES)
    part = records[start:] if most is None else records[start : start + most]
    measured = _measured_together(part, minute, bound, room) if ascends else None
    if measured is not None:
        return BatchSlice(start + len(part), part[-1].position, measured)
    opens, closes = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
    last_sequence, last_sub = records[start].position
    end = start + 1
    size = len(records[start].data)
    for index in range(end, len(records) if most is None else min(start + most, len(records))):
        # Plain integers, not Positions: this loop runs once per record.
        record = records[index]
        sequence, sub = int(record.sequence_number), record.sub_sequence_number
        size += len(record.data)
        if (
            size > room
            or not opens <= record.arrival_ms < closes
            or sequence < last_sequence
            or (sequence == last_sequence and sub <= last_sub)
            or (bound is not None and (sequence, sub) >= bound)
        ):
            break
        last_sequence, last_sub = sequence, sub
        end = index + 1
    return BatchSlice(end, Position(last_sequence, last_sub))


def _measured_together(
    records: Sequence[Record], minute: int, bound: tuple[int, int] | None, room: int
) -> Measured | None:
    """Measure ascending records, in a fifth of the loop's time; None if they may not form one slice: rare."""
    measured = measure_records(records)
    if (
        measured.arrival_min_ms < minute * MINUTE_MS
        or measured.arrival_max_ms >= (minute + 1) * MINUTE_MS
        or measured.payload_bytes > room
        or (bound is not None and records[-1].position >= bound)
    ):
        return None
    return measured


def slices_behind(segment: SegmentWriter, position: Position) -> Iterator[list[Record]]:
    """Yield the records of a segment after a position, with its producer duplicates, some hundred at a time.

    Raises FormatError if the segment cannot be read back.
    """
    how = segment.shard_id, segment.compression
    kept = read_records(segment.body(), *how)
    dropped = ((at, record) for at, record, _ in read_dropped(segment.duplicates_body(), *how))
    left = (record for at, record in merge(kept, dropped, key=itemgetter(0)) if at > position)
    while part := list(islice(left, _SLICE_RECORDS)):
        yield part
