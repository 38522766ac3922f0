"""Objects in `_duplicates/` and `_watermarks/` that may be deleted, because their segment is gone.

A processor finds watermarks only through a stored segment that names them, so those of a segment that stays, such as
the last one of a chain, stay too. Segments are deleted first: a crash in between must not leave a segment whose
watermarks are missing, because a processor stops at that.

Dropped lines go only if each names the position of its original, which is archived by the day's clean verdict. A line
of watermark mode names a producer's number, which cannot be looked up, so it stays.
"""

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

from minutebook.compression import compression_of
from minutebook.errors import FormatError
from minutebook.format.day import Day
from minutebook.format.keys import DUPLICATES, WATERMARKS, slot_beside, slot_of
from minutebook.format.record import decode_dropped_line, original_of
from minutebook.format.segment import inflate
from minutebook.index.names import ArchiveIndex
from minutebook.store.retrying import RetryingStore
from minutebook.store.tombstones import read_tombstone


class SideObjects(NamedTuple):
    """The dropped lines and watermarks of one archive."""

    store: RetryingStore
    prefix: str

    def orphans(self, newest: dt.date) -> Iterator[str]:
        """Yield the keys that may be deleted, of expired days up to `newest`; foreign objects stay."""
        for folder in (DUPLICATES, WATERMARKS):
            for day in ArchiveIndex(self.store, f"{self.prefix}{folder}").days(Day.parse(str(newest)), -1):
                yield from self._of_day(folder, day)

    def _of_day(self, folder: str, day: Day) -> Iterator[str]:
        try:
            if read_tombstone(self.store, self.prefix, day) is None:
                return
        except FormatError:
            return
        remaining = {slot_of(key) for key in self.store.keys(day.path(self.prefix))}
        for key in self.store.keys(day.path(f"{self.prefix}{folder}")):
            slot = slot_beside(self.prefix, folder, key)
            if slot is not None and slot not in remaining and (folder == WATERMARKS or self._names_positions(key)):
                yield key

    def _names_positions(self, key: str) -> bool:
        stored = self.store.get(key)
        if stored is None:
            return False
        try:
            lines = inflate([stored.body], compression_of(key))
            return all(original_of(decode_dropped_line(line)[2]) is not None for line in lines)
        except FormatError:
            return False
