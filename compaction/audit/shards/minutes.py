"""What a shard holds in each minute of the day, packed: the driver has one of these for each shard."""

import zlib
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from compaction.inventory.segments import ArchivedSegment
from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.minute import MINUTE_MS

TENTH_MS: Final = 100
"""Delays are kept in tenths of a second: no picture shows less."""
_WIDTH: Final = 4
_MOST: Final = 2**31 - 1


class MinuteCounts(NamedTuple):
    """By minute of the day: records, and how long after the minute the last of them were there (-1: no segment)."""

    records: "array[int]"
    lag_tenths: "array[int]"


class Minutes(NamedTuple):
    """A shard's minutes in one string: two to four KB of a busy shard, where the numbers take 11.5."""

    packed: bytes

    @classmethod
    def of(cls, day: Day, segments: Sequence[ArchivedSegment]) -> Self:
        """Return those of a shard's segments."""
        records, lag_tenths = array("i", [0] * MINUTES_A_DAY), array("i", [-1] * MINUTES_A_DAY)
        for segment in segments:
            column = segment.metadata.minute - day.first_minute
            if 0 <= column < MINUTES_A_DAY:
                records[column] += segment.metadata.records
                late_ms = segment.row.last_modified_ms - (segment.metadata.minute + 1) * MINUTE_MS
                tenths = (late_ms + TENTH_MS // 2) // TENTH_MS
                lag_tenths[column] = max(lag_tenths[column], min(tenths, _MOST), 0)
        return cls.packed_of(MinuteCounts(records, lag_tenths))

    @classmethod
    def packed_of(cls, counted: MinuteCounts) -> Self:
        """Pack numbers; the bytes of equal weight lie together, because most of the high ones are zero."""
        raw = b"".join(numbers.tobytes()[weight::_WIDTH] for numbers in counted for weight in range(_WIDTH))
        return cls(zlib.compress(raw))

    def counted(self) -> MinuteCounts:
        """Return the numbers."""
        raw, size = zlib.decompress(self.packed), MINUTES_A_DAY * _WIDTH
        return MinuteCounts(*(_numbers(raw[start : start + size]) for start in (0, size)))


def _numbers(raw: bytes) -> "array[int]":
    unpacked = bytearray(len(raw))
    for weight in range(_WIDTH):
        unpacked[weight::_WIDTH] = raw[weight * MINUTES_A_DAY : (weight + 1) * MINUTES_A_DAY]
    numbers = array("i")
    numbers.frombytes(bytes(unpacked))
    return numbers
