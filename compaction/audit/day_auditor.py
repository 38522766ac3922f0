"""A day's shards, judged by the driver: what it asks each group of them, and what it settles between two visits.

    misplaced     objects whose writer is named twice, and those out of place, come to the driver, few as they are
    neighbours    each shard's chain says which segments outside the day it joins; the driver searches for them
    judgement     chains, lines, dropped records: per shard a row, findings, and links that stand for many
    closer        positions that coverage turns out to rest on, inside such a link: their shards are judged once more

The driver holds a few values per shard, and none per object; where objects are wrong, it holds those.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from compaction.audit.day_view import DayView
from compaction.audit.rules.chain import JudgedMinutes, maybe_living_shards, with_evidence
from compaction.audit.rules.dropped import DroppedRecords, resolve_dropped_records
from compaction.audit.rules.lines import Counts
from compaction.audit.rules.originals import ArchivedSpan, Originals
from compaction.audit.shards import group_view
from compaction.audit.shards.group_view import GroupContext, GroupScope, JudgedGroup, JudgedShard
from compaction.audit.shards.misplaced import ask_foreign, by_group_of_key, find_misplaced
from compaction.inventory.neighbours import NeighbourQuery, Neighbours, find_neighbours
from compaction.inventory.segments import ArchivedSegment, ClassifiedObjects, ParsedObject, classify, parse
from compaction.inventory.shard_markers import ShardMarkers
from compaction.inventory.tombstones import ExpiredNear
from compaction.job.context import JobContext
from compaction.job.scope import judged_scope
from compaction.parquet.plan import MergeGroup, RestoredLines
from compaction.shard_groups.port import ShardGroups, driver_values
from compaction.verdict.findings import Finding
from minutebook.coverage.condensed import hidden
from minutebook.coverage.evidence import EvidenceLink
from minutebook.coverage.shard_coverage import ShardFacts
from minutebook.format.minute import MINUTE_MS
from minutebook.format.payload import NumberPaths
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegment, LastSegments
from minutebook.proof.statements import StoredMark

T = TypeVar("T")


class Judgement(NamedTuple):
    """How the shards were judged, and with which neighbours. `foreign` are objects whose key is not a segment's."""

    groups: Mapping[int, JudgedGroup]
    neighbours: Neighbours
    foreign: ClassifiedObjects

    @property
    def shards(self) -> dict[str, JudgedShard]:
        """The shards, in the order of their names."""
        shards = {shard: judged for group in self.groups.values() for shard, judged in group.shards.items()}
        return dict(sorted(shards.items()))

    @property
    def chain_findings(self) -> list[Finding]:
        """Findings about links between segments."""
        return [finding for shard in self.shards.values() for finding in shard.chain.findings]

    @property
    def name_findings(self) -> list[Finding]:
        """Findings about objects by their names and metadata."""
        return [
            *self.foreign.findings,
            *(finding for group in self.groups.values() for finding in group.name_findings),
        ]

    @property
    def line_findings(self) -> list[Finding]:
        """Findings about their lines."""
        return [finding for group in self.groups.values() for finding in group.line_findings]

    @property
    def counts(self) -> Counts:
        """Lines of all objects."""
        counts = Counts()
        for group in self.groups.values():
            counts = counts.plus(group.counts)
        return counts

    @property
    def unwritten(self) -> list[str]:
        """Objects that the published generation was not made of, a few of them."""
        return [key for group in self.groups.values() for key in group.unwritten]

    @property
    def redo_tasks(self) -> frozenset[int]:
        """The tasks whose part must not be published as it is."""
        return frozenset[int]().union(*(group.redo_tasks for group in self.groups.values()))

    @property
    def proofs(self) -> dict[str, tuple[EvidenceLink, ...]]:
        """The links of each shard, condensed."""
        return {shard: judged.proofs for shard, judged in self.shards.items() if judged.proofs}

    def ends(self, closed: Container[str]) -> dict[str, LastSegment]:
        """Return the last segment that is known of each shard when the day ends; `closed` are those that ended."""
        tails = ((shard, judged.chain.tail) for shard, judged in self.shards.items())
        return {
            shard: LastSegment(
                tail.key, tail.metadata.last, tail.metadata.minute, tail.metadata.after, shard in closed
            )
            for shard, tail in tails
            if tail is not None
        }

    def hidden(self, shards: Mapping[str, ShardFacts]) -> dict[str, frozenset[Position]]:
        """Return the positions that evidence stands on, and that lie inside links which stand for several."""
        by_shard = {}
        for shard, judged in self.shards.items():
            positions = {piece.position for piece in shards[shard].pieces} if shard in shards and judged.whole else ()
            inside = {at for at in positions if at is not None and hidden(judged.proofs, judged.whole, at)}
            if inside:
                by_shard[shard] = frozenset(inside)
        return by_shard


