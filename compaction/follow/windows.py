"""What of a day a tick lists, and when the next tick is due. Pure.

    each tick             the last ten minutes
    every ten minutes     the last three hours
    each hour             the whole day, also at the start

A LIST takes a key to start after, so a tick costs a request for a thousand segments of these minutes. Where the last
LIST failed, the next one begins where that would have.
"""

from typing import Final, NamedTuple

from minutebook.format.day import Day
from minutebook.format.minute import HOUR_MS, MINUTE_MS

SHORT_MINUTES: Final = 10
LONG_MINUTES: Final = 180
LONG_EVERY_MS: Final = 10 * MINUTE_MS
_AFTER_MS: Final = 3_000
"""How long behind the linger a tick begins: processors notice that a minute is over, and commit."""


class Listed(NamedTuple):
    """When LISTs of a day began that did not fail: of any kind, of three hours, of the day. 0: none did."""

    any_ms: int = 0
    long_ms: int = 0
    whole_ms: int = 0


def first_minute(day: Day, now_ms: int, listed: Listed) -> int:
    """Return the first minute of the day to list now; one behind the day: there is nothing to list."""
    if listed.whole_ms == 0 or now_ms // HOUR_MS != listed.whole_ms // HOUR_MS or now_ms < listed.any_ms:
        return day.first_minute  # also where the clock was ahead for a while, and LISTs began later than now
    minutes = LONG_MINUTES if now_ms - listed.long_ms >= LONG_EVERY_MS else SHORT_MINUTES
    since_ms = min(now_ms, listed.any_ms + MINUTE_MS)
    return max(day.first_minute, min(now_ms // MINUTE_MS - minutes, since_ms // MINUTE_MS - SHORT_MINUTES))


def after_list(day: Day, now_ms: int, minute: int, listed: Listed) -> Listed:
    """Return what is known behind a LIST that began at a time, from a minute on, and did not fail."""
    is_whole = minute <= day.first_minute
    is_long = is_whole or minute <= now_ms // MINUTE_MS - LONG_MINUTES
    return Listed(now_ms, now_ms if is_long else listed.long_ms, now_ms if is_whole else listed.whole_ms)


def next_tick_ms(now_ms: int, every_ms: int, linger_ms: int) -> int:
    """Return when the next tick begins: at a multiple of `every_ms`, plus the linger and three seconds."""
    offset_ms = linger_ms + _AFTER_MS
    return ((now_ms - offset_ms) // every_ms + 1) * every_ms + offset_ms


def complete_ms(before_ms: int, boundary_ms: int, begins_ms: int, first_ms: int) -> int:
    """Return until when the table is complete, behind a poll of everything that lies at or after `begins_ms`.

    `before_ms` is what was known, `first_ms` the beginning of the first day that is followed, and `boundary_ms` until
    when the archive was complete before the poll. What came into the archive since `before_ms` was known has arrived
    at or after it, but for gaps: so the poll has it if it begins there.
    """
    floor_ms = max(before_ms, first_ms)
    return boundary_ms if begins_ms <= floor_ms < boundary_ms else before_ms
