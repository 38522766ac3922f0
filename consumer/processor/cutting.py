"""Cutting: how far a batch goes in one piece, and what is left of a segment behind a position.

A slice becomes a part of a segment at once: its records ascend within one minute, and nothing that is stored lies
among them. Where it ends for want of room never matters for correctness; the caller goes on behind it.
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
"""Payload that is encoded in one go: bounds what a large batch adds to the process's memory."""
_SLICE_RECORDS = 500
"""The same, where records are read back one by one."""


class BatchSlice(NamedTuple):
    """Records of a batch that are taken in one piece: the index behind them, and the last one's position.

    `measured` are they where that was needed to find it.
    """

    end: int
    last: Position
    measured: Measured | None = None


def check_order(shard_id: str, position: Position, delivered: Position | None) -> None:
    """Raise DeliveryDoubt unless a record lies behind what was delivered before it."""
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
    """Find how far the records from `start` on, the first of `minute`, go in one piece; the first is always in.

    They end before the position `bound`, and where their payload would exceed `room` bytes or one MiB, or where they
    would be more than `most`. `ascends`: each is known to lie behind the one before.
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
    """Measure records that ascend, where all of them go in one piece, as nearly always; None decides nothing.

    A few passes in C, a fifth of the time of the loop.
    """
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
    """Yield what a segment holds behind a position, the producer duplicates among it, some hundred records at a time.

    Raises:
        FormatError: the segment cannot be read back; never seen.
    """
    how = segment.shard_id, segment.compression
    kept = read_records(segment.body(), *how)
    dropped = ((at, record) for at, record, _ in read_dropped(segment.duplicates_body(), *how))
    left = (record for at, record in merge(kept, dropped, key=itemgetter(0)) if at > position)
    while part := list(islice(left, _SLICE_RECORDS)):
        yield part
