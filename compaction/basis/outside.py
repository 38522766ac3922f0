"""What a scope's verdict used of the archive around it: each shard's nearest segments, and that none lies between.

    before     the neighbour's minute, and what lies between it and the scope, as far as the hour beside the scope;
               where neighbours lie at the scope's edge, from the one on that they stand on
    after      everything from the scope's end up to the neighbour; without one, up to now
    strangers  beside the edges, objects of shards that nothing else names

Neighbours are chosen by position, and listed by minute. Arrival times step back, so of those that are chosen the last
one need not have the last minute: the minutes listed are those of all of them.

Most neighbours lie within minutes: these minutes are listed by themselves. For those further away whole hours are
listed, or taken from the lists of the days beside, when a night looks at several days at once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, dropwhile
from typing import Final, NamedTuple, cast

import msgspec

from compaction.inventory.segments import ListedSegment, make_row
from compaction.verdict.basis import EXPIRED, Basis, ShardBasis, digest_of
from minutebook.coverage.intervals import Interval
from minutebook.format.arrival import MIDNIGHT_EDGE_MS
from minutebook.format.day import Day, Hour, day_of_ms, hour_of_ms
from minutebook.format.keys import SegmentKey, minute_prefix
from minutebook.format.minute import MINUTE_MS, minute_path
from minutebook.format.position import Position
from minutebook.format.tombstone import Tombstone
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage

NEAR_MINUTES: Final = 10
"""Neighbours within so many minutes are listed minute by minute."""
_EDGE_MINUTES: Final = MIDNIGHT_EDGE_MS // MINUTE_MS
_AT_ONCE: Final = 4


class Beside(NamedTuple):
    """A segment, or an expired run, outside of the scope. `minute` is that of its arrival."""

    first: Position
    last: Position
    minute: int
    is_expired: bool = False


class OutsideQuery(NamedTuple):
    """Where to list: the scope in minutes, `now_ms` for shards without a neighbour behind it, and the tombstones."""

    prefix: str
    begin_minute: int
    end_minute: int
    now_ms: int
    tombstones: Mapping[Day, Tombstone]

    @classmethod
    def of(cls, prefix: str, scope: Interval, now_ms: int, tombstones: Mapping[Day, Tombstone]) -> "OutsideQuery":
        """Return the query of a scope."""
        return cls(prefix, scope.from_ms // MINUTE_MS, scope.until_ms // MINUTE_MS, now_ms, tombstones)


class Places(NamedTuple):
    """Where to list: minutes, minutes of one shard each, and hours for the far shards."""

    minutes: tuple[int, ...]
    of_shards: tuple[tuple[str, int], ...]
    hours: tuple[Hour, ...]


HourRows = Callable[[Hour], Iterable[ListedObject]]
"""Returns an hour's objects; of a shared list, those of some shards."""


class UsedLinks(NamedTuple):
    """What was used of a shard outside of the scope: `before` up to the nearest, the last one, and `after`."""

    before: tuple[Beside, ...] = ()
    after: tuple[Beside, ...] = ()

    @classmethod
    def of(cls, links: Iterable[Beside], query: OutsideQuery) -> "UsedLinks":
        """Choose of any segments of the shard."""
        outside = sorted(set(links))
        before = [link for link in outside if link.minute < query.begin_minute]
        after = [link for link in outside if link.minute >= query.end_minute]
        nearest = max(before, key=lambda link: (link.last, link.first), default=None)
        stored = [link for link in before if not link.is_expired]
        # By position: arrival times step back, so a segment after one at the edge may have a minute before the edge.
        near = list(dropwhile(lambda link: link.minute < query.begin_minute - _EDGE_MINUTES, stored))
        # A break before those at the edge may reach into the scope: they stand on the one before them.
        below = [link for link in stored if near and link.last < near[0].first]
        near = [*below[-1:], *near]
        # Up to the chain's next segment, those at the edge, and the first that shows the shard open behind the scope.
        reaching = [link for link in after if link.minute > query.end_minute][:1]
        ends = [*after[:1], *reaching, *(link for link in after if link.minute < query.end_minute + _EDGE_MINUTES)]
        used = after[: after.index(max(ends)) + 1] if ends else []
        return cls(() if nearest is None else (*near, nearest), tuple(used))


def with_neighbours(shard: ShardBasis, used: UsedLinks) -> ShardBasis:
    """Return what was used of a shard outside of the scope, without digests."""
    basis = shard
    if used.before:
        first, minute = min(used.before), min(link.minute for link in used.before)
        basis = msgspec.structs.replace(
            basis, first_before=str(first.first), minute_before=minute, stands_on=str(used.before[-1].last)
        )
    if used.after:
        last, minute = max(used.after), max(link.minute for link in used.after)
        basis = msgspec.structs.replace(basis, first_after=str(last.first), minute_after=minute)
    return basis


