"""Search the evidence outside of a scope that its coverage depends on: links before and after it, and later marks.

after the scope    always the first hour, because arrival times step back over the scope's end; then day by day
                   until today, or until the evidence of each shard that may have existed reaches the scope's end
before the scope   until each chain goes back to a link two minutes before it: first the segments that a published
                   day names; then by the times in evidence, so the last segment of a quiet shard is found through
                   its marks, however old it is; at last hour by hour through non-empty days
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from minutebook.coverage.evidence import EvidenceLink, Kind, segment_link
from minutebook.coverage.intervals import FOREVER, Interval
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.errors import FormatError
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS, MIDNIGHT_EDGE_MS, STEP_BACK_MINUTES
from minutebook.format.day import Day, day_of_ms
from minutebook.format.metadata import Continuity, SegmentMetadata, is_ours
from minutebook.format.minute import HOUR_MS, MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark
from minutebook.index.last_segments import LastSegments, none_published
from minutebook.index.names import ArchiveIndex, SegmentName, nearest
from minutebook.proof.evidence_set import EvidenceSet, ProofQuery
from minutebook.proof.statements import DamagedObject, Statements, read_marks
from minutebook.store.retrying import RetryingStore

_HINTS: Final = (1, 0, -2, -1, 2, -3)
"""The minute of the segment before a piece of evidence, relative to its `from`: mostly the next one."""


class SegmentLinks:
    """Reads the links of segments by name. They never change, so they are cached."""

    def __init__(self, store: RetryingStore, index: ArchiveIndex) -> None:
        self._store = store
        self._index = index
        self._links: dict[str, EvidenceLink | None] = {}

    def of(self, names: Sequence[SegmentName]) -> list[tuple[str, EvidenceLink]]:
        """Return (shard, link) of each valid segment; the audit of its day reports any other object."""
        unknown = [name for name in names if name.key not in self._links]
        self._links |= zip((name.key for name in unknown), self._store.read_many(self._head, unknown), strict=True)
        return [(name.shard_id, link) for name in names if (link := self._links[name.key]) is not None]

    def predecessors(
        self, chosen: Sequence[SegmentName], ends: Mapping[str, AbstractSet[Position]]
    ) -> list[SegmentName]:
        """Return the predecessors of chosen segments in later minutes, if `ends` (by shard) does not have them.

        Arrival times of one shard step back by a minute at most, so a predecessor may have a later minute, even on
        the next day. A search back in time finds the others.
        """
        predecessors: dict[SegmentName, None] = {}
        while chosen:
            later = (
                name
                for segment in chosen
                if self._follows_unknown(segment, ends.get(segment.shard_id, frozenset()))
                for step in STEP_BACK_MINUTES
                for name in self._index.at(segment.minute + step, segment.shard_id)
                if name.first < segment.first
            )
            chosen = [name for name in dict.fromkeys(later) if name not in predecessors]
            predecessors |= dict.fromkeys(chosen)
        return list(predecessors)

    def _follows_unknown(self, name: SegmentName, ends: AbstractSet[Position]) -> bool:
        afters = (link.after for _, link in self.of([name]))
        return any(isinstance(after, Position) and after not in ends for after in afters)

    def _head(self, name: SegmentName) -> EvidenceLink | None:
        head = self._store.head(name.key)
        if head is None or not is_ours(head.metadata):
            return None
        try:
            metadata = SegmentMetadata.decode(head.metadata)
        except FormatError:
            return None
        is_in_place = (metadata.minute, metadata.shard_id, metadata.first) == name[1:]
        return segment_link(metadata, head.last_modified_ms) if is_in_place else None


class Search:
    """One search. `links` are those of the scope's own segments, by shard; `statements` were read before them."""

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
        for shard_id, own_links in links.items():
            for link in own_links:
                self._known.add_link(shard_id, link)

    def run(self) -> dict[str, ShardFacts]:
        """Search; return the facts about each shard."""
        self._search_edges()
        self._search_after()
        self._search_before()
        missing = self._missing_ends()
        return {
            shard_id: self._known.facts(
                shard_id,
                to_the_beginning=shard_id in self._to_the_beginning,
                to_the_end=shard_id in self._to_the_end,
                unseen=frozenset(() if shard_id in self._to_the_beginning else missing.get(shard_id, ())),
            )
            for shard_id in sorted(self._known.known)
        }

    @property
    def marks(self) -> Mapping[str, Mapping[ReadMark, int]]:
        """The marks that were read, by shard, and their LastModified."""
        return self._known.marks

    def _add(self, names: Sequence[SegmentName]) -> None:
        self.outside |= {pair for pair in self._links.of(names) if self._known.add_link(*pair)}

    # At the edges

    def _search_edges(self) -> None:
        """Read segments near the scope: arrival times step back, so the chain within it may include some of them."""
        begin_ms, until_ms = self._scope
        before = self._by_shard(self._index.in_hours(begin_ms - HOUR_MS, begin_ms), Interval(0, begin_ms))
        after = self._by_shard(self._index.in_hours(until_ms, until_ms + HOUR_MS), Interval(until_ms, FOREVER))
        chosen = []
        for shard_id, names in before.items():
            near = {name for name in names if name.minute * MINUTE_MS >= begin_ms - MIDNIGHT_EDGE_MS}
            low = min(self._firsts(shard_id, near), default=None)
            chosen += [name for name in names if name in near or (low is not None and name.first > low)]
        for shard_id, names in after.items():
            near = {name for name in names if name.minute * MINUTE_MS < until_ms + MIDNIGHT_EDGE_MS}
            high = max(self._firsts(shard_id, near), default=None)
            chosen += [name for name in names if name in near or (high is not None and name.first < high)]
        self._add(chosen)

    def _firsts(self, shard_id: str, near: Iterable[SegmentName]) -> list[Position]:
        return [*(link.first for link in self._segments(shard_id)), *(name.first for name in near)]

    def _by_shard(self, hours: Iterable[Iterable[SegmentName]], inside: Interval) -> dict[str, list[SegmentName]]:
        names: dict[str, list[SegmentName]] = defaultdict(list)
        for name in (name for hour in hours for name in hour):
            is_inside = inside.from_ms <= name.minute * MINUTE_MS < inside.until_ms
            if is_inside and self._query.asks_of(name.shard_id):
                names[name.shard_id].append(name)
        return names

    # After

    def _search_after(self) -> None:
        begin_ms = self._scope.until_ms
        for number in range(day_of_ms(begin_ms).number, day_of_ms(self._query.now_ms).number + 1):
            day = Day(number)
            if day not in self._read_days:
                self._known.add_marks(read_marks(self._store, self._prefix, day, self.problems))
                self._read_days.add(day)
            if not self._unsettled(day):
                return
            if not self._index.holds(day):
                continue
            from_ms = max(begin_ms // HOUR_MS * HOUR_MS, day.begin_ms)
            for span in (Interval(from_ms, from_ms + HOUR_MS), Interval(from_ms + HOUR_MS, day.end_ms)):
                self._add_first(self._index.in_hours(*span), self._unsettled(day))
                if not self._unsettled(day):
                    return
        self._to_the_end = self._unsettled(day_of_ms(self._query.now_ms))

    def _add_first(self, hours: Iterable[Iterable[SegmentName]], shard_ids: set[str]) -> None:
        """Add each shard's segments up to the first whose `until` reaches the scope's end, and those before it."""
        until_ms = self._scope.until_ms
        by_shard = self._by_shard(hours, Interval(until_ms, FOREVER))
        chosen = []
        for shard_id in shard_ids & by_shard.keys():
            names = by_shard[shard_id]
            reaching = (name.minute for name in names if name.minute * MINUTE_MS - ARRIVAL_STEP_BACK_MS >= until_ms)
            last = min(reaching, default=None)
            near = {name for name in names if last is None or name.minute <= last}
            high = max(name.first for name in near)
            chosen += [name for name in names if name in near or name.first < high]
        self._add(chosen)
        self._add(self._links.predecessors(chosen, self._known.ends))

    def _unsettled(self, day: Day) -> set[str]:
        """Return the shards that may have existed in the scope, and whose known evidence does not reach its end."""
        return {shard_id for shard_id in self._known.concerned() if not self._is_settled(shard_id, day)}

    def _is_settled(self, shard_id: str, day: Day) -> bool:
        markers = self._statements.of(shard_id)
        marks = self._known.marks.get(shard_id, {})
        has_none = any(mark.position is None for mark in marks)
        if has_none and markers.start is not None and not self._known.links.get(shard_id):
            return False  # the first segment, wherever it lies, shows that nothing was archived before
        if markers.end_stored_ms is not None and day_of_ms(markers.end_stored_ms).number + 1 < day.number:
            return True
        return self._known.is_archived_beyond(shard_id) or any(self._reaches_end(shard_id, mark) for mark in marks)

    def _reaches_end(self, shard_id: str, mark: ReadMark) -> bool:
        """Return whether a mark reaches the scope's end, without unknown segments before its position."""
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

    def _search_before(self) -> None:
        day, days = day_of_ms(self._scope.from_ms - 1), 0
        self._try_published(day)
        for shard_id, positions in self._missing_ends().items():
            for position in positions:
                self._follow(shard_id, position)
        oldest = self._index.oldest_day(day) if self._missing_ends() else None
        names: dict[str, list[SegmentName]] = defaultdict(list)
        while oldest is not None and day.number >= oldest.number and days < self._query.lookback_days:
            self._try_published(day)
            if not self._missing_ends():
                return
            if self._index.holds(day):
                days += 1
                self._search_day(day, names)
            day = day.shift(-1)
        if oldest is None or day.number < oldest.number:
            self._to_the_beginning = set(self._missing_ends())

    def _try_published(self, day: Day) -> None:
        """Add the segments that a published day names, if they end at a missing position."""
        missing = self._missing_ends()
        last_segments = (self._published(day) if missing else None) or {}
        keys = [
            last_segments[shard_id].key
            for shard_id, positions in missing.items()
            if shard_id in last_segments and last_segments[shard_id].last in positions
        ]
        names = [name for name in map(self._index.of_key, keys) if name is not None]
        self._links.of(names)  # HEADs in parallel; the calls below use the cache
        for name in names:
            ends = {link.last for _, link in self._links.of([name])} & missing.get(name.shard_id, set())
            if ends and name.minute * MINUTE_MS < self._scope.from_ms:
                self._add([name])

    def _search_day(self, day: Day, names: dict[str, list[SegmentName]]) -> None:
        """Add the segments of a day that end at missing positions; `names` collects those of all days searched."""
        end_ms = min(day.end_ms, self._scope.from_ms)
        last_ms = max(day.begin_ms, (end_ms - 1) // HOUR_MS * HOUR_MS)
        for span in (Interval(last_ms, end_ms), Interval(day.begin_ms, last_ms)):
            missing = self._missing_ends()
            for name in (name for hour in self._index.in_hours(*span) for name in hour):
                if name.shard_id in missing and name.minute * MINUTE_MS < self._scope.from_ms:
                    names[name.shard_id].append(name)
            while missing:
                self._add([name for shard, positions in missing.items() for name in nearest(names[shard], positions)])
                before, missing = missing, self._missing_ends()
                if missing == before:
                    break
            if not missing:
                return

    def _missing_ends(self) -> dict[str, set[Position]]:
        """Return, by shard, the positions before the scope that its evidence refers to and no known link ends at."""
        missing = {}
        for shard_id in self._known.concerned():
            positions = set()
            # Not the chain's head: a segment that a mark names may lie far before it, with others between.
            near = self._first_near(shard_id)
            if near is not None and isinstance(near.after, Position) and near.begins_ms > self._scope.from_ms:
                positions.add(near.after)
            pieces = [piece for piece in self._known.pieces(shard_id) if piece.position is not None]
            first = self._first_inside(shard_id) if pieces else None
            for piece in pieces:
                is_before = first is None or (piece.position is not None and piece.position < first)
                # Also evidence that is not proven: it covers nothing, but refers to a segment. And the end of a shard
                # that closed at midnight: it was read to its end a minute before, and covers what comes after.
                is_near = Interval(piece.from_ms, piece.interval.until_ms).overlaps(self._scope)
                if piece.position is not None and is_before and is_near:
                    positions.add(piece.position)
            adopted = self._statements.of(shard_id).adopted
            positions -= self._known.ends[shard_id] | ({adopted.adopted_position()} if adopted else set())
            if positions:
                missing[shard_id] = positions
        return missing

    def _first_near(self, shard_id: str) -> EvidenceLink | None:
        """Return the first segment within the scope or at its edges, all of which were read."""
        near_ms = self._scope.from_ms - MIDNIGHT_EDGE_MS
        near = (
            link for link in self._segments(shard_id) if link.begins_ms - MINUTE_MS - ARRIVAL_STEP_BACK_MS >= near_ms
        )
        return min(near, key=lambda link: (link.first, link.last), default=None)

    def _first_inside(self, shard_id: str) -> Position | None:
        """Return the begin of the first segment that does not lie before the scope."""
        inside = (link.first for link in self._segments(shard_id) if link.begins_ms > self._scope.from_ms)
        return min(inside, default=None)

    def _segments(self, shard_id: str) -> list[EvidenceLink]:
        return [link for link in self._known.links.get(shard_id, ()) if link.kind is Kind.SEGMENT]

    def _follow(self, shard_id: str, position: Position) -> None:
        """Find the segment that ends at a position by the times of the evidence that refers to it."""
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
