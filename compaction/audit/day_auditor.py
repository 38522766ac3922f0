"""The passes over a day's groups, as the driver sees them: what it asks each, and what it settles between two.

    copies       digests of writers are dealt out; objects whose writer is named twice come to the driver, few as they
                 are, with those that lie elsewhere than they say
    needs        which segments outside the day each shard's chain needs; the driver searches them
    judgement    chains, lines, dropped records: per shard a row, findings, and links that stand for many

The driver holds what is said of shards, and never of objects; where objects are wrong, it holds those.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from compaction.audit.judgement import Judgement
from compaction.audit.rules.chains import maybe_living_shards, with_evidence
from compaction.audit.rules.dropped import DroppedRecords, settle_dropped
from compaction.audit.rules.evidence import AuditEvidence
from compaction.audit.rules.originals import ArchivedSpan, Originals
from compaction.audit.shards.group_view import GroupContext, GroupScope
from compaction.audit.shards.judging import (
    Wanted,
    judge_group,
    nearby_spans,
    nearest_later,
    needs,
    segments_of,
    tainted_by,
    wanted_groups,
)
from compaction.audit.shards.misplaced import ask_foreign, copies_by_group, find_misplaced, group_of_key
from compaction.audit.shards.numbers import WrittenAgain, deal_groups
from compaction.inventory.neighbours import NeighbourQuery, find_neighbours
from compaction.inventory.segments import (
    ArchivedSegment,
    ParsedObject,
    classify,
    parse,
)
from compaction.inventory.shard_markers import ShardMarkers
from compaction.job.context import AuditOptions, JobContext
from compaction.job.day_view import DayView
from compaction.job.scope import judged_scope
from compaction.parquet.plan import MergeGroup, RestoredLines
from compaction.publish.ends import PublishedEnds
from compaction.shard_groups.port import ShardGroups, driver_values
from minutebook.format.position import Position
from minutebook.index.last_segments import LastSegments, none_published
from minutebook.proof.statements import StoredMark

if TYPE_CHECKING:
    from compaction.inventory.day_objects import DayObjects
    from compaction.inventory.inventory import ListedSegment
    from compaction.shard_groups.grouping import ShardGrouping

T = TypeVar("T")


class DayAuditor:
    """The passes over one day. `seen` are its objects, as they were seen by tasks.

    `published` says where chains stood, by days that are published.
    """

    def __init__(
        self,
        context: JobContext,
        sight: DayView,
        options: AuditOptions,
        evidence: AuditEvidence,
        seen: ShardGroups,
        *,
        writes: bool,
    ) -> None:
        driver_values(seen)
        self._context = context
        self._sight = sight
        self._options = options
        self._evidence = evidence
        self._seen = seen
        self.published = _published_ends(context, options)
        self._objects: DayObjects = sight.inventory
        self._prefix = self._objects.prefix
        self._grouping: ShardGrouping = self._objects.grouping
        objects, now_ms = sight.inventory, context.clock.now_ms()
        scope = judged_scope(objects.day, sight.markers.application, now_ms, objects.until_ms, objects.hour)
        self._scope = GroupScope(
            context.place.address,
            self._objects.storage,
            self._prefix,
            self._objects.day,
            self._objects.first_minute,
            self._objects.end_ms,
            scope,
            self._objects.compression,
            self._grouping,
            writes,
        )
        self._asked: dict[int, GroupContext] = {}

    def judge(self) -> Judgement:
        """Judge the day's shards.

        Raises:
            StoreUnavailable, StoreRefused: the store.
        """
        foreign = ask_foreign(self._context.archive, self._objects)
        copies, strays = find_misplaced(self._context.archive, self._objects, self._seen, foreign)
        self._asked = self._arguments(copies, strays)
        wanted = self._needs()
        later: list[ListedSegment] = []
        if self._objects.has_later:
            end = self._objects.end_minute
            near = self._objects.rows.collect(
                nearest_later, {number: (end, self._of(number, wanted)) for number in self._grouping.numbers}
            )
            later = [row for rows in near.values() for row in rows]
        neighbours = find_neighbours(
            self._context.archive,
            self._prefix,
            self._objects.period,
            wanted,
            later,
            days=self._options.lookback_days,
            published=self.published,
        )
        evidence = self._evidence
        self._asked = {
            number: group._replace(
                checkpoints=self._of(number, evidence.checkpoints),
                links=self._of(number, neighbours.links),
                reach=self._of(number, neighbours.reach),
                expired=self._of(number, evidence.expired.runs),
                unread=evidence.expired.unread,
            )
            for number, group in self._asked.items()
        }
        described = classify(
            self._prefix, parse((one.row, one.fields) for one in foreign), copies, self._objects.compression
        )
        return Judgement(self._seen.collect(judge_group, self._asked), neighbours, described)

    def _needs(self) -> dict[str, NeighbourQuery]:
        """Return what each shard needs of the days around."""
        markers, checkpoints = self._evidence.markers, self._evidence.checkpoints
        marked = _positions(markers.statements.marks.values())
        wanted: dict[str, NeighbourQuery] = {}
        for found in self._seen.collect(needs, self._asked).values():
            wanted |= found
        return {
            shard: with_evidence(
                need, markers.shards.get(shard, ShardMarkers()), marked.get(shard, ()), checkpoints.get(shard)
            )
            for shard, need in wanted.items()
        }

    def judge_closer(self, judgement: Judgement, positions: Mapping[str, frozenset[Position]]) -> Judgement:
        """Judge the groups of some shards again, with positions that evidence turned out to stand on."""
        again = {}
        for number in {self._grouping.of(shard) for shard in positions}:
            group = self._asked[number]
            more = {
                shard: group.positions.get(shard, frozenset()) | found
                for shard, found in self._of(number, positions).items()
            }
            self._asked[number] = again[number] = group._replace(positions={**group.positions, **more})
        return judgement._replace(groups={**judgement.groups, **self._seen.collect(judge_group, again)})

    def dropped(self, judgement: Judgement) -> DroppedRecords:
        """Settle what the groups could not of dropped records."""
        unsettled = [one for group in judgement.groups.values() for one in group.unsettled]
        if not unsettled:
            return DroppedRecords()
        wanted = {copy.original for one in unsettled for copy in one.copies if copy.original is not None}
        asked = {
            number: (group, [one for one in wanted if self._grouping.of(one[0]) == number])
            for number, group in self._asked.items()
        }
        known: dict[str, Sequence[ArchivedSpan]] = {}
        for found in self._seen.collect(nearby_spans, asked).values():
            known |= found
        originals = Originals(
            self._context.archive, self._prefix, self._objects.period, known, days=self._options.lookback_days
        )
        return settle_dropped(self._prefix, unsettled, originals)

    def tainted(self, lines: Mapping[str, RestoredLines]) -> frozenset[int]:
        """Return the tasks that hold an object into which lines come back, or that is merged or left out."""
        asked = {number: (group, self._restored(number, lines)) for number, group in self._asked.items()}
        return frozenset[int]().union(*self._seen.collect(tainted_by, asked).values())

    def groups(self, lines: Mapping[str, RestoredLines], tasks: frozenset[int] | None) -> list[MergeGroup]:
        """Return the groups to merge, and those that were read by some tasks (None: all there are)."""
        asked = {number: Wanted(group, self._restored(number, lines), tasks) for number, group in self._asked.items()}
        found = self._seen.collect(wanted_groups, asked)
        return [group for _, groups in sorted(found.items()) for group in groups]

    def deal_groups(self, lines: Mapping[str, RestoredLines], count: int) -> ShardGroups:
        """Give all groups to the groups of the tasks that have read their first objects."""
        asked = {number: WrittenAgain(group, self._restored(number, lines)) for number, group in self._asked.items()}
        return self._seen.repartition(deal_groups, asked, count)

    @property
    def grouping(self) -> Mapping[int, GroupContext]:
        """What the day's groups are judged by."""
        return self._asked

    def segments(self) -> list[ArchivedSegment]:
        """Return all segments: what level stream compares, and the driver then holds."""
        found = self._seen.collect(segments_of, self._asked)
        return [segment for _, segments in sorted(found.items()) for segment in segments]

    def _restored(self, number: int, lines: Mapping[str, RestoredLines]) -> dict[str, RestoredLines]:
        return {key: found for key, found in lines.items() if group_of_key(self._objects, key) == number}

    def _arguments(
        self, copies: Mapping[str, str], strays: Mapping[int, Sequence[ParsedObject]]
    ) -> dict[int, GroupContext]:
        markers = self._evidence.markers
        alive = maybe_living_shards(self._objects.day, markers.shards, self._options.lookback_days)
        positions = _positions(markers.statements.marks.values())
        skipped = frozenset(shard for shard, stated in markers.statements.shards.items() if stated.skips)
        of_group = copies_by_group(self._objects, copies)
        shards: dict[int, dict[str, ShardMarkers]] = defaultdict(dict)
        for shard, found in markers.shards.items():
            shards[self._grouping.of(shard)][shard] = found
        alive_in: dict[int, list[str]] = defaultdict(list)
        for shard in alive:
            alive_in[self._grouping.of(shard)].append(shard)
        return {
            number: GroupContext(
                number,
                self._scope,
                self._objects.marks.get(number, 0),
                of_group.get(number, {}),
                tuple(strays.get(number, ())),
                shards[number],
                tuple(alive_in[number]),
                self._of(number, positions),
                frozenset(shard for shard in skipped if self._grouping.of(shard) == number),
            )
            for number in self._grouping.numbers
        }

    def _of(self, number: int, by_shard: Mapping[str, T]) -> dict[str, T]:
        return {shard: found for shard, found in by_shard.items() if self._grouping.of(shard) == number}


def _published_ends(context: JobContext, options: AuditOptions) -> LastSegments:
    place = options.published
    return none_published if place is None else PublishedEnds(lambda: context.open(place.address), place.prefix)


def _positions(marks: Iterable[Iterable[StoredMark]]) -> dict[str, frozenset[Position]]:
    """Return the positions that marks stand on, by shard."""
    found: dict[str, set[Position]] = defaultdict(set)
    for mark, _ in (stored for stored_marks in marks for stored in stored_marks):
        if mark.position is not None:
            found[mark.shard_id].add(mark.position)
    return {shard: frozenset(positions) for shard, positions in found.items()}
