"""A stretch of records on its way into a segment: what it adds, and its lines where they are written already."""

from typing import NamedTuple

from archive.format.position import SequenceRange


class Measured(NamedTuple):
    """The earliest and latest arrival in epoch milliseconds, and the payloads' bytes."""

    arrival_min_ms: int
    arrival_max_ms: int
    payload_bytes: int


class WrittenLines(NamedTuple):
    """Lines of records that ascend, and what they show. `lines` is lent: whoever wrote it may write over it next."""

    lines: memoryview
    records: int
    span: SequenceRange
    measured: Measured