class Outside(NamedTuple):
    """The rows that count, by shard and side, and the strangers."""

    before: Mapping[str, Sequence[ListedSegment]]
    after: Mapping[str, Sequence[ListedSegment]]
    strangers: Sequence[ListedSegment]

    @property
    def newest_ms(self) -> int:
        """When the newest of them was stored."""
        sides = [*self.before.values(), *self.after.values(), self.strangers]
        return max((row.last_modified_ms for rows in sides for row in rows), default=0)


def list_outside(
    storage: RetryingStorage, query: OutsideQuery, shards: Sequence[ShardBasis], hours: HourRows | None = None
) -> Outside:
    """List what counts outside of a scope. `hours` are lists that exist already; None: hours are listed."""
    places = places_outside(query, shards)
    folders = [f"{query.prefix}{minute_path(minute)}/" for minute in places.minutes]
    folders += [minute_prefix(query.prefix, shard, minute) for shard, minute in places.of_shards]
    counted = _Counted(query, shards)

    def keep(objects: Iterable[ListedObject]) -> list[ListedSegment]:
        # As they come: an hour of a thousand shards is 60,000 objects, of which those of the far shards count.
        return [row for each in objects if (row := make_row(query.prefix, each)) in counted]

    listed = in_parallel(lambda folder: keep(storage.list_objects(folder)), folders)
    listed += in_parallel(lambda hour: keep(_hour(storage, query, hour, hours)), places.hours, _AT_ONCE)
    return _by_side(counted, chain.from_iterable(listed))


def places_outside(query: OutsideQuery, shards: Sequence[ShardBasis]) -> Places:
    """Return where to list. Pure."""
    before = [shard.minute_before for shard in shards if shard.minute_before and not _is_far_before(shard, query)]
    after = [shard.minute_after for shard in shards if shard.first_after and not _is_far_after(shard, query)]
    first = min([*before, query.begin_minute - _EDGE_MINUTES])
    last = max([*after, query.end_minute + _EDGE_MINUTES - 1])
    minutes = [*range(first, query.begin_minute), *range(query.end_minute, last + 1)]
    far = [(shard.shard, shard.minute_before) for shard in shards if _is_far_before(shard, query)]
    return Places(
        tuple(minute for minute in minutes if minute * MINUTE_MS <= query.now_ms),
        tuple(far),
        tuple(far_hours(shards, query)),
    )


def outside_of(query: OutsideQuery, shards: Sequence[ShardBasis], listed: Iterable[ListedSegment]) -> Outside:
    """Return what counts of what was listed around a scope. Pure."""
    counted = _Counted(query, shards)
    return _by_side(counted, (row for row in listed if row in counted))


def _by_side(counted: "_Counted", rows: Iterable[ListedSegment]) -> Outside:
    """Return rows that count, each once: lists may overlap."""
    before: dict[str, list[ListedSegment]] = defaultdict(list)
    after: dict[str, list[ListedSegment]] = defaultdict(list)
    strangers = []
    for row in {row.key: row for row in rows}.values():
        parsed = cast("SegmentKey", row.parsed)  # no other one counts
        if parsed.shard_id not in counted.shards:
            strangers.append(row)
        elif parsed.minute < counted.query.begin_minute:
            before[parsed.shard_id].append(row)
        else:
            after[parsed.shard_id].append(row)
    return Outside(before, after, strangers)


class _Counted:
    """The rows around a scope that count: those of its shards up to their neighbours, and strangers at its edges.

    An hour that is listed as a whole holds more than one of a shared list: of near shards their minutes alone count.
    """

    def __init__(self, query: OutsideQuery, shards: Sequence[ShardBasis]) -> None:
        self.query = query
        self._minutes = frozenset(places_outside(query, shards).minutes)
        self.shards = {shard.shard: shard for shard in shards}
        self._bounds = {shard.shard: _bounds(shard) for shard in shards}

    def __contains__(self, row: ListedSegment) -> bool:
        query, parsed = self.query, row.parsed
        if parsed is None or query.begin_minute <= parsed.minute < query.end_minute:
            return False
        is_before = parsed.minute < query.begin_minute
        shard = self.shards.get(parsed.shard_id)
        if shard is None:
            edge = query.begin_minute - parsed.minute if is_before else parsed.minute - query.end_minute + 1
            return edge <= _EDGE_MINUTES
        is_far = _is_far_before(shard, query) if is_before else _is_far_after(shard, query)
        if not is_far and parsed.minute not in self._minutes:
            return False
        low, high = self._bounds[parsed.shard_id]
        if is_before:
            return low is None or parsed.first >= low
        return high is None or parsed.first <= high


