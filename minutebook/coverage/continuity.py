"""Whether records may have been trimmed between a processor's last evidence and what it read. Pure.

Kinesis silently continues at its trim horizon, so each new piece of evidence is judged **after** the read, by the
answer's Date: a host may sleep between a check and the read. Continuity is proven if one of these holds:

    (i)   the preceding evidence is younger than 24 h - 5 min: nothing that young has been trimmed. The present
          retention proves nothing about the past: it may have been raised, or lowered and raised again
    (ii)  the stream still holds a record at or before that evidence's position, or one that arrived before its
          `until` (a first shard has no position yet: its first evidence follows the application's start). Kinesis
          trims the oldest records first, so no later one was trimmed
    (iii) a child without evidence is so young that none of its records can have been trimmed: a parent was open less
          than 24 h - 5 min ago, or by ListShards the child was not open at such a time, and has been open since

Otherwise it is unproven, or lost if a loss is certain.
"""

import zlib
from collections.abc import Collection
from typing import Final, NamedTuple

from minutebook.coverage.evidence import SURELY_HELD_MS
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.metadata import Continuity
from minutebook.format.minute import HOUR_MS, MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH

RETRY_MS: Final = MINUTE_MS
SPREAD_MS: Final = 10 * MINUTE_MS
AFTER_HOUR_MS: Final = 2 * MINUTE_MS + 10_000
"""How long after a full hour a mark is due. Sooner, a shard with a record every three minutes would pay eight marks a
day, although its next segment proves the hour."""


class Base(NamedTuple):
    """The evidence that a new piece follows; for the first one of a first shard, the application's start."""

    until_ms: int
    position: Position | None = None


class OldestHeld(NamedTuple):
    """The oldest record that a shard still holds, read at its trim horizon."""

    position: Position
    arrival_ms: int


class Held(NamedTuple):
    """What the stream held **after** the read: the record at the base's position (`tail`), and the oldest one."""

    tail: bool = False
    oldest: OldestHeld | None = None


def judge_continuity(base: Base, answered_ms: int, held: Held, *, is_lost: bool = False) -> Continuity:
    """Judge evidence that follows `base`. `answered_ms` is the Date of an answer after the read."""
    if is_young(base.until_ms, answered_ms) or _is_base_held(base, held):
        return Continuity.PROVEN
    return Continuity.LOST if is_lost else Continuity.UNPROVEN


def judge_birth(
    answered_ms: int, *, parents_open_ms: int | None = None, unborn_ms: int | None = None, is_lost: bool = False
) -> Continuity:
    """Judge the first evidence of a child; its `from` is then `BIRTH`.

    `parents_open_ms` is the last time at which a parent was known to be open, `unborn_ms` a time before the child
    existed (`unborn_at`).
    """
    times = [time for time in (parents_open_ms, unborn_ms) if time is not None]
    if times and is_young(max(times), answered_ms):
        return Continuity.PROVEN
    return Continuity.LOST if is_lost else Continuity.UNPROVEN


def is_young(until_ms: int, answered_ms: int) -> bool:
    """Return whether nothing that arrived after `until_ms` can have been trimmed by `answered_ms`."""
    return answered_ms - until_ms < SURELY_HELD_MS


def unborn_at(asked_ms: int) -> int:
    """Return the time for ListShards (ShardFilter AT_TIMESTAMP); `asked_ms` is the Date of an earlier answer.

    The margin allows the answer that the claim is judged by to come five minutes later.
    """
    return asked_ms - SURELY_HELD_MS + 5 * MINUTE_MS


def was_unborn(shard_id: str, named_then: Collection[str], named_since: Collection[str]) -> bool:
    """Return whether ListShards shows that the shard did not exist at a time.

    It must be among the shards that were open at some time since (ShardFilter FROM_TIMESTAMP): else it may have ended
    before, and all its records may be trimmed. It must not be among those open at that time. A server that ignores
    filters lists it both times, which proves nothing.
    """
    return shard_id in named_since and shard_id not in named_then


def must_state(base: Base, answered_ms: int, *, follows_own_segment: bool) -> bool:
    """Return whether a segment must state its continuity.

    Readers derive it for a segment that directly follows one of the same processor run which is young enough.
    """
    return not follows_own_segment or not is_young(base.until_ms, answered_ms)


def is_mark_due(shard_id: str, last_until_ms: int | None, service_ms: int, last_attempt_ms: int | None) -> bool:
    """Return whether a quiet shard needs a read mark now.

    It needs one for each full hour that its evidence does not reach, some time after that hour: at twenty past, every
    shard that is read is covered up to the hour.

    `last_until_ms` is the `until` of the shard's last durable evidence (None: none yet, as at a sentinel start),
    `service_ms` the service's time, `last_attempt_ms` the last attempt that wrote none. The rule depends on state
    alone, so a redeploy or a wrong clock cannot skip a mark.
    """
    if last_attempt_ms is not None and 0 <= service_ms - last_attempt_ms < RETRY_MS:
        return False
    if last_until_ms is None:
        return True
    due_hour_ms = (service_ms - AFTER_HOUR_MS - spread_of(shard_id)) // HOUR_MS * HOUR_MS
    return last_until_ms < due_hour_ms


def spread_of(shard_id: str) -> int:
    """Return the shard's delay for marks: 0 to 10 minutes, the same in every process."""
    return zlib.crc32(shard_id.encode()) % SPREAD_MS


def read_until(asked_ms: int, from_ms: int) -> int:
    """Return the `until` of a read to the tip; `asked_ms` is the Date of an answer before the last request was sent.

    Never before its `from`: records proven until then lie at or before the same position.
    """
    return max(asked_ms - ARRIVAL_STEP_BACK_MS, from_ms)


def first_from(base: Base | None) -> int:
    """Return the `from` of evidence that follows `base`; None: a child's first."""
    return BIRTH if base is None else base.until_ms


def _is_base_held(base: Base, held: Held) -> bool:
    if held.tail:
        return True
    if held.oldest is None:
        return False
    if base.position is not None and held.oldest.position <= base.position:
        return True
    # Arrival times step back: trimmed records after that time may precede a record just before it.
    return held.oldest.arrival_ms + ARRIVAL_STEP_BACK_MS < base.until_ms
