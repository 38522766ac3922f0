"""Rules of boundaries that can be left out, to see that the histories notice it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from consumer.boundaries import due, known, looks
from consumer.boundaries.due import Boundaries
from consumer.boundaries.known import KnownShards
from consumer.child_logs.processor_log import ProcessorEvent
from consumer.evidence.shard_evidence import ShardEvidence
from minutebook.completeness.rows import KnownTime, ShardReach, ShardTimes
from minutebook.coverage.continuity import Base
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.format.boundaries import ShardRow
from minutebook.format.read_mark import BIRTH

_AWAY: Final = ("outage", "outage", "outage", "split", "quiet", "kill")


class Mutation(NamedTuple):
    """What is replaced: (owner, name) by a function of what was there. `acts` are what it takes to notice it.

    A history soon after `seed` does.
    """

    replaced: Mapping[tuple[Any, str], Callable[[Any], Any]]
    acts: Sequence[str]
    is_skippy: bool = False
    seed: int = 1


def _proven_row(row_of: Callable[[ProcessorEvent], ShardRow | None]) -> Callable[[ProcessorEvent], ShardRow | None]:
    def mutated(event: ProcessorEvent) -> ShardRow | None:
        row = row_of(event)
        from_ms = event.covered_from_ms
        if row is None or from_ms is None:
            return row
        return msgspec.structs.replace(row, from_ms=from_ms, end=None if row.end is None else "proven")

    return mutated


def _always_from_base(_before: object) -> object:
    def covers_from(self: ShardEvidence, _metadata: object, base: Base | None) -> int | None:
        return self.until_ms if base is None else base.until_ms

    return covers_from


def _ends_anyway(_before: object) -> object:
    def behind_end(self: ShardReach) -> list[Interval]:
        return [] if self.ended_ms == FOREVER else [Interval(BIRTH, FOREVER)]

    return behind_end


def _open_is_until(add: Callable[..., None]) -> object:
    def mutated(self: ShardTimes, row: ShardRow, stored_ms: int) -> None:
        add(self, msgspec.structs.replace(row, open_ms=row.until_ms), stored_ms)

    return mutated


def _look_is_evidence(looked: Callable[..., None]) -> object:
    def mutated(self: KnownShards, shard_id: str, base: Base, row: ShardRow) -> None:
        looked(self, shard_id, base, row)
        shard = self._shards.get(shard_id)
        if shard is not None and (shard.base is None or shard.base == base):
            shard.base = Base(row.until_ms, base.position)

    return mutated


def _no_log_rule(_before: object) -> object:
    def settle(self: Boundaries) -> None:
        self._known.settle(self._known.staged(), self._stream.service_ms())

    return settle


def _covers_before(_before: object) -> object:
    def trusted(_self: ShardReach, time: KnownTime) -> Interval:
        return Interval(BIRTH, time.interval.until_ms)

    return trusted


MUTATIONS: Final[Mapping[str, Mutation]] = {
    "continuity": Mutation(
        {(known, "row_of"): _proven_row, (ShardEvidence, "covers_from"): _always_from_base}, _AWAY
    ),
    "proven-end": Mutation(
        {(ShardReach, "_behind_end"): _ends_anyway}, ("outage", "outage", "split", "kill"), seed=53
    ),
    "open": Mutation({(ShardTimes, "add"): _open_is_until}, ("outage", "outage", "split"), seed=20),
    "look-is-evidence": Mutation(
        {(KnownShards, "looked"): _look_is_evidence}, ("damage", "damage", "quiet", "kill"), seed=20
    ),
    "minute": Mutation(
        {
            (looks, "read_until"): lambda _before: max,
            (looks, "QUIET_MS"): lambda _before: 0,
            (due, "_LEADER_MS"): lambda _before: 1000,
        },
        ("kill",),
        seed=21,
    ),
    "log-rule": Mutation({(Boundaries, "settle"): _no_log_rule}, ("skip",), is_skippy=True, seed=33),
    "from-beyond": Mutation({(ShardReach, "_trusted"): _covers_before}, _AWAY, seed=8),
}
"""By name: each unproven row taken for proven; an ended shard that hands over without a proven end; a shard taken for
open until its `until`; a look that the next one stands on; looks and markers at once, and up to their very time; rows
before the daemon's log is read; a row that is taken to cover the time before it."""


@contextmanager
def without(name: str) -> Iterator[None]:
    """Leave a rule out."""
    before = {place: getattr(*place) for place in MUTATIONS[name].replaced}
    for (owner, attribute), mutate in MUTATIONS[name].replaced.items():
        setattr(owner, attribute, mutate(before[owner, attribute]))
    try:
        yield
    finally:
        for (owner, attribute), value in before.items():
            setattr(owner, attribute, value)
