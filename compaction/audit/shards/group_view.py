"""A group of shards as a task looks at it: its objects sorted out, each shard judged by the rules."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from compaction.audit.rules.chain import JudgedMinutes, check_chain
from compaction.audit.rules.chains import shard_row
from compaction.audit.rules.dropped import Unsettled, read_dropped_records
from compaction.audit.rules.evidence import ChainResult, ShardContext
from compaction.audit.rules.originals import ArchivedSpan, SpanMap, span_of
from compaction.audit.shards.bounding import bounded
from compaction.audit.shards.minutes import Minutes
from compaction.audit.shards.objects import SeenObject
from compaction.inventory.day_objects import check_mark
from compaction.inventory.neighbours import ChainLink, SearchReach
from compaction.inventory.segments import (
    ArchivedSegment,
    ClassifiedObjects,
    ParsedObject,
    classify,
    parse,
)
from compaction.inventory.shard_markers import ShardMarkers
from compaction.parquet.plan import MergeGroup, RestoredLines, group_overlaps, raw_objects, spans_of, with_restored
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.opened import open_in_task
from compaction.shard_groups.port import Values
from compaction.verdict.audit_document import Shard
from compaction.verdict.findings import Finding
from minutebook.compression import Compression
from minutebook.coverage.condensed import condense
from minutebook.coverage.evidence import EvidenceLink, segment_link
from minutebook.coverage.intervals import Interval
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position, SequenceRange
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address


class GroupScope(NamedTuple):
    """What all groups are judged by. `storage` is given in this process; elsewhere a task opens its own."""

    archive: Address
    storage: RetryingStorage | None
    prefix: str
    day: Day
    first_minute: int
    end_ms: int
    judged: Interval
    compression: Compression | None
    grouping: ShardGrouping
    writes: bool

    @property
    def span(self) -> JudgedMinutes:
        """The minutes that are judged."""
        return JudgedMinutes(self.first_minute, self.end_ms // MINUTE_MS)


class GroupContext(NamedTuple):
    """What one group's shards are judged by.

    `mark` is the sum of its rows' marks, as they were listed. `copies` are those of its objects, `strays` segments of
    its shards that lie under other shards' keys, `living` shards that are judged without a segment. `positions` are
    those that evidence stands on, by shard; the links of shards in `as_they_are` are not condensed. The last five are
    known when neighbours were searched.
    """

    number: int
    scope: GroupScope
    mark: int
    copies: Mapping[str, str]
    strays: tuple[ParsedObject, ...]
    markers: Mapping[str, ShardMarkers]
    living: tuple[str, ...]
    positions: Mapping[str, frozenset[Position]]
    as_they_are: frozenset[str]
    checkpoints: Mapping[str, Position] = {}
    links: Mapping[str, Sequence[ChainLink]] = {}
    reach: Mapping[str, SearchReach] = {}
    expired: Mapping[str, tuple[SequenceRange, ...]] = {}
    unread: tuple[Day, ...] = ()


class JudgedShard(NamedTuple):
    """One shard. `proofs` are its links, condensed; `whole` the ends of those that stand for several."""

    row: Shard
    chain: ChainResult
    proofs: tuple[EvidenceLink, ...]
    whole: tuple[tuple[Position, Position], ...]
    keys: Mapping[Position, str]
    tail: str | None
    minutes: Minutes


class GroupView:
    """A group's objects, sorted out."""

    def __init__(self, values: Values, group: GroupContext) -> None:
        self._group = group
        scope = group.scope
        seen = sorted(all_seen(values), key=lambda one: one.row.key.encode())
        self.rows = [one.row for one in seen]
        check_mark(self.rows, group.mark)
        self.facts = {one.row.key: one.read for one in seen if one.read is not None}
        self.tasks = {one.row.key: one.task for one in seen}
        self.has_lines = bool(self.facts)
        objects = parse((one.row, one.fields) for one in seen)
        self.described: ClassifiedObjects = classify(scope.prefix, objects, group.copies, scope.compression)
        strays = classify(scope.prefix, group.strays, {}, scope.compression).segments
        self._members: dict[str, list[ArchivedSegment]] = defaultdict(list)
        for segment in [*self.described.segments, *strays]:
            if scope.grouping.of(segment.metadata.shard_id) == group.number:
                self._members[segment.metadata.shard_id].append(segment)
        self.shards = sorted({*self._members, *group.living})

    def members(self, shard: str) -> list[ArchivedSegment]:
        """Return a shard's segments."""
        return self._members.get(shard, [])

    def judge(self, shard: str) -> JudgedShard:
        """Judge one shard."""
        group, segments = self._group, self.members(shard)
        span = group.scope.span
        links = [ChainLink(segment.key, segment.metadata) for segment in segments]
        outside = [link for link in group.links.get(shard, []) if link.metadata.minute not in span]
        chain = check_chain(span, [*links, *outside], self._context(shard))
        chain = chain._replace(findings=tuple(bounded(chain.findings)))
        proofs, whole = self._proofs(shard, segments)
        kept = {proof.first for proof in proofs}
        return JudgedShard(
            shard_row(shard, segments, chain),
            chain,
            proofs,
            whole,
            {one.metadata.first: one.key for one in segments if one.metadata.first in kept},
            max(segments, key=lambda one: (one.metadata.last, one.key)).key if segments else None,
            Minutes.of(group.scope.day, segments),
        )

    def spans(self, shard: str) -> list[ArchivedSpan]:
        """Return what is known to be archived of a shard: its segments, their neighbours, and expired runs."""
        expired = [ArchivedSpan(run.first, run.last, None) for run in self._group.expired.get(shard, ())]
        links = [span_of(link.metadata) for link in self._group.links.get(shard, ())]
        return [*(span_of(segment.metadata) for segment in self.members(shard)), *links, *expired]

    def dropped(self) -> tuple[list[Unsettled], list[Finding]]:
        """Follow dropped records to their originals as far as this group knows."""
        if not self.has_lines:
            return [], []
        scope = self._group.scope
        concerned = [segment for segment in self.described.segments if segment.metadata.dropped]
        if not concerned:
            return [], []
        found, findings = read_dropped_records(scope.storage or open_in_task(scope.archive), scope.prefix, concerned)
        maps: dict[str, SpanMap] = {}
        unsettled = []
        for segment, copies in found:
            left = []
            for copy in copies:
                shard, position = copy.original or ("", None)
                if position is None:
                    continue
                spans = maps.setdefault(shard, SpanMap(self.spans(shard)))
                if spans.fate(position) != "archived":
                    left.append(copy)
            if left:
                is_readable = not self.facts[segment.key].problem
                unsettled.append(Unsettled(segment, tuple(left), scope.writes and is_readable))
        return unsettled, findings

    def groups(self, restored: Mapping[str, RestoredLines]) -> list[MergeGroup]:
        """Return what goes into the Parquet files, with lines that come back."""
        groups = group_overlaps(spans_of(self.rows, self.described, self.facts))
        return with_restored(groups, raw_objects(self.rows), restored) if restored else groups

    def tainted(self, restored: Mapping[str, RestoredLines]) -> tuple[frozenset[int], int]:
        """Return the tasks that have written what is merged or left out, and how many groups are merged."""
        groups = self.groups(restored)
        good = {group.objects[0].key for group in groups if not group.merge}
        merged = {raw_object.key for group in groups if group.merge for raw_object in group.objects}
        found = {
            self.tasks[key]
            for key, read in self.facts.items()
            if key not in good and (read.lines or read.problem or key in merged)
        }
        return frozenset(found), sum(group.merge for group in groups)

    def _context(self, shard: str) -> ShardContext:
        group = self._group
        left_out = self.described.left_out
        return ShardContext(
            shard,
            group.markers.get(shard, ShardMarkers()),
            group.checkpoints.get(shard),
            group.reach.get(shard, SearchReach(to_the_beginning=False, to_the_end=False)),
            holes=tuple(
                row.parsed.first
                for row in self.rows
                if row.key in left_out and row.parsed is not None and row.parsed.shard_id == shard
            )
            if left_out
            else (),
            expired=group.expired.get(shard, ()),
            unread=group.unread,
        )

    def _proofs(
        self, shard: str, segments: Sequence[ArchivedSegment]
    ) -> tuple[tuple[EvidenceLink, ...], tuple[tuple[Position, Position], ...]]:
        proofs = [segment_link(segment.metadata, segment.row.last_modified_ms) for segment in segments]
        if shard in self._group.as_they_are:
            return tuple(proofs), ()
        found = condense(proofs, self._group.scope.judged, self._group.positions.get(shard, frozenset()))
        known = {(proof.first, proof.last) for proof in proofs}
        return tuple(found), tuple(ends for proof in found if (ends := (proof.first, proof.last)) not in known)


def all_seen(values: Values) -> list[SeenObject]:
    """Return a group's objects."""
    return [one for seen in values for one in seen]
