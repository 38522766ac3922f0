"""The verdict on a scope: what is proven of each shard that is judged, and why the rest is not. Pure.

A scope is a UTC day, or what of it lies behind the application's start; or, asked for, what has passed of today. It
is covered when every shard that is judged is covered wherever it is required, and nothing about the stream's shape
is in doubt. An empty frontier is never covered.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minutebook.coverage.chain import Doubt, Reason
from minutebook.coverage.frontier import Frontier, Required, find_frontier
from minutebook.coverage.intervals import Interval
from minutebook.coverage.shard_coverage import Gap, ShardCoverage
from minutebook.coverage.topology import Topology
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS

SO_FAR_MARGIN_MS: Final = 80 * MINUTE_MS
"""Today is judged up to this long ago: a quiet shard is marked once an hour, and marks may be late."""


class State(enum.StrEnum):
    """What a judgement says."""

    COVERED = "covered"
    UNKNOWN = "unknown"
    DEFECT = "defect"


class ShardVerdict(NamedTuple):
    """One shard. `required` is what of the scope it had to be covered for; `begins_late` says that it was not whole.

    `begins_late`: the shard was taken over from another application within the scope, and is judged from there on.
    """

    shard_id: str
    state: State
    required: Interval
    gaps: tuple[Gap, ...]
    reasons: tuple[Reason, ...]
    begins_late: bool = False


class OpenTime(NamedTuple):
    """A time that is not proven, of one shard; without one the stream's shape is in doubt."""

    shard_id: str | None
    interval: Interval
    reasons: tuple[Reason, ...]


class Verdict(NamedTuple):
    """The whole scope: its shards in order, and what is in doubt about the stream's shape."""

    state: State
    scope: Interval
    shards: tuple[ShardVerdict, ...]
    doubts: tuple[Doubt, ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every reason once, in order."""
        named = {reason for shard in self.shards for reason in shard.reasons}
        return tuple(sorted(named | {doubt.reason for doubt in self.doubts}))

    @property
    def open_times(self) -> tuple[OpenTime, ...]:
        """Everything that is not proven: the gaps of each shard, then doubts, which may reach beyond the scope."""
        gaps = (OpenTime(shard.shard_id, gap.interval, gap.reasons) for shard in self.shards for gap in shard.gaps)
        return (*gaps, *(OpenTime(None, doubt.interval, (doubt.reason,)) for doubt in self.doubts))

    def inside(self, interval: Interval) -> Interval:
        """Return what of an interval lies in the scope."""
        return Interval(max(interval.from_ms, self.scope.from_ms), min(interval.until_ms, self.scope.until_ms))


def day_scope(day: Day, begin_ms: int, now_ms: int, *, so_far_ms: int | None = None) -> Interval | None:
    """Return what is judged of a day; None: nothing, because it ends before the application began, or lies ahead.

    The audit, `compact` and `expire` all ask here. `begin_ms` is the application's start. Of a day that is not over,
    `so_far_ms` says up to when it is judged (`SO_FAR_MARGIN_MS` ago, unless the user names a time); without it the
    scope reaches to the day's end and cannot be covered yet.
    """
    from_ms, until_ms = max(day.begin_ms, begin_ms), day.end_ms
    if so_far_ms is not None:
        until_ms = min(until_ms, so_far_ms)
    return None if until_ms <= from_ms or day.begin_ms > now_ms else Interval(from_ms, until_ms)


def judge_scope(
    scope: Interval, topology: Topology, coverages: Mapping[str, ShardCoverage], *, begin_ms: int
) -> Verdict:
    """Judge a scope. `begin_ms` is the application's start: its timestamp, or the stream's creation."""
    frontier = find_frontier(topology, coverages, begin_ms=begin_ms, end_ms=scope.until_ms)
    shards = tuple(
        verdict
        for _, required in sorted(frontier.shards.items())
        if (verdict := _judge_shard(scope, required, parents_over=_are_parents_over(required, topology))) is not None
    )
    doubts = tuple(doubt for doubt in frontier.doubts if doubt.interval.overlaps(scope))
    states = [*(shard.state for shard in shards), *(_state([doubt.reason]) for doubt in doubts)]
    if not _is_somebody_judged(frontier, scope):
        doubts = (*doubts, Doubt(Reason.NO_FRONTIER, scope))
        states.append(State.UNKNOWN)
    return Verdict(_worst(states), scope, shards, doubts)


def _judge_shard(scope: Interval, required: Required, *, parents_over: bool) -> ShardVerdict | None:
    """Judge one shard; None: it did not exist in the scope."""
    from_ms = max(scope.from_ms, required.interval.from_ms)
    until_ms = min(scope.until_ms, required.interval.until_ms)
    taken_over = required.is_first and required.coverage.adopted_ms is not None
    if taken_over and required.interval.from_ms >= scope.until_ms:
        gap = Gap(scope, (Reason.ADOPTED,))
        return ShardVerdict(required.shard_id, State.UNKNOWN, scope, (gap,), gap.reasons)
    if until_ms <= from_ms:
        return None
    gaps = required.coverage.gaps(from_ms, until_ms)
    if required.is_unread and parents_over:
        gaps = tuple(gap._replace(reasons=(Reason.MISSING_SHARD,)) for gap in gaps)
    reasons = tuple(sorted({reason for gap in gaps for reason in gap.reasons}))
    begins_late = taken_over and from_ms > scope.from_ms
    required_here = Interval(from_ms, until_ms)
    return ShardVerdict(required.shard_id, _state(reasons), required_here, gaps, reasons, begins_late)


def _are_parents_over(required: Required, topology: Topology) -> bool:
    return all(topology.is_over(parent) is not False for parent in topology.parents(required.shard_id))


def _is_somebody_judged(frontier: Frontier, scope: Interval) -> bool:
    return any(required.interval.overlaps(scope) for required in frontier.shards.values())


def _state(reasons: Iterable[Reason]) -> State:
    found = list(reasons)
    if any(reason.is_defect for reason in found):
        return State.DEFECT
    return State.UNKNOWN if found else State.COVERED


def _worst(states: Iterable[State]) -> State:
    found = set(states)
    return next((state for state in (State.DEFECT, State.UNKNOWN) if state in found), State.COVERED)
