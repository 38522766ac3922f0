"""Which part of each shard's day is compared: all of it, or a window of so many minutes. Pure.

A window's place follows from the day and the shard: other shards, and other days, are looked at elsewhere, and the
same command looks at the same place. A sample proves nothing about the rest: no mark is written of it.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Self

from archive.format.minute import MINUTE_MS, minute_text
from archive.wording import some_of
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.segments import Segment

_SHOWN = 5


class Window(NamedTuple):
    """The times that are compared, from `begin_ms` on; `minutes` of them in each shard, None: all."""

    day: str
    begin_ms: int
    end_ms: int
    minutes: int | None

    @classmethod
    def of(cls, inventory: DayObjects, minutes: int | None) -> Self:
        """Return the window of a scope; one that is as long as the scope is no sample."""
        begin_ms, end_ms = inventory.day.begin_ms, inventory.end_ms
        is_all = minutes is None or minutes * MINUTE_MS >= end_ms - begin_ms
        return cls(str(inventory.day), begin_ms, end_ms, None if is_all else minutes)

    @property
    def is_sample(self) -> bool:
        """Tell whether anything is left out."""
        return self.minutes is not None

    def times(self, shard_id: str) -> tuple[int, int]:
        """Return the times of a shard, in whole minutes, as [begin, end)."""
        if self.minutes is None:
            return self.begin_ms, self.end_ms
        room = (self.end_ms - self.begin_ms) // MINUTE_MS - self.minutes
        chance = int.from_bytes(hashlib.sha256(f"{self.day} {shard_id}".encode()).digest()[:8])
        begin_ms = self.begin_ms + chance % (room + 1) * MINUTE_MS
        return begin_ms, begin_ms + self.minutes * MINUTE_MS

    def of_shard(self, segments: Sequence[Segment], shard_id: str) -> list[Segment]:
        """Return the segments of a shard that lie within; a segment is of one minute."""
        begin_ms, end_ms = self.times(shard_id)
        return [segment for segment in segments if begin_ms <= segment.metadata.minute * MINUTE_MS < end_ms]

    def told(self, shards: Sequence[str]) -> str:
        """Say what of the shards was compared, and what was not."""
        places = [
            f"{shard} {minute_text(begin_ms // MINUTE_MS)} to {minute_text(end_ms // MINUTE_MS)}"
            for shard, (begin_ms, end_ms) in ((shard, self.times(shard)) for shard in shards)
        ]
        return (
            f"{self.minutes} minutes of each ({some_of(places, _SHOWN)}); the rest of the day was not compared with "
            "the stream, and nothing was proven by what was"
        )
