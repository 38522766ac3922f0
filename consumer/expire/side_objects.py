"""What lies beside expired segments: `_duplicates/` and `_watermarks/` go when their segment is gone.

Both mean nothing without it. A processor finds watermarks only through a stored segment that names them, so those of
a segment that stays, as the last one of each chain does, stay too: a start after the expiry reads them. Segments go
first: were it the other way round, a crash in between would leave a segment whose watermarks are missing, and a
processor stops at that.

Dropped lines go only when each names the position of its original: the day's clean verdict says that those are
archived. A line of watermark mode names a producer's number, which nobody can look up, so it stays.
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
        """Yield the keys that may go, of expired days up to `newest`.

        An object whose key does not parse is somebody's: it stays.

        Raises:
            StoreUnavailable, StoreRefused: the store.
        """
        for folder in (DUPLICATES, WATERMARKS):
            for day in ArchiveIndex(self.store, f"{self.prefix}{folder}").days(Day.parse(str(newest)), -1):
                yield from self._of_day(folder, day)

    def _of_day(self, folder: str, day: Day) -> Iterator[str]:
        try:
            if read_tombstone(self.store, self.prefix, day) is None:
                return
        except FormatError:
            return
        left = {slot_of(key) for key in self.store.keys(day.path(self.prefix))}
        for key in self.store.keys(day.path(f"{self.prefix}{folder}")):
            slot = slot_beside(self.prefix, folder, key)
            if slot is not None and slot not in left and (folder == WATERMARKS or self._names_positions(key)):
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