class DayAuditor:
    """Judges the shards of one day, whose `objects` tasks have read.

    `expired` is what tombstones of other days cover. `published` says where chains stood, by published days.
    Its methods raise StoreUnavailable and StoreRefused.
    """

    def __init__(
        self,
        context: JobContext,
        view: DayView,
        objects: ShardGroups,
        expired: ExpiredNear,
        published: LastSegments,
        *,
        lookback_days: int,
        writes: bool,
        numbers: NumberPaths | None = None,
    ) -> None:
        driver_values(objects)  # Spark reads the objects here, once
        self._archive = context.archive
        self._view = view
        self._objects = objects
        self._expired = expired
        self.published = published
        self._lookback_days = lookback_days
        self._inventory = inventory = view.inventory
        self._grouping = inventory.grouping
        self._scope = GroupScope(
            context.place.address,
            inventory.storage,
            inventory.prefix,
            inventory.day,
            JudgedMinutes(inventory.day.first_minute, inventory.end_ms // MINUTE_MS),
            judged_scope(inventory.day, view.markers.application, context.clock.now_ms(), inventory.until_ms),
            inventory.compression,
            inventory.grouping,
            writes,
            numbers,
        )
        self.groups: dict[int, GroupContext] = {}
        """What the day's groups are judged by, once they are."""

    def judge(self) -> Judgement:
        """Judge the day's shards."""
        inventory, expired = self._inventory, self._expired
        foreign = ask_foreign(self._archive, inventory)
        copies, misplaced = find_misplaced(self._archive, inventory, self._objects, foreign)
        groups = self._contexts(copies, misplaced)
        neighbours = self._neighbours(groups)
        checkpoints = self._by_group(self._view.checkpoints.by_shard)
        links, reach = self._by_group(neighbours.links), self._by_group(neighbours.reach)
        runs = self._by_group(expired.runs)
        self.groups = {
            number: group._replace(
                checkpoints=checkpoints[number],
                links=links[number],
                reach=reach[number],
                expired=runs[number],
                unread=expired.unread,
            )
            for number, group in groups.items()
        }
        parsed = parse((facts.row, facts.fields) for facts in foreign)
        classified = classify(inventory.prefix, parsed, copies, inventory.compression)
        return Judgement(self._objects.collect(group_view.judge_group, self.groups), neighbours, classified)

    def _contexts(
        self, copies: Mapping[str, str], misplaced: Mapping[int, Sequence[ParsedObject]]
    ) -> dict[int, GroupContext]:
        """Return what each group is judged by, before neighbours are known."""
        markers, statements = self._view.markers.shards, self._view.markers.statements
        living = maybe_living_shards(self._inventory.day, markers, self._lookback_days)
        skipped = [shard for shard, stated in statements.shards.items() if stated.skips]
        copies_of = by_group_of_key(self._inventory, copies)
        markers_of, positions_of = self._by_group(markers), self._by_group(_positions(statements.marks.values()))
        gone_of = self._by_group(self._view.gone)
        living_of, skipped_of = self._by_group(dict.fromkeys(living)), self._by_group(dict.fromkeys(skipped))
        return {
            number: GroupContext(
                number,
                self._scope,
                self._inventory.marks.get(number, 0),
                copies_of.get(number, {}),
                tuple(misplaced.get(number, ())),
                markers_of[number],
                tuple(living_of[number]),
                positions_of[number],
                frozenset(skipped_of[number]),
                gone_of[number],
            )
            for number in self._grouping.numbers
        }

    def _neighbours(self, groups: Mapping[int, GroupContext]) -> Neighbours:
        """Search for the segments outside the day that its chains join."""
        inventory, queries = self._inventory, self._queries(groups)
        later = []
        if inventory.has_later:
            end = inventory.end_minute
            arguments = {number: (end, of_group) for number, of_group in self._by_group(queries).items()}
            nearest = inventory.rows.collect(group_view.nearest_later, arguments)
            later = [row for rows in nearest.values() for row in rows]
        return find_neighbours(
            self._archive,
            inventory.prefix,
            inventory.day,
            queries,
            later,
            days=self._lookback_days,
            published=self.published,
        )

    def _queries(self, groups: Mapping[int, GroupContext]) -> dict[str, NeighbourQuery]:
        """Return what each shard needs of the days around."""
        markers, checkpoints = self._view.markers, self._view.checkpoints.by_shard
        marked = _positions(markers.statements.marks.values())
        queries: dict[str, NeighbourQuery] = {}
        for of_group in self._objects.collect(group_view.neighbour_queries, groups).values():
            queries |= of_group
        return {
            shard: with_evidence(
                query, markers.shards.get(shard, ShardMarkers()), marked.get(shard, ()), checkpoints.get(shard)
            )
            for shard, query in queries.items()
        }

    def judge_closer(self, judgement: Judgement, positions: Mapping[str, frozenset[Position]]) -> Judgement:
        """Judge the groups of some shards again, with positions that evidence turned out to stand on."""
        closer = {}
        for number, by_shard in self._by_group(positions).items():
            group = self.groups[number]
            more = {shard: group.positions.get(shard, frozenset()) | inside for shard, inside in by_shard.items()}
            if more:
                self.groups[number] = closer[number] = group._replace(positions={**group.positions, **more})
        judged = self._objects.collect(group_view.judge_group, closer)
        return judgement._replace(groups={**judgement.groups, **judged})

    def dropped(self, judgement: Judgement) -> DroppedRecords:
        """Follow dropped records whose originals the groups did not know, wherever these are."""
        unresolved = [of_segment for group in judgement.groups.values() for of_segment in group.unresolved]
        if not unresolved:
            return DroppedRecords()
        originals = {
            record.original
            for of_segment in unresolved
            for record in of_segment.records
            if record.original is not None
        }
        arguments = {
            number: (group, [original for original in originals if self._grouping.of(original[0]) == number])
            for number, group in self.groups.items()
        }
        spans: dict[str, Sequence[ArchivedSpan]] = {}
        for nearby in self._objects.collect(group_view.nearby_spans, arguments).values():
            spans |= nearby
        inventory = self._inventory
        search = Originals(self._archive, inventory.prefix, inventory.day, spans, days=self._lookback_days)
        return resolve_dropped_records(inventory.prefix, unresolved, search)

    def tasks_to_redo(self, lines: Mapping[str, RestoredLines]) -> frozenset[int]:
        """Return the tasks that read an object into which lines come back, or that is merged or left out."""
        restored = by_group_of_key(self._inventory, lines)
        arguments = {number: (group, restored.get(number, {})) for number, group in self.groups.items()}
        return frozenset[int]().union(*self._objects.collect(group_view.tasks_to_redo, arguments).values())

    def groups_to_redo(self, lines: Mapping[str, RestoredLines], tasks: frozenset[int] | None) -> list[MergeGroup]:
        """Return the groups to merge, and those that were read by some tasks (None: all there are)."""
        restored = by_group_of_key(self._inventory, lines)
        arguments = {
            number: group_view.RedoArgument(group, restored.get(number, {}), tasks)
            for number, group in self.groups.items()
        }
        by_group = self._objects.collect(group_view.groups_to_redo, arguments)
        return [group for _, groups in sorted(by_group.items()) for group in groups]

    def segments(self) -> list[ArchivedSegment]:
        """Return all segments: what level stream compares, and the driver then holds."""
        by_group = self._objects.collect(group_view.segments_of, self.groups)
        return [segment for _, segments in sorted(by_group.items()) for segment in segments]

    def _by_group(self, by_shard: Mapping[str, T]) -> dict[int, dict[str, T]]:
        """Return what belongs to shards by their groups; each group is there."""
        groups: dict[int, dict[str, T]] = {number: {} for number in self._grouping.numbers}
        for shard, value in by_shard.items():
            groups[self._grouping.of(shard)][shard] = value
        return groups


def _positions(marks: Iterable[Iterable[StoredMark]]) -> dict[str, frozenset[Position]]:
    """Return the positions that marks stand on, by shard."""
    positions: dict[str, set[Position]] = defaultdict(set)
    for mark, _ in (stored for stored_marks in marks for stored in stored_marks):
        if mark.position is not None:
            positions[mark.shard_id].add(mark.position)
    return {shard: frozenset(of_shard) for shard, of_shard in positions.items()}
