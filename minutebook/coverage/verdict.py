"""The verdict on a scope: what is proven of each judged shard, and why the rest is not. Pure.

A scope is a UTC day, or its part after the application's start; on request, the part of today that has passed. It is
covered if every judged shard is covered at its required times, and the stream's shards are not in doubt. An empty
frontier is never covered.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minutebook.coverage.chain import Doubt, Reason
from minutebook.coverage.frontier import CoveredShard, Required, find_frontier
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import Gap
from minutebook.coverage.topology import Topology
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS, iso_time

SO_FAR_MARGIN_MS: Final = 80 * MINUTE_MS
"""What arrived later may still be unproven: quiet shards are marked once an hour, and marks may be late."""


class State(enum.StrEnum):
    """The result of a judgement."""

    COVERED = "covered"
    UNKNOWN = "unknown"
    DEFECT = "defect"


class ShardVerdict(NamedTuple):
    """One shard. `required` is the part of the scope in which it had to be covered.

    `begins_late`: the shard was adopted from another application within the scope, and is judged from there on.
    """

    shard_id: str
    state: State
    required: Interval
    gaps: tuple[Gap, ...]
    reasons: tuple[Reason, ...]
    begins_late: bool = False


class OpenTime(NamedTuple):
    """A time that is not proven, of one shard; without a shard, the stream's shards are in doubt."""

    shard_id: str | None
    interval: Interval
    reasons: tuple[Reason, ...]

    @property
    def why(self) -> str:
        """What its reasons mean."""
        return "; ".join(reason.meaning for reason in self.reasons)


class Verdict(NamedTuple):
    """The verdict on a scope: its shards in order, and doubts about the stream's shards."""

    state: State
    scope: Interval
    shards: tuple[ShardVerdict, ...]
    doubts: tuple[Doubt, ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """All reasons, in order."""
        reasons = {reason for shard in self.shards for reason in shard.reasons}
        return tuple(sorted(reasons | {doubt.reason for doubt in self.doubts}))

    @property
    def open_times(self) -> tuple[OpenTime, ...]:
        """All times that are not proven: each shard's gaps, then doubts, which may extend beyond the scope."""
        gaps = (OpenTime(shard.shard_id, gap.interval, gap.reasons) for shard in self.shards for gap in shard.gaps)
        return (*gaps, *(OpenTime(None, doubt.interval, (doubt.reason,)) for doubt in self.doubts))

    def inside(self, interval: Interval) -> Interval:
        """Return the part of an interval within the scope."""
        return interval.common(self.scope)

    def arrivals(self, open_time: OpenTime) -> str:
        """Return, for a sentence, what arrived at an open time within the scope."""
        begins, until = map(iso_time, self.inside(open_time.interval))
        return f"what arrived on {open_time.shard_id or 'the stream'} from {begins} to {until}"


def day_scope(day: Day, begin_ms: int, now_ms: int, *, so_far_ms: int | None = None) -> Interval | None:
    """Return the scope of a day; None for a day that ended before the application's start `begin_ms`, or lies ahead.

    A day in progress is judged up to `so_far_ms`; without it the scope extends to the day's end and cannot be covered
    yet.
    """
    from_ms, until_ms = max(day.begin_ms, begin_ms), day.end_ms
    if so_far_ms is not None:
        until_ms = min(until_ms, so_far_ms)
    return None if until_ms <= from_ms or day.begin_ms > now_ms else Interval(from_ms, until_ms)


def judge_scope(
    scope: Interval, topology: Topology, coverages: Mapping[str, CoveredShard], *, begin_ms: int
) -> Verdict:
    """Judge a scope. `begin_ms` is the application's start: its timestamp, or the stream's creation."""
    frontier = find_frontier(topology, coverages, begin_ms=begin_ms, end_ms=scope.until_ms)
    shards = tuple(
        verdict
        for _, required in sorted(frontier.shards.items())
        if (verdict := _judge_shard(scope, required, topology)) is not None
    )
    doubts = tuple(doubt for doubt in frontier.doubts if doubt.interval.overlaps(scope))
    states = [*(shard.state for shard in shards), *(_state([doubt.reason]) for doubt in doubts)]
    if not any(required.interval.overlaps(scope) for required in frontier.shards.values()):
        doubts = (*doubts, Doubt(Reason.NO_FRONTIER, scope))
        states.append(State.UNKNOWN)
    return Verdict(_worst(states), scope, shards, doubts)


def _judge_shard(scope: Interval, required: Required, topology: Topology) -> ShardVerdict | None:
    """Judge one shard; None if it did not exist in the scope."""
    from_ms = max(scope.from_ms, required.interval.from_ms)
    until_ms = min(scope.until_ms, required.interval.until_ms)
    taken_over = required.is_first and required.coverage.adopted_ms is not None
    if taken_over and required.interval.from_ms >= scope.until_ms:
        gap = Gap(scope, (Reason.ADOPTED,))
        return ShardVerdict(required.shard_id, State.UNKNOWN, scope, (gap,), gap.reasons)
    if until_ms <= from_ms:
        return None
    gaps = required.coverage.gaps(from_ms, until_ms)
    parents = topology.parents(required.shard_id)
    if required.is_unread and all(topology.is_over(parent) is not False for parent in parents):
        gaps = tuple(gap._replace(reasons=(Reason.MISSING_SHARD,)) for gap in gaps)
    reasons = tuple(sorted({reason for gap in gaps for reason in gap.reasons}))
    begins_late = taken_over and from_ms > scope.from_ms
    required_here = Interval(from_ms, until_ms)
    return ShardVerdict(required.shard_id, _state(reasons), required_here, gaps, reasons, begins_late)


def _state(reasons: Iterable[Reason]) -> State:
    return _worst(State.DEFECT if reason.is_defect else State.UNKNOWN for reason in reasons)


def _worst(states: Iterable[State]) -> State:
    distinct = set(states)
    return next((state for state in (State.DEFECT, State.UNKNOWN) if state in distinct), State.COVERED)