def with_outside(basis: Basis, query: OutsideQuery, outside: Outside) -> Basis:
    """Return the basis with the digests of what was listed."""
    shards = tuple(
        msgspec.structs.replace(
            shard,
            before=_before_digest(query, shard, outside.before.get(shard.shard, ())),
            after=_after_digest(query, shard, outside.after.get(shard.shard, ())),
        )
        for shard in basis.shards
    )
    return msgspec.structs.replace(basis, shards=shards, strangers=_digest(outside.strangers))


def far_shards(shards: Iterable[ShardBasis], query: OutsideQuery) -> set[str]:
    """Return the shards for which whole hours are listed."""
    return {shard.shard for shard in shards if _is_far_before(shard, query) or _is_far_after(shard, query)}


def far_hours(shards: Sequence[ShardBasis], query: OutsideQuery) -> list[Hour]:
    """Return the hours that are listed for them, in order."""
    hours: set[Hour] = set()
    if any(_is_far_before(shard, query) for shard in shards):
        hours.add(hour_of_ms((query.begin_minute - 1) * MINUTE_MS))
    behind = [shard for shard in shards if _is_far_after(shard, query)]
    if behind:
        until_ms = max(shard.minute_after * MINUTE_MS if shard.first_after else query.now_ms for shard in behind)
        begin = query.end_minute * MINUTE_MS
        hours |= {hour_of_ms(time_ms) for time_ms in range(begin, until_ms + 1, 60 * MINUTE_MS)}
        hours.add(hour_of_ms(max(until_ms, begin)))
    return sorted(hours)


def _hour(
    storage: RetryingStorage, query: OutsideQuery, hour: Hour, hours: HourRows | None
) -> Iterable[ListedObject]:
    return storage.list_objects(hour.path(query.prefix)) if hours is None else hours(hour)


def _is_far_before(shard: ShardBasis, query: OutsideQuery) -> bool:
    return bool(shard.first_before) and shard.minute_before < query.begin_minute - NEAR_MINUTES


def _is_far_after(shard: ShardBasis, query: OutsideQuery) -> bool:
    if not shard.first_after:
        return shard.looks_ahead
    return shard.minute_after >= query.end_minute + NEAR_MINUTES


def _bounds(shard: ShardBasis) -> tuple[Position | None, Position | None]:
    return tuple(Position.parse(text) if text else None for text in (shard.first_before, shard.first_after))  # type: ignore[return-value]  # two


def _before_digest(query: OutsideQuery, shard: ShardBasis, rows: Iterable[ListedSegment]) -> str:
    if not shard.first_before:
        return _digest(rows)
    tombstone = query.tombstones.get(day_of_ms(shard.minute_before * MINUTE_MS))
    if tombstone is None:
        return _digest(rows)
    known = tombstone.shards.get(shard.shard)
    runs = known.runs if known else []
    if not any(run.last == shard.stands_on for run in runs):
        return "gone"
    # `expire` deletes what tombstones cover; anything else between the neighbour and the scope came since.
    others = [row for row in rows if not _is_covered(query, row)]
    return _digest(others) if others else EXPIRED


def _is_covered(query: OutsideQuery, row: ListedSegment) -> bool:
    if row.parsed is None:
        return False
    tombstone = query.tombstones.get(day_of_ms(row.parsed.minute * MINUTE_MS))
    return tombstone is not None and tombstone.covers(row.parsed.shard_id, row.parsed.first)


def _after_digest(query: OutsideQuery, shard: ShardBasis, rows: Sequence[ListedSegment]) -> str:
    """Return the digest; where every day up to the neighbour is expired, that its record was archived on it."""
    last = day_of_ms(shard.minute_after * MINUTE_MS)
    days = range(day_of_ms(query.end_minute * MINUTE_MS).number, last.number + 1)
    if rows or not shard.first_after or any(Day(number) not in query.tombstones for number in days):
        return _digest(rows)
    is_covered = query.tombstones[last].covers(shard.shard, Position.parse(shard.first_after))
    return EXPIRED if is_covered else "gone"


def _digest(rows: Iterable[ListedSegment]) -> str:
    return digest_of(ListedObject(row.key, row.size, row.etag, row.last_modified_ms) for row in rows)
