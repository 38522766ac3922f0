"""Looks: soon after each boundary, quiet shards are read to their tip: nothing else has arrived before it.

    boundary + 65 s ..... shards without a segment since a minute before the boundary
    boundary + 150 s .... all others whose rows do not reach it; a busy shard's do by themselves

A look stands on the shard's durable evidence: everything up to its `until` is archived at or before its position. It
reads from a minute before that time, or, where that is so old that records may have been trimmed, from the record at
the position on. What KCL would deliver behind the position ends the look: a processor has that record, or gets it. At
the tip nothing is left, so everything that arrived up to a minute before the last request was sent is archived. A
reused iterator's answer may have an old Date, so a walk that takes longer than its iterators live is begun anew.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from consumer.boundaries.known import ReadShard
from consumer.evidence.shard_evidence import position_of
from consumer.evidence.tip_walk import Reached, TipWalk
from consumer.stream.port import ShardInfo, StreamPort, shard_hash_range
from minutebook.aws.kinesis.answers import Beginning
from minutebook.clock import Clock
from minutebook.coverage.continuity import Base, is_young, read_until
from minutebook.format.aggregate import HashRange
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.boundaries import ShardRow, ShardState
from minutebook.format.metadata import parse_predecessor
from minutebook.format.minute import MINUTE_MS, minute_of

if TYPE_CHECKING:
    from collections.abc import Mapping

QUIET_MS: Final = 65_000
BUSY_MS: Final = 150_000
IN_FLIGHT: Final = 4
AGAIN_SECONDS: Final = 20.0
"""After a look that met a record, or failed."""
_CALLS: Final = 20
_CALL_SECONDS: Final = 1.0
_WALK_SECONDS: Final = 240.0
_DATE_MS: Final = 1000
_MOST: Final = 1000
_FAR_MS: Final = 10 * MINUTE_MS
_YOUNG_MS: Final = 2 * MINUTE_MS


class Look(NamedTuple):
    """The result of a look. `row` is None if the tip was not reached; `goes_on`: the walk has more to read."""

    base: Base | None
    row: ShardRow | None
    goes_on: bool = False


@dataclass
class _Walk:
    base: Base
    began_at: float
    walk: TipWalk
    from_tail: bool


class Looker:
    """Looks at shards. `look` may run in several threads, each with another shard."""

    def __init__(self, stream: StreamPort, clock: Clock) -> None:
        self._stream = stream.within(0)
        self._clock = clock
        self._walks: dict[str, _Walk] = {}
        self._infos: Mapping[str, ShardInfo] = {}

    def look(self, shard: ReadShard, state: ShardState | None) -> Look:
        """Read a shard to its tip, at most so many requests; the next call goes on.

        `state` is the shard's by the newest marker: a processor's first look may stand on it. Raises
        StreamUnavailable and StreamRefused.
        """
        walk = self._walks.pop(shard.shard_id, None)
        if walk is None or not self._is_usable(walk, shard, state):
            walk = self._open(shard, state)
        if walk is None:
            return Look(None, None)
        for number in range(_CALLS):
            if number:
                self._clock.sleep(_CALL_SECONDS)
            if not walk.walk.iterator or self._is_old(walk):
                return Look(walk.base, None)
            answer = self._stream.read(shard.shard_id, walk.walk.iterator, most=_MOST)
            reached = walk.walk.take(answer)
            if reached is Reached.MORE:
                return Look(walk.base, None)
            if reached is not None:
                return Look(walk.base, self._row(walk, is_open=reached is Reached.TIP))
        self._walks[shard.shard_id] = walk
        return Look(walk.base, None, goes_on=True)

    def forget(self, shard_ids: set[str]) -> None:
        """Drop the walks of all other shards."""
        for shard_id in [*self._walks]:
            if shard_id not in shard_ids:
                self._walks.pop(shard_id, None)

    def _is_usable(self, walk: _Walk, shard: ReadShard, state: ShardState | None) -> bool:
        base = base_of(shard, state)
        return not self._is_old(walk) and (base == walk.base if base is not None else walk.from_tail)

    def _is_old(self, walk: _Walk) -> bool:
        return self._clock.monotonic() - walk.began_at > _WALK_SECONDS

    def _open(self, shard: ReadShard, state: ShardState | None) -> _Walk | None:
        base, began_at = base_of(shard, state), self._clock.monotonic()
        now_ms = self._stream.service_ms()
        if base is not None and now_ms is not None and is_young(base.until_ms, now_ms):
            since_ms = max(0, base.until_ms - ARRIVAL_STEP_BACK_MS)
            opened = self._stream.open(shard.shard_id, Beginning(since_ms=since_ms))
            from_tail = False
        else:
            position = position_of(parse_predecessor(shard.after)) if base is None else base.position
            if position is None:
                return None  # nothing is archived: its processor writes a mark at once, and a look stands on that
            opened = self._stream.open(shard.shard_id, Beginning(position.sequence))
            from_tail, base = True, base or Base(0, position)
        if opened is None or opened.iterator is None:
            return None
        return _Walk(base, began_at, TipWalk(base.position, self._hash_range(shard.shard_id), opened), from_tail)

    def _row(self, walk: _Walk, *, is_open: bool) -> ShardRow | None:
        """Return what a walk to the tip, or to the end, proves; None if its times do not allow to say it."""
        base, tip = walk.base, walk.walk
        if tip.asked_ms is None or tip.answered_ms is None or self._is_old(walk):
            return None
        from_ms = base.until_ms
        if walk.from_tail and not from_ms and tip.record is not None:
            from_ms = minute_of(tip.record.arrival_ms) * MINUTE_MS - ARRIVAL_STEP_BACK_MS
        until_ms = read_until(tip.asked_ms, from_ms)
        if until_ms > tip.answered_ms + _DATE_MS:
            return None
        position = None if base.position is None else str(base.position)
        is_proven = is_young(from_ms, tip.answered_ms) or tip.record is not None
        return ShardRow(from_ms if is_proven else until_ms, until_ms, until_ms if is_open else 0, position)

    def _hash_range(self, shard_id: str) -> HashRange:
        if shard_id not in self._infos:
            self._infos = self._stream.all_shards()
        return shard_hash_range(self._infos.get(shard_id))


def base_of(shard: ReadShard, state: ShardState | None) -> Base | None:
    """Return what a look stands on: the processor's evidence, else the newest marker's at the same position."""
    if shard.base is not None:
        return shard.base
    if state is None or state.state != "open":
        return None
    position = position_of(parse_predecessor(shard.after))
    if state.position != (None if position is None else str(position)):
        return None
    return Base(state.until_ms, position)


def is_due(shard: ReadShard, service_ms: int, every_ms: int) -> bool:
    """Return whether a look at a shard is due: its rows do not reach the last boundary that a look could."""
    quiet_ms = (service_ms - QUIET_MS) // every_ms * every_ms
    busy_ms = (service_ms - BUSY_MS) // every_ms * every_ms
    if shard.until_ms < busy_ms:
        # One that catches up has records behind: a look would take of its few reads, and meet the first of them.
        is_far = shard.until_ms < busy_ms - _FAR_MS
        return not (is_far and shard.committed_ms is not None and service_ms - shard.committed_ms < _YOUNG_MS)
    is_quiet = shard.committed_ms is None or shard.committed_ms < quiet_ms - MINUTE_MS
    return shard.until_ms < quiet_ms and is_quiet
