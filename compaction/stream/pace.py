"""Limit reads of a shard to a share of its capacity, because its consumers come first.

A shard serves 5 GetRecords and 2 MB a second to all polling readers together (Kinesis Data Streams, quotas). Pages
are bounded, too: after one of 10 MB, calls of all readers fail for five seconds.
"""

from typing import Final

from minutebook.clock import Clock

CALLS_A_SECOND: Final = 5
BYTES_A_SECOND: Final = 2_000_000
SHARE: Final = 0.4
"""The default share: 2 calls and 0.8 MB a second."""
_PAGE_BYTES: Final = BYTES_A_SECOND // CALLS_A_SECOND
_FIRST_RECORDS: Final = 25
MOST_RECORDS: Final = 10_000
"""The maximum of one GetRecords."""


class Pace:
    """Paces reads of one shard to `share` of its capacity (above 0, up to 1)."""

    def __init__(self, clock: Clock, share: float, most_records: int = MOST_RECORDS) -> None:
        self._clock = clock
        self._share = share
        self._most = most_records
        self._next: float | None = None
        self.page_records = min(most_records, _FIRST_RECORDS)

    def wait(self) -> None:
        """Sleep until the next page may be requested."""
        if self._next is not None and (left := self._next - self._clock.monotonic()) > 0:
            self._clock.sleep(left)

    def note(self, records: int, size: int) -> None:
        """Note the size of a page, to set the time and the maximum size of the next one."""
        seconds = max(1 / (CALLS_A_SECOND * self._share), size / (BYTES_A_SECOND * self._share))
        self._next = self._clock.monotonic() + seconds
        if records:
            fitting = _PAGE_BYTES * records // max(1, size)
            self.page_records = max(1, min(self._most, fitting, 4 * self.page_records))
