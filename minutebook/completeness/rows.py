"""One shard's times, as the rows of its workers say them. Pure.

row [from, until] ........ everything that arrived in it is archived: intervals that touch become one
row [until, until] ....... proves nothing, and begins a new interval: what lies before it is judged
row with `end` ........... the shard has ended: from then on there is nothing to miss

|<---- before the marker ---->| row |.. hole ..| row      | row
reach                       the hole is judged by the archive, once a row behind it
is old enough; until then it holds the boundary
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from minutebook.coverage.chain import Reason
from minutebook.coverage.intervals import FOREVER, Interval, gaps, union
from minutebook.coverage.shard_coverage import Gap
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.boundaries import RowsObject, ShardRow, ShardState
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH

_HEARD: Final = 16
_APART_MS: Final = 15 * MINUTE_MS


class _Heard(NamedTuple):
    """How far a row reached, and its LastModified."""

    stored_ms: int
    until_ms: int


class KnownTime(NamedTuple):
    """An interval that rows prove; an empty one begins the next.

    `stored_ms` is the LastModified of its first row, `position` the last one that its rows name.
    """

    interval: Interval
    stored_ms: int
    position: str | None = None

    @property
    def begins_ms(self) -> int:
        """Its begin; that of a time since the shard's birth is not known, and counts from its end."""
        return self.interval.until_ms if self.interval.from_ms == BIRTH else self.interval.from_ms


@dataclass
class ShardTimes:
    """All that rows say of one shard. `first_open_ms` is the first time at which it was surely open; 0: unknown."""

    times: list[KnownTime] = field(default_factory=list)
    open_ms: int = 0
    first_open_ms: int = 0
    ended_ms: int = FOREVER

    def add(self, row: ShardRow, stored_ms: int) -> None:
        """Add one row; rows may come in any order, and twice."""
        until_ms = row.until_ms if row.end is None else FOREVER
        self.times = _with(self.times, KnownTime(Interval(row.from_ms, until_ms), stored_ms, row.position))
        if row.open_ms:
            self.open_ms = max(self.open_ms, row.open_ms)
            self.first_open_ms = min(self.first_open_ms or row.open_ms, row.open_ms)
        if row.end is not None:
            self.ended_ms = min(self.ended_ms, row.until_ms + 2 * ARRIVAL_STEP_BACK_MS)


class AllRows:
    """The rows of all workers since a time, by shard."""

    def __init__(self) -> None:
        self.shards: dict[str, ShardTimes] = defaultdict(ShardTimes)
        self.said: dict[tuple[str, str], int] = {}
        """How far the rows of one run of a daemon reach, by run and shard: what it skipped lies behind that."""
        self._heard: dict[str, deque[_Heard]] = defaultdict(lambda: deque(maxlen=_HEARD))

    def add(self, document: RowsObject, stored_ms: int) -> None:
        """Add one object; `stored_ms` is its LastModified."""
        for shard, rows in document.rows.items():
            for row in rows:
                if max(row.until_ms, row.open_ms) > stored_ms + ARRIVAL_STEP_BACK_MS:
                    continue  # of another archive, or damaged: a worker says what lay a minute back
                self.shards[shard].add(row, stored_ms)
                said = document.run, shard
                self.said[said] = max(self.said.get(said, 0), row.until_ms)
                self._hear(shard, _Heard(stored_ms, row.until_ms))

    def said_by(self, shard: str, stored_ms: int) -> int | None:
        """Return how far rows of a shard reach that were stored by a time, whoever wrote them; None if none is known.

        Of some rows only, a quarter of an hour apart: less far is true as well.
        """
        return max((heard.until_ms for heard in self._heard[shard] if heard.stored_ms <= stored_ms), default=None)

    def _hear(self, shard: str, row: "_Heard") -> None:
        heard = self._heard[shard]
        if not heard or row.stored_ms >= heard[-1].stored_ms + _APART_MS:
            heard.append(row)

    def forget_before(self, states: Mapping[str, ShardState], oldest_ms: int) -> None:
        """Drop the intervals that a marker contains: it stands for them; and what runs said before a time."""
        self.said = {said: until_ms for said, until_ms in self.said.items() if until_ms >= oldest_ms}
        for shard, state in states.items():
            if shard in self.shards:
                known = self.shards[shard]
                known.times = [time for time in known.times if time.interval.until_ms > state.until_ms]


