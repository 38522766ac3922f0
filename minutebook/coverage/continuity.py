"""What a processor may claim: whether anything between its evidence and what it read may have been trimmed. Pure.

Kinesis goes on at its trim horizon without a word, so each new piece of evidence is judged **after** the read, by the
answer's Date: a host may sleep between a check and the read. Proven is a continuity when one of these holds:

    (i)   the evidence that it stands on is younger than 24 h - 5 min: nothing so young has been trimmed. The present
          retention proves nothing about the past: one that was raised, or lowered and raised again, leaves no trace
    (ii)  a record at or before that evidence's position is still held, or one that arrived before that evidence's
          `until` (a first shard has no position yet: its first evidence stands on the application's start). Trimming
          takes the oldest first, so none behind it was trimmed
    (iii) a child that has no evidence yet was born so lately that nothing of it can have been trimmed: a parent was
          open less than 24 h - 5 min ago, or by ListShards the child was not open at a time so young, and was since

Else it is unproven, and lost where a loss is certain.
"""

import zlib
from collections.abc import Collection
from typing import Final, NamedTuple

from minutebook.coverage.evidence import SURELY_HELD_MS
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH

HOUR_MS: Final = 60 * MINUTE_MS
RETRY_MS: Final = 5 * MINUTE_MS
SPREAD_MS: Final = 10 * MINUTE_MS
AFTER_MIDNIGHT_MS: Final = MINUTE_MS + 5_000
_DAY_MS: Final = 24 * HOUR_MS


class Base(NamedTuple):
    """What a new piece of evidence stands on: an older one; for a first shard's first, the application's start."""

    until_ms: int
    position: Position | None = None


class OldestHeld(NamedTuple):
    """The oldest record that a shard still holds, read at its trim horizon."""

    position: Position
    arrival_ms: int


class Held(NamedTuple):
    """What the stream was found to hold **after** the read: `tail`, the record at the base's position; the oldest."""

    tail: bool = False
    oldest: OldestHeld | None = None


def judge_continuity(base: Base, answered_ms: int, held: Held, *, is_lost: bool = False) -> Continuity:
    """Judge evidence that stands on `base`. `answered_ms` is the Date of an answer that came after the read."""
    if is_young(base.until_ms, answered_ms) or _is_base_held(base, held):
        return Continuity.PROVEN
    return Continuity.LOST if is_lost else Continuity.UNPROVEN


def judge_birth(
    answered_ms: int, *, parents_open_ms: int | None = None, unborn_ms: int | None = None, is_lost: bool = False
) -> Continuity:
    """Judge the first evidence of a child; its `from` is then `BIRTH`.

    `parents_open_ms` is the last time at which a parent is known to have been open, `unborn_ms` a time at which the
    child did not exist (`unborn_at`).
    """
    times = [time for time in (parents_open_ms, unborn_ms) if time is not None]
    if times and is_young(max(times), answered_ms):
        return Continuity.PROVEN
    return Continuity.LOST if is_lost else Continuity.UNPROVEN


def is_young(until_ms: int, answered_ms: int) -> bool:
    """Tell whether nothing that arrived after `until_ms` can have been trimmed by `answered_ms`."""
    return answered_ms - until_ms < SURELY_HELD_MS


def unborn_at(asked_ms: int) -> int:
    """Return the time to ask ListShards about (ShardFilter AT_TIMESTAMP). `asked_ms`: Date of an earlier answer.

    Later than it had to be: the answer that the claim is judged by may come five minutes after this one.
    """
    return asked_ms - SURELY_HELD_MS + 5 * MINUTE_MS


def was_unborn(shard_id: str, named_then: Collection[str], named_since: Collection[str]) -> bool:
    """Tell whether ListShards shows that the shard did not exist at a time.

    It is named among those that were open at some time since (ShardFilter FROM_TIMESTAMP), and not among those that
    were open then. Without the former it may have ended before, and lost everything. A server that ignores filters
    names it both times: then nothing is proven.
    """
    return shard_id in named_since and shard_id not in named_then


def must_state(base: Base, answered_ms: int, *, follows_own_segment: bool) -> bool:
    """Tell whether a segment must state its continuity, instead of leaving it to the reader to derive.

    It may leave it only behind a segment of the same processor run, with nothing in between that it stands on
    instead, and only as long as that is young.
    """
    return not follows_own_segment or not is_young(base.until_ms, answered_ms)


def is_mark_due(shard_id: str, last_until_ms: int | None, service_ms: int, last_attempt_ms: int | None) -> bool:
    """Tell whether a quiet shard needs a read mark now.

    `last_until_ms` is the `until` of the shard's last durable evidence (None: it has none, as at a sentinel start),
    `service_ms` the service's time, `last_attempt_ms` when one was last tried without writing any. These are
    conditions, not events: a redeploy, a wrong clock or a midnight cannot skip them.
    """
    if last_attempt_ms is not None and 0 <= service_ms - last_attempt_ms < RETRY_MS:
        return False
    if last_until_ms is None:
        return True
    spread_ms = spread_of(shard_id)
    midnight_ms = service_ms // _DAY_MS * _DAY_MS
    is_old = service_ms - last_until_ms > HOUR_MS + spread_ms
    is_before_midnight = last_until_ms < midnight_ms and service_ms >= midnight_ms + AFTER_MIDNIGHT_MS + spread_ms
    return is_old or is_before_midnight


def spread_of(shard_id: str) -> int:
    """Return how much later than others this shard is marked: 0 to 10 minutes, the same in every process."""
    return zlib.crc32(shard_id.encode()) % SPREAD_MS


def read_until(asked_ms: int, from_ms: int) -> int:
    """Return the `until` of what was read to its tip. `asked_ms`: Date of an answer before the last request was sent.

    Never before its `from`: what was proven by then lies at or before the same position.
    """
    return max(asked_ms - ARRIVAL_STEP_BACK_MS, from_ms)


def first_from(base: Base | None) -> int:
    """Return the `from` of evidence that stands on `base`; None: a child that has none yet."""
    return BIRTH if base is None else base.until_ms


def _is_base_held(base: Base, held: Held) -> bool:
    if held.tail:
        return True
    if held.oldest is None:
        return False
    if base.position is not None and held.oldest.position <= base.position:
        return True
    # Stamps step back: a record just before that time may have been followed by trimmed ones from behind it.
    return held.oldest.arrival_ms + ARRIVAL_STEP_BACK_MS < base.until_ms
