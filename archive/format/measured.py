"""What a stretch of records adds to a segment, besides its lines and its span."""

from typing import NamedTuple


class Measured(NamedTuple):
    """The earliest and latest arrival in epoch milliseconds, and the payloads' bytes."""

    arrival_min_ms: int
    arrival_max_ms: int
    payload_bytes: int