class ShardReach:
    """The coverage of one shard as rows and markers say it, in the form that `find_frontier` and `judge_scope` take.

    `state` is that of the last marker (None: the marker does not know the shard), `proven` and `named` what the
    archive says of times between rows: proven, or a gap. `ended_ms` is a time by which the shard had ended.
    """

    adopted_ms: int | None = None

    def __init__(
        self,
        shard_id: str,
        *,
        state: ShardState | None = None,
        known: ShardTimes | None = None,
        proven: Iterable[Interval] = (),
        named: Iterable[Gap] = (),
        end_stored_ms: int | None = None,
        trusts_birth: bool = True,
    ) -> None:
        known = known or ShardTimes()
        self.shard_id = shard_id
        self.known = known
        self.state = state
        self.named = tuple(named)
        self._proven = tuple(proven)
        self._end_stored_ms = end_stored_ms
        self._trusts_birth = trusts_birth
        by_end = FOREVER if end_stored_ms is None else end_stored_ms + ARRIVAL_STEP_BACK_MS
        self.ended_ms = min(known.ended_ms, by_end)
        self.open_until_ms = max(known.open_ms, state.open_ms if state else 0)
        self.seen_open_ms = known.first_open_ms or (state.open_ms if state and state.open_ms else None)
        self.is_empty = state is None and not known.times
        begun = [] if state is None else [Interval(BIRTH, FOREVER if state.state == "ended" else state.until_ms)]
        self.covered = union([*begun, *map(self._trusted, known.times), *self._proven, *self._behind_end()])

    def _trusted(self, time: KnownTime) -> Interval:
        """Return what a row covers; of a shard that is no child, a claim since birth covers nothing."""
        is_birth = time.interval.from_ms == BIRTH and not self._trusts_birth
        return Interval(time.interval.until_ms, time.interval.until_ms) if is_birth else time.interval

    def _behind_end(self) -> list[Interval]:
        return [] if self.ended_ms == FOREVER else [Interval(self.ended_ms, FOREVER)]

    def without_birth(self) -> Self:
        """Return the same without claims of time since the shard's birth, which only child shards may make."""
        if not any(time.interval.from_ms == BIRTH for time in self.known.times):
            return self
        return type(self)(
            self.shard_id,
            state=self.state,
            known=self.known,
            proven=self._proven,
            named=self.named,
            end_stored_ms=self._end_stored_ms,
            trusts_birth=False,
        )

    def is_open_at(self, time_ms: int) -> bool:
        """Return whether the shard was surely open at that time or later."""
        return self.open_until_ms >= time_ms

    def begins_ms(self) -> int:
        """Return the begin of what is known; FOREVER if nothing is."""
        if self.state is not None:
            return BIRTH  # the marker has settled all that lies before it
        return min((time.begins_ms for time in self.known.times), default=FOREVER)

    def gaps(self, from_ms: int, until_ms: int) -> tuple[Gap, ...]:
        """Return the times between the two that are neither proven nor named as gaps: they hold the boundary."""
        settled = union([*self.covered, *(gap.interval for gap in self.named)])
        return tuple(Gap(interval, (Reason.NOT_COVERED,)) for interval in gaps(settled, Interval(from_ms, until_ms)))

    def position_at(self, reached_ms: int) -> str | None:
        """Return the last position that is known of the times up to `reached_ms`: a look may stand on both."""
        position = self.state.position if self.state else None
        for time in self.known.times:
            if time.interval.from_ms <= reached_ms:
                position = _later(position, time.position)
        return position

    def reach(self, from_ms: int) -> int:
        """Return up to when everything since `from_ms` is proven or named as a gap."""
        hole = next(iter(self.gaps(from_ms, FOREVER)), None)
        return FOREVER if hole is None else hole.interval.from_ms

    def holes(self, from_ms: int, now_ms: int, patience_ms: int) -> list[Interval]:
        """Return the times that the archive must judge: those before a row, or before the end, that is old enough."""
        behind = [time.begins_ms for time in self.known.times if time.stored_ms <= now_ms - patience_ms]
        if self._end_stored_ms is not None and self._end_stored_ms <= now_ms - patience_ms:
            behind.append(self.ended_ms)
        last_ms = max(behind, default=from_ms)
        return [gap.interval for gap in self.gaps(from_ms, last_ms)] if last_ms > from_ms else []


def _with(times: list[KnownTime], new: KnownTime) -> list[KnownTime]:
    """Return the intervals with one more, in order; those that touch it become one with it."""
    apart, (from_ms, until_ms), stored_ms, position = [], new.interval, new.stored_ms, new.position
    for time in times:
        if time.interval.until_ms < from_ms or time.interval.from_ms > until_ms:
            apart.append(time)
        else:
            from_ms, until_ms = min(from_ms, time.interval.from_ms), max(until_ms, time.interval.until_ms)
            stored_ms, position = min(stored_ms, time.stored_ms), _later(position, time.position)
    return sorted([*apart, KnownTime(Interval(from_ms, until_ms), stored_ms, position)], key=_interval_of)


def _interval_of(time: KnownTime) -> Interval:
    return time.interval


def _later(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other, key=Position.parse)
