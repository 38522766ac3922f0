"""The search for what a scope's coverage rests on outside of it: the links before and behind it, and later marks.

behind the scope   the first hour always, because stamps step back over its end; then day by day, to today, until
each shard that may have lived has evidence whose `until` reaches the scope's end
before the scope   until each chain goes back to a link two minutes before it. What a published day names is looked at
first; then evidence, which names what it stands on by a time: a quiet shard's last segment is
found by following its marks, however long ago it was; else hour by hour, through days that hold something
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from minutebook.coverage.evidence import EvidenceLink, Kind
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS, MIDNIGHT_EDGE_MS
from minutebook.format.day import Day, day_of_ms
from minutebook.format.metadata import Continuity
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark
from minutebook.index.last_segments import LastSegments, none_published
from minutebook.index.names import ArchiveIndex, SegmentName, nearest
from minutebook.proof.evidence_set import EvidenceSet, ProofQuery
from minutebook.proof.links import SegmentLinks
from minutebook.proof.statements import DamagedObject, Statements, read_marks
from minutebook.store.retrying import RetryingStore

_HOUR_MS: Final = 60 * MINUTE_MS
_HINTS: Final = (1, 0, -2, -1, 2, -3)
"""In which minute the segment lies that evidence stands on, counted from its `from`: mostly the next one."""


class Search:
    """One search. `links` are those of the scope's own segments, by shard; `statements` were read before them.

    `published` says where to look first for what lies before.
    """

    def __init__(
        self,
        store: RetryingStore,
        prefix: str,
        query: ProofQuery,
        statements: Statements,
        links: Mapping[str, Iterable[EvidenceLink]],
        published: LastSegments = none_published,
    ) -> None:
        self._published = published
        self._store = store
        self._prefix = prefix
        self._query = query
        self._scope = query.scope
        self._statements = statements
        self._index = ArchiveIndex(store, prefix)
        self._links = SegmentLinks(store, self._index)
        self._known = EvidenceSet(query, statements)
        self._read_days = set(statements.marks)
        self._to_the_end: set[str] = set()
        self._to_the_beginning: set[str] = set()
        self.problems: list[DamagedObject] = []
        self.outside: set[tuple[str, EvidenceLink]] = set()
        for shard_id, given in links.items():
            for link in given:
                self._known.add_link(shard_id, link)

    def run(self) -> dict[str, ShardFacts]:
        """Search; return what is known of each shard."""
        self._look_beside()
        self._go_forward()
        self._go_back()
        left = self._wants()
        return {
            shard_id: self._known.facts(
                shard_id,
                to_the_beginning=shard_id in self._to_the_beginning,
                to_the_end=shard_id in self._to_the_end,
                unseen=frozenset(() if shard_id in self._to_the_beginning else left.get(shard_id, ())),
            )
            for shard_id in sorted(self._known.known)
        }

    @property
    def marks(self) -> Mapping[str, Mapping[ReadMark, int]]:
        """The marks that were read, by shard, and when each was stored."""
        return self._known.marks

    def _add(self, names: Sequence[SegmentName]) -> None:
        self.outside |= {found for found in self._links.of(names) if self._known.add_link(*found)}

    # Beside

    def _look_beside(self) -> None:
        """Stamps step back inside a shard: what is beside the scope in time may lie inside it in the chain."""
        begin_ms, until_ms = self._scope
        before = self._by_shard(self._index.in_hours(begin_ms - _HOUR_MS, begin_ms), Interval(0, begin_ms))
        behind = self._by_shard(self._index.in_hours(until_ms, until_ms + _HOUR_MS), Interval(until_ms, FOREVER))
        chosen = []
        for shard_id, names in before.items():
            near = {name for name in names if name.minute * MINUTE_MS >= begin_ms - MIDNIGHT_EDGE_MS}
            low = min(self._firsts(shard_id, near), default=None)
            chosen += [name for name in names if name in near or (low is not None and name.first > low)]
        for shard_id, names in behind.items():
            near = {name for name in names if name.minute * MINUTE_MS < until_ms + MIDNIGHT_EDGE_MS}
            high = max(self._firsts(shard_id, near), default=None)
            chosen += [name for name in names if name in near or (high is not None and name.first < high)]
        self._add(chosen)

    def _firsts(self, shard_id: str, near: Iterable[SegmentName]) -> list[Position]:
        return [*(link.first for link in self._segments(shard_id)), *(name.first for name in near)]

    @staticmethod
    def _by_shard(hours: Iterable[Iterable[SegmentName]], inside: Interval) -> dict[str, list[SegmentName]]:
        found: dict[str, list[SegmentName]] = defaultdict(list)
        for name in (name for hour in hours for name in hour):
            if inside.from_ms <= name.minute * MINUTE_MS < inside.until_ms:
                found[name.shard_id].append(name)
        return found

    # Behind

    def _go_forward(self) -> None:
        begin_ms = self._scope.until_ms
        for number in range(day_of_ms(begin_ms).number, day_of_ms(self._query.now_ms).number + 1):
            day = Day(number)
            if day not in self._read_days:
                self._known.add_marks(read_marks(self._store, self._prefix, day, self.problems))
                self._read_days.add(day)
            if not self._lacking(day):
                return
            if not self._index.holds(day):
                continue
            from_ms = max(begin_ms // _HOUR_MS * _HOUR_MS, day.begin_ms)
            for span in (Interval(from_ms, from_ms + _HOUR_MS), Interval(from_ms + _HOUR_MS, day.end_ms)):
                self._take_first(self._index.in_hours(*span), self._lacking(day))
                if not self._lacking(day):
                    return
        self._to_the_end = self._lacking(day_of_ms(self._query.now_ms))

    def _take_first(self, hours: Iterable[Iterable[SegmentName]], lacking: set[str]) -> None:
        """Take each shard's segments up to the first whose `until` reaches the scope's end, and those beside it."""
        until_ms = self._scope.until_ms
        by_shard = self._by_shard(hours, Interval(until_ms, FOREVER))
        chosen = []
        for shard_id in lacking & by_shard.keys():
            names = by_shard[shard_id]
            reaching = (name.minute for name in names if name.minute * MINUTE_MS - ARRIVAL_STEP_BACK_MS >= until_ms)
            last = min(reaching, default=None)
            near = {name for name in names if last is None or name.minute <= last}
            high = max(name.first for name in near)
            chosen += [name for name in names if name in near or name.first < high]
        self._add(chosen)
        self._add(self._links.predecessors(chosen, self._known.ends))

    def _lacking(self, day: Day) -> set[str]:
        """Return the shards that may have lived in the scope, and of which nothing yet reaches its end."""
        return {shard_id for shard_id in self._known.concerned() if not self._is_settled(shard_id, day)}

    def _is_settled(self, shard_id: str, day: Day) -> bool:
        markers = self._statements.of(shard_id)
        marks = self._known.marks.get(shard_id, {})
        has_none = any(mark.position is None for mark in marks)
        if has_none and markers.start is not None and not self._known.links.get(shard_id):
            return False  # nothing was archived yet by then: the first segment, wherever it lies, says so
        if markers.end_stored_ms is not None and day_of_ms(markers.end_stored_ms).number + 1 < day.number:
            return True
        return self._known.is_archived_beyond(shard_id) or any(self._reaches_end(shard_id, mark) for mark in marks)

    def _reaches_end(self, shard_id: str, mark: ReadMark) -> bool:
        """Tell whether a mark reaches the scope's end, and nothing behind what is known comes before it."""
        is_late = mark.kind is MarkKind.READ and mark.until_ms >= self._scope.until_ms
        is_end = mark.kind is MarkKind.END and mark.continuity is Continuity.PROVEN
        if not (is_late or is_end):
            return False
        head = self._known.heads.get(shard_id)
        return (
            mark.position is None
            or mark.from_ms < self._scope.until_ms
            or mark.position in self._known.ends[shard_id]
            or (head is not None and mark.position < head.first)
        )

    # Before

    def _go_back(self) -> None:
        day, days = day_of_ms(self._scope.from_ms - 1), 0
        self._look_where_published(day)
        for shard_id, positions in self._wants().items():
            for position in positions:
                self._follow(shard_id, position)
        oldest = self._index.oldest_day(day) if self._wants() else None
        seen: dict[str, list[SegmentName]] = defaultdict(list)
        while oldest is not None and day.number >= oldest.number and days < self._query.lookback_days:
            self._look_where_published(day)
            if not self._wants():
                return
            if self._index.holds(day):
                days += 1
                self._search_day(day, seen)
            day = day.shift(-1)
        if oldest is None or day.number < oldest.number:
            self._to_the_beginning = set(self._wants())

    def _look_where_published(self, day: Day) -> None:
        """Take the segments that a published day names, where they end at a position that is wanted."""
        wants = self._wants()
        ends = (self._published(day) if wants else None) or {}
        keys = [
            ends[shard_id].key for shard_id, some in wants.items() if shard_id in ends and ends[shard_id].last in some
        ]
        named = [name for name in map(self._index.of_key, keys) if name is not None]
        self._links.of(named)  # asked for at once
        for name in named:
            found = {link.last for _, link in self._links.of([name])} & wants.get(name.shard_id, set())
            if found and name.minute * MINUTE_MS < self._scope.from_ms:
                self._add([name])

    def _search_day(self, day: Day, seen: dict[str, list[SegmentName]]) -> None:
        end_ms = min(day.end_ms, self._scope.from_ms)
        last_ms = max(day.begin_ms, (end_ms - 1) // _HOUR_MS * _HOUR_MS)
        for span in (Interval(last_ms, end_ms), Interval(day.begin_ms, last_ms)):
            wants = self._wants()
            for name in (name for hour in self._index.in_hours(*span) for name in hour):
                if name.shard_id in wants and name.minute * MINUTE_MS < self._scope.from_ms:
                    seen[name.shard_id].append(name)
            while wants:
                near = [name for shard_id, some in wants.items() for name in nearest(seen[shard_id], some)]
                self._add(near)
                left = self._wants()
                if left == wants:
                    break
                wants = left
            if not wants:
                return

    def _wants(self) -> dict[str, set[Position]]:
        """Return, by shard, the ends of segments before the scope that evidence of the scope stands on."""
        found = {}
        for shard_id in self._known.concerned():
            wanted = set()
            # Not the chain's head: a segment that a mark names may lie far before it, with others between.
            near = self._first_near(shard_id)
            if near is not None and isinstance(near.after, Position) and near.begins_ms > self._scope.from_ms:
                wanted.add(near.after)
            named = [piece for piece in self._known.pieces(shard_id) if piece.position is not None]
            first = self._first_inside(shard_id) if named else None
            for piece in named:
                is_before = first is None or (piece.position is not None and piece.position < first)
                # What is not proven covers nothing, but names a segment all the same.
                is_near = Interval(piece.from_ms, piece.until_ms).overlaps(self._scope)
                if piece.position is not None and is_before and is_near:
                    wanted.add(piece.position)
            adopted = self._statements.of(shard_id).adopted
            wanted -= self._known.ends[shard_id] | ({adopted.adopted_position()} if adopted else set())
            if wanted:
                found[shard_id] = wanted
        return found

    def _first_near(self, shard_id: str) -> EvidenceLink | None:
        """Return the first segment of those inside the scope and beside it: what lies there was read whole."""
        near_ms = self._scope.from_ms - MIDNIGHT_EDGE_MS
        near = (
            link for link in self._segments(shard_id) if link.begins_ms - MINUTE_MS - ARRIVAL_STEP_BACK_MS >= near_ms
        )
        return min(near, key=lambda link: (link.first, link.last), default=None)

    def _first_inside(self, shard_id: str) -> Position | None:
        """Return where the first segment begins that does not lie before the scope."""
        inside = (link.first for link in self._segments(shard_id) if link.begins_ms > self._scope.from_ms)
        return min(inside, default=None)

    def _segments(self, shard_id: str) -> list[EvidenceLink]:
        return [link for link in self._known.links.get(shard_id, ()) if link.kind is Kind.SEGMENT]

    def _follow(self, shard_id: str, position: Position) -> None:
        """Find the segment that ends at a position by the evidence that stands on it."""
        times = [
            link.from_ms for link in self._known.links.get(shard_id, ()) if link.after == position and link.from_ms
        ]
        times += [mark.from_ms for mark in self._known.marks.get(shard_id, ()) if mark.position == position]
        time_ms = min((time for time in times if time != BIRTH), default=None)
        while time_ms is not None:
            earlier = [
                mark.from_ms
                for mark in self._marks_of(shard_id, day_of_ms(time_ms))
                if mark.position == position and BIRTH < mark.from_ms < time_ms
            ]
            if not earlier:
                break
            time_ms = min(earlier)
        for minute in () if time_ms is None else (time_ms // MINUTE_MS + step for step in _HINTS):
            names = [name for name in self._index.at(minute, shard_id) if name.first <= position]
            ending = [name for name in names if any(link.last == position for _, link in self._links.of([name]))]
            if ending:
                self._add(ending)
                return

    def _marks_of(self, shard_id: str, day: Day) -> list[ReadMark]:
        if day in self._read_days:
            return list(self._known.marks.get(shard_id, ()))
        return [stored.mark for stored in read_marks(self._store, self._prefix, day, self.problems, shard_id)]
