"""The share of a shard that reading it again may take: its consumers read beside us, and come first.

A shard serves 5 GetRecords and 2 MB a second to all who poll it together (Kinesis Data Streams, quotas). A page is
bounded, too: one that takes 10 MB makes everybody else's calls fail for five seconds.
"""

from typing import Final

from minutebook.clock import Clock

CALLS_A_SECOND: Final = 5
BYTES_A_SECOND: Final = 2_000_000
SHARE: Final = 0.4
"""Of both, unless told: 2 calls and 0.8 MB a second."""
_PAGE_BYTES: Final = BYTES_A_SECOND // CALLS_A_SECOND
_FIRST_RECORDS: Final = 25
MOST_RECORDS: Final = 10_000
"""What one GetRecords returns at most."""


class Pace:
    """How fast one shard is read: `share` of what it serves, from above 0 to 1."""

    def __init__(self, clock: Clock, share: float, most_records: int = MOST_RECORDS) -> None:
        self._clock = clock
        self._share = share
        self._most = most_records
        self._next: float | None = None
        self.page_records = min(most_records, _FIRST_RECORDS)

    def wait(self) -> None:
        """Sleep until the next page may be asked for."""
        if self._next is None:
            return
        left = self._next - self._clock.monotonic()
        if left > 0:
            self._clock.sleep(left)

    def note(self, records: int, size: int) -> None:
        """Take down what a page held: so long no other may be asked for, and so large the next may be."""
        seconds = max(1 / (CALLS_A_SECOND * self._share), size / (BYTES_A_SECOND * self._share))
        self._next = self._clock.monotonic() + seconds
        if records:
            fitting = _PAGE_BYTES * records // max(1, size)
            self.page_records = max(1, min(self._most, fitting, 4 * self.page_records))
