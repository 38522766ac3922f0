"""What stands beside expired segments: `_duplicates/` and `_watermarks/` go when their segment is gone.

Both mean nothing without it. A processor finds watermarks only through a stored segment that names them, so those of
a segment that stays, as the last one of each chain does, stay too: a start after the expiry reads them. Segments go
first: were it the other way round, a crash in between would leave a segment whose watermarks are missing, and a
processor stops at that.

Dropped lines go only when each names the position of its original: the day's clean verdict says that those are
archived. A line of watermark mode names a producer's number, which nobody can look up, so it stays.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from archive.clock import Clock
from archive.errors import FormatError
from archive.format.duplicates import original_of
from archive.format.keys import DUPLICATES, WATERMARKS, slot_beside
from archive.format.record import decode_dropped_line
from archive.format.segment import inflate
from archive.format.tombstone import tombstone_key
from archive.retry import Backoff, until_known
from archive.store.objects import ObjectStore
from consumer.archived.chain_ends import MINUTES_PER_DAY, Window, days_with_objects
from consumer.expire.apply import BATCH, Deleter

_EPOCH: Final = dt.date(1970, 1, 1)


class Beside(NamedTuple):
    """What it takes to look at, and delete, what stands beside expired segments."""

    store: ObjectStore
    deleter: Deleter
    prefix: str
    clock: Clock
    waits: Callable[[], Backoff]

    def orphans(self, newest: dt.date) -> Iterator[str]:
        """Yield the keys that may go, of expired days up to `newest`.

        An object whose key does not parse is somebody's: it stays.

        Raises:
            StoreUnavailable, StoreRefused: the store.
        """
        window = Window(0, (newest - _EPOCH).days * MINUTES_PER_DAY + MINUTES_PER_DAY - 1)
        for folder in (DUPLICATES, WATERMARKS):
            for minute in days_with_objects(self.store, f"{self.prefix}{folder}", window, self.waits):
                yield from self._of_day(folder, _EPOCH + dt.timedelta(days=minute // MINUTES_PER_DAY))

    def delete(self, keys: list[str], rate: int) -> None:
        """Delete, in batches. Raises as `orphans`."""
        size = min(BATCH, rate)
        for begin in range(0, len(keys), size):
            batch = keys[begin : begin + size]
            until_known(lambda batch=batch: self.deleter.delete(batch), self.waits(), f"DELETE {len(batch)} objects")  # type: ignore[misc]
            self.clock.sleep(len(batch) / rate)

    def _of_day(self, folder: str, day: dt.date) -> Iterator[str]:
        tombstone = tombstone_key(self.prefix, day)
        if until_known(lambda: self.store.head(tombstone), self.waits(), f"HEAD {tombstone}") is None:
            return
        path = f"{day:%Y/%m/%d/}"
        left = set(self._list(f"{self.prefix}{path}"))
        for key in self._list(f"{self.prefix}{folder}{path}"):
            slot = slot_beside(self.prefix, folder, key)
            if slot is not None and slot not in left and (folder == WATERMARKS or self._names_positions(key)):
                yield key

    def _list(self, path: str) -> list[str]:
        return until_known(lambda: [row.key for row in self.store.list_objects(path)], self.waits(), f"LIST {path}")

    def _names_positions(self, key: str) -> bool:
        stored = until_known(lambda: self.store.get(key), self.waits(), f"GET {key}")
        if stored is None:
            return False
        try:
            return all(original_of(decode_dropped_line(line)[2]) is not None for line in inflate([stored.body]))
        except FormatError:
            return False
