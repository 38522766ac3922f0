"""The service's own time: the Date of its last answer, carried on by a clock that counts suspend.

A host's wall clock may be wrong by hours, and proves nothing. The Date header names whole seconds of the clock that
stamps the records, give or take what two of the service's hosts differ by.
"""

from datetime import UTC
from email.utils import parsedate_to_datetime

from minutebook.clock import Clock

_SECOND_MS = 1000


class ServiceTime:
    """Knows no time until the first answer that names one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: tuple[int, float, int] | None = None

    def note(self, date: str | None, sent_at: float) -> int | None:
        """Take the Date of an answer to a request sent at `sent_at` on the monotonic clock; return it in ms."""
        date_ms = epoch_ms(date)
        if date_ms is not None:
            self._known = (date_ms, sent_at, self._clock.now_ms())
        return date_ms

    def now_ms(self) -> int | None:
        """Return a time that the service's clock has not passed yet, in epoch milliseconds; None: it named none.

        A little late rather than early: what is judged by it must not look younger than it is. A virtual machine that
        was paused may not count that at all, but sees its wall clock step; so the later of the two counts.
        """
        if self._known is None:
            return None
        date_ms, sent_at, wall_ms = self._known
        elapsed_ms = int((self._clock.monotonic() - sent_at) * 1000)
        return date_ms + _SECOND_MS + max(elapsed_ms, self._clock.now_ms() - wall_ms)


def epoch_ms(date: str | None) -> int | None:
    """Read a Date header (RFC 9110); None for none, and for one that is damaged."""
    if date is None:
        return None
    try:
        moment = parsedate_to_datetime(date)
        return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
