"""From what the last marker and the rows say, which boundaries are reached, and what holds the next one. Pure.

The shards of a boundary are those of `minutebook.coverage.frontier`, judged by what rows say instead of segments:

    open shard ................ proven, or named as a gap, up to the boundary
    ended shard ............... proven, or named, up to its end; then its children, from when it was last surely open
    no row, nobody reads it ... holds the boundary, with its name

What a row leaves open is judged by the archive (`judging.py`): proven there, or a gap with its reasons. Boundaries
are reached in order; each names all gaps before it that are not healed.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from minutebook.completeness.rows import AllRows, ShardReach, ShardTimes
from minutebook.coverage.frontier import CoveredShard, Required, find_frontier
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.coverage.shard_coverage import Gap
from minutebook.coverage.topology import ShardSources, Topology
from minutebook.coverage.verdict import State, judge_scope
from minutebook.format.boundaries import CompleteMarker, NamedGap, ShardState
from minutebook.format.minute import MINUTE_MS, iso_time

PATIENCE_MS: Final = 2 * MINUTE_MS
"""How old a row must be before the archive judges the time before it: by then a skipped batch has its marker."""
ENDED_MS: Final = 48 * 60 * MINUTE_MS
"""How long a shard that has ended stays in the markers."""
_SILENT_MS: Final = 10 * MINUTE_MS
"""Behind a boundary. The rows of a shard that is read come within four minutes, on a busy machine within eight."""
_READ_IT: Final = "no row of it: its worker is of an older version, or has stopped"
_SILENT: Final = "no row of it any more: its worker is of an older version, or has stopped"


class Question(NamedTuple):
    """A time of one shard that the archive must judge. `is_child`: claims of time since its birth count."""

    shard: str
    interval: Interval
    is_child: bool


Judged = Mapping[Question, tuple[Gap, ...]]
"""The gaps that the archive found in each time; none: it is proven."""


class Facts(NamedTuple):
    """What one attempt knows. `ends` are the LastModified of `end.json`, by shard; `gaps` those named already."""

    since_ms: int
    boundary_ms: int
    every_ms: int
    now_ms: int
    states: Mapping[str, ShardState]
    gaps: tuple[NamedGap, ...]
    rows: AllRows
    sources: ShardSources
    ends: Mapping[str, int]


class Hold(NamedTuple):
    """What holds the next boundary: a shard (None: the stream's shards are in doubt), how far it reached, and why."""

    shard: str | None
    reached_ms: int
    why: str


class Folded(NamedTuple):
    """The boundaries that are reached, in order, and what holds the one behind them."""

    markers: tuple[CompleteMarker, ...]
    holds: tuple[Hold, ...]


def next_boundary(after_ms: int, every_ms: int) -> int:
    """Return the first boundary after a time."""
    return (after_ms // every_ms + 1) * every_ms


def shards_required(facts: Facts) -> Mapping[str, Required]:
    """Return the shards of the boundaries up to now: a child from when its parents were last surely open."""
    reaches, topology = _reaches(facts, {}), Topology(facts.sources)
    return find_frontier(topology, reaches, begin_ms=facts.since_ms, end_ms=facts.now_ms).shards


def questions(facts: Facts, shards: Mapping[str, Required]) -> list[Question]:
    """Return the times of the required shards that the archive must judge before the boundaries are folded."""
    asked = []
    for shard_id, required in sorted(shards.items()):
        reach = required.coverage
        if not isinstance(reach, ShardReach):
            continue
        from_ms = max(required.interval.from_ms, facts.boundary_ms)
        holes = reach.holes(from_ms, facts.now_ms, PATIENCE_MS)
        until_ms = required.interval.until_ms
        asked += [
            Question(shard_id, Interval(hole.from_ms, min(hole.until_ms, until_ms)), not required.is_first)
            for hole in holes
            if hole.from_ms < until_ms
        ]
    return asked


def fold(facts: Facts, judged: Judged, asked: Iterable[Question], writer: str, folded: Iterable[str] = ()) -> Folded:
    """Return the markers of all boundaries that are reached, the oldest first.

    `judged` are the answers about times between rows (`asked`), whose gaps are new, and about the gaps of `facts`,
    which are what is left of them. `folded` are ids of what the gaps contain. Each marker names all gaps, those
    behind its boundary, too: its shards' states reach beyond it, and nobody asks again about what they contain.
    """
    reaches, topology = _reaches(facts, judged), Topology(facts.sources)
    gaps = tuple(sorted({*facts.gaps, *_named({question: judged[question] for question in asked})}))
    markers: list[CompleteMarker] = []
    before_ms, states = facts.boundary_ms, dict(facts.states)
    while True:
        boundary_ms = next_boundary(before_ms, facts.every_ms)
        if boundary_ms > facts.now_ms:
            return Folded(tuple(markers), ())
        verdict = judge_scope(Interval(before_ms, boundary_ms), topology, reaches, begin_ms=facts.since_ms)
        if verdict.state is not State.COVERED:
            holds = [
                Hold(shard.shard_id, shard.gaps[0].interval.from_ms, _why(reaches.get(shard.shard_id), facts))
                for shard in verdict.shards
                if shard.gaps
            ]
            held = {hold.shard for hold in holds}
            holds += [
                Hold(doubt.shard_id, doubt.interval.from_ms, doubt.reason.meaning)
                for doubt in verdict.doubts
                if doubt.shard_id not in held
            ]
            return Folded(tuple(markers), tuple(holds))
        states = {
            **{name: state for name, state in states.items() if not _is_old(state, boundary_ms)},
            **{
                shard.shard_id: _state(reaches[shard.shard_id], shard.required.from_ms)
                for shard in verdict.shards
                if shard.shard_id in reaches
            },
        }
        markers.append(
            CompleteMarker(
                since=iso_time(facts.since_ms),
                boundary=iso_time(boundary_ms),
                shards=dict(sorted(states.items())),
                gaps=gaps,
                writer=writer,
                folded=tuple(sorted(folded)),
            )
        )
        before_ms = boundary_ms


def first_boundary(facts: Facts) -> int | list[Hold]:
    """Return the first boundary that every shard's rows allow, or the shards that have none yet.

    What ended before hands over unjudged. `facts` has no states.
    """
    reaches, topology = _reaches(facts, {}), Topology(facts.sources)
    frontier = find_frontier(topology, reaches, begin_ms=0, end_ms=facts.now_ms)
    begins, holds = [], []
    for shard_id in sorted(frontier.shards):
        reach, until_ms = reaches.get(shard_id), frontier.shards[shard_id].interval.until_ms
        if reach is not None and reach.ended_ms != FOREVER:
            begins.append(reach.ended_ms)
        elif until_ms != FOREVER and (reach is None or not reach.known.times):
            begins.append(until_ms)  # nobody reads it, and its children are read
        elif reach is None or not reach.known.times:
            holds.append(Hold(shard_id, 0, _READ_IT))
        else:
            begins.append(reach.known.times[0].interval.from_ms)
    holds += [Hold(None, 0, doubt.reason.meaning) for doubt in frontier.doubts if not frontier.shards]
    if holds or not begins:
        return holds or [Hold(None, 0, "no shard of the stream is known")]
    return next_boundary(max(begins) - 1, facts.every_ms)


def _reaches(facts: Facts, judged: Judged) -> dict[str, ShardReach]:
    """Return what is known of each shard."""
    proven: dict[str, list[Interval]] = {}
    named: dict[str, list[Gap]] = {}
    for question, gaps in judged.items():
        named.setdefault(question.shard, []).extend(gaps)
        if not gaps:
            proven.setdefault(question.shard, []).append(question.interval)
        else:
            # The rest of the time, around its gaps, is proven.
            named[question.shard].append(Gap(question.interval, ()))
    for gap in facts.gaps:
        named.setdefault(gap.shard, []).append(Gap(Interval(*gap.times_ms), ()))
    return {
        shard_id: ShardReach(
            shard_id,
            state=facts.states.get(shard_id),
            known=facts.rows.shards.get(shard_id, ShardTimes()),
            proven=proven.get(shard_id, ()),
            named=named.get(shard_id, ()),
            end_stored_ms=facts.ends.get(shard_id),
        )
        for shard_id in {*facts.states, *facts.rows.shards, *facts.ends}
    }


def _named(judged: Judged) -> list[NamedGap]:
    return [
        NamedGap.of(question.shard, *gap.interval, gap.reasons) for question, gaps in judged.items() for gap in gaps
    ]


def _state(reach: ShardReach, from_ms: int) -> ShardState:
    until_ms = reach.reach(from_ms)
    has_ended = until_ms == FOREVER
    return ShardState(
        reach.ended_ms if has_ended else until_ms,
        reach.open_until_ms,
        reach.position_at(until_ms),
        "ended" if has_ended else "open",
    )


def _is_old(state: ShardState, boundary_ms: int) -> bool:
    return state.state == "ended" and state.until_ms < boundary_ms - ENDED_MS


def _why(reach: CoveredShard | None, facts: Facts) -> str:
    if not isinstance(reach, ShardReach) or reach.is_empty:
        return _READ_IT
    if reach.ended_ms != FOREVER:
        return "its end is not covered yet"
    if facts.now_ms - reach.open_until_ms > facts.every_ms + _SILENT_MS:
        return _SILENT
    return "no row reaches further yet"
