"""One group of shards in a task: its objects are classified, and each of its shards is judged by the rules.

    neighbour_queries    which segments outside the day each chain joins
    judge_group          chains, lines, dropped records: per shard a row, findings, and links that stand for many

The rules are those of `compaction.audit.rules`, each about one shard, or one object, at a time. What concerns several
groups the driver settles between two visits: copies that lie in other shards than their originals, segments under
another shard's key, neighbours outside the day, originals of dropped records.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from compaction.audit.rules.chain import (
    ChainResult,
    JudgedMinutes,
    ShardContext,
    check_chain,
    neighbour_query,
    shard_row,
)
from compaction.audit.rules.dropped import UnresolvedRecords, read_dropped_records, with_conflicts
from compaction.audit.rules.lines import Counts, alteration_findings, check_lines, count, with_contents
from compaction.audit.rules.originals import ArchivedSpan, Original, SpanMap, span_of
from compaction.audit.rules.step_back import between_segments, inside_segments, step_back_findings
from compaction.audit.shards.minutes import Minutes
from compaction.audit.shards.objects import all_objects
from compaction.inventory.day_objects import check_mark
from compaction.inventory.neighbours import ChainLink, NeighbourQuery, OutwardScan, SearchReach
from compaction.inventory.segments import (
    Alteration,
    ArchivedSegment,
    GoneSegment,
    ListedSegment,
    ParsedObject,
    SegmentFacts,
    classify,
    parse,
)
from compaction.inventory.shard_markers import ShardMarkers
from compaction.inventory.tombstones import ExpiredSpan
from compaction.parquet.plan import MergeGroup, RestoredLines, group_overlaps, raw_objects, spans_of, with_restored
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.opened import open_in_task
from compaction.shard_groups.port import Values
from compaction.verdict.audit_document import Shard
from compaction.verdict.basis import digest_of_lines
from compaction.verdict.findings import SAMPLES, Finding
from minutebook.compression import Compression
from minutebook.coverage.condensed import condense
from minutebook.coverage.evidence import EvidenceLink, segment_link
from minutebook.coverage.intervals import Interval
from minutebook.format.day import Day
from minutebook.format.payload import NumberPaths
from minutebook.format.position import Position
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

_MANY: Final = 50
"""Findings of one code and shard that are reported one by one; more become one that counts them."""


class GroupScope(NamedTuple):
    """What all groups are judged by. `storage` is given in this process; elsewhere a task opens its own."""

    archive: Address
    storage: RetryingStorage | None
    prefix: str
    day: Day
    minutes: JudgedMinutes
    judged: Interval
    compression: Compression | None
    grouping: ShardGrouping
    writes: bool
    numbers: NumberPaths | None = None


class GroupContext(NamedTuple):
    """What one group's shards are judged by.

    `mark` is the sum of its rows' marks, as they were listed. `copies` are those of its objects, `misplaced` segments
    of its shards that lie under other shards' keys, `living` shards that are judged without a segment. `positions`
    are those that evidence stands on, by shard; the links of shards in `as_they_are` are not condensed. `gone` are
    segments that were published in a clean day. The last five are known when neighbours were searched.
    """

    number: int
    scope: GroupScope
    mark: int
    copies: Mapping[str, str]
    misplaced: tuple[ParsedObject, ...] = ()
    markers: Mapping[str, ShardMarkers] = {}
    living: tuple[str, ...] = ()
    positions: Mapping[str, frozenset[Position]] = {}
    as_they_are: frozenset[str] = frozenset()
    gone: Mapping[str, tuple[GoneSegment, ...]] = {}
    checkpoints: Mapping[str, Position] = {}
    links: Mapping[str, Sequence[ChainLink]] = {}
    reach: Mapping[str, SearchReach] = {}
    expired: Mapping[str, tuple[ExpiredSpan, ...]] = {}
    unread: tuple[Day, ...] = ()


class JudgedShard(NamedTuple):
    """One shard. `proofs` are its links, condensed; `whole` the ends of those that stand for several.

    `steps` are findings about its arrival times, which say nothing of its chain.
    """

    row: Shard
    chain: ChainResult
    proofs: tuple[EvidenceLink, ...]
    whole: tuple[tuple[Position, Position], ...]
    keys: Mapping[Position, str]
    tail: str | None
    minutes: Minutes
    steps: tuple[Finding, ...]


class JudgedGroup(NamedTuple):
    """What the driver learns of a group. `redo_tasks` are those whose part must not be published as it is.

    `name_findings` are about names and metadata, `line_findings` about lines and dropped records. `unwritten` are
    objects whose content, though nobody altered it, is not what the published generation was made of.
    """

    shards: Mapping[str, JudgedShard]
    name_findings: tuple[Finding, ...]
    line_findings: tuple[Finding, ...]
    counts: Counts
    unresolved: tuple[UnresolvedRecords, ...]
    redo_tasks: frozenset[int]
    merges: int
    unwritten: tuple[str, ...] = ()


class RedoArgument(NamedTuple):
    """Which groups are written again: those to merge, and those of which `tasks` read an object; None: all."""

    group: GroupContext
    restored: Mapping[str, RestoredLines]
    tasks: frozenset[int] | None


def neighbour_queries(values: Values, group: GroupContext) -> dict[str, NeighbourQuery]:
    """Return what each shard of the group needs of the days around. The work of a task."""
    view = GroupView(values, group)
    return {
        shard: neighbour_query(view.members(shard), group.markers.get(shard, ShardMarkers())) for shard in view.shards
    }


def nearest_later(values: Values, argument: tuple[int | None, Mapping[str, NeighbourQuery]]) -> list[ListedSegment]:
    """Return the rows behind a scope within the day that may be neighbours. The work of a task."""
    end, queries = argument
    scan = OutwardScan(queries, 1)
    scan.add(
        row
        for rows in values
        for row in rows
        if end is not None and row.parsed is not None and row.parsed.minute >= end
    )
    return scan.rows()


def judge_group(values: Values, group: GroupContext) -> JudgedGroup:
    """Judge a group. The work of a task."""
    view = GroupView(values, group)
    shards = {shard: view.judge(shard) for shard in view.shards}
    unresolved, dropped_findings = view.dropped()
    redo_tasks, merges = view.redo_tasks({})
    steps = [finding for judged in shards.values() for finding in judged.steps]
    return JudgedGroup(
        shards,
        tuple(bounded(with_contents(view.classified.findings, view.facts))),
        tuple(
            bounded(
                [
                    *with_contents(check_lines(view.classified.segments, view.facts), view.facts),
                    *alteration_findings(view.rows, view.facts),
                    *dropped_findings,
                    *steps,
                ]
            )
        ),
        count(view.classified, view.facts if view.has_lines else None),
        tuple(unresolved),
        redo_tasks,
        merges,
        tuple(itertools.islice(unwritten(view.rows, view.facts), SAMPLES)),
    )


def nearby_spans(values: Values, argument: tuple[GroupContext, Iterable[Original]]) -> dict[str, list[ArchivedSpan]]:
    """Return, by shard, what decides the fate of positions: the spans around each, and the first and last of all."""
    group, originals = argument
    view = GroupView(values, group)
    by_shard: dict[str, list[Position]] = defaultdict(list)
    for shard, position in originals:
        by_shard[shard].append(position)
    return {shard: SpanMap(view.spans(shard)).around(positions) for shard, positions in by_shard.items()}


def tasks_to_redo(values: Values, argument: tuple[GroupContext, Mapping[str, RestoredLines]]) -> frozenset[int]:
    """Return the tasks to do again where lines come back. The work of a task."""
    group, restored = argument
    return GroupView(values, group).redo_tasks(restored)[0]


def groups_to_redo(values: Values, argument: RedoArgument) -> list[MergeGroup]:
    """Return the groups that are written again. The work of a task."""
    view = GroupView(values, argument.group)
    groups = view.merge_groups(argument.restored)
    if argument.tasks is None:
        return groups
    return [group for group in groups if group.merge or view.tasks[group.objects[0].key] in argument.tasks]


def segments_of(values: Values, group: GroupContext) -> list[ArchivedSegment]:
    """Return a group's segments. The work of a task, for level stream."""
    return list(GroupView(values, group).classified.segments)


def unwritten(rows: Iterable[ListedSegment], facts: Mapping[str, SegmentFacts]) -> Iterator[str]:
    """Yield the objects that the published generation was not made of, but for altered ones."""
    for row in rows:
        read, written = facts.get(row.key), () if row.known is None else row.known.written
        if read is not None and written and read.altered != Alteration.ALTERED and read.digest not in written:
            yield row.key


class GroupView:
    """A group's objects, classified; raises ObjectVanished where they are not those that were listed."""

    def __init__(self, values: Values, group: GroupContext) -> None:
        self._group = group
        scope = group.scope
        objects = sorted(all_objects(values), key=lambda facts: facts.row.key.encode())
        self.rows = [facts.row for facts in objects]
        check_mark(self.rows, group.mark)
        self.facts = {facts.row.key: facts.read for facts in objects if facts.read is not None}
        self.tasks = {facts.row.key: facts.task for facts in objects}
        self.has_lines = bool(self.facts)
        parsed = parse((facts.row, facts.fields) for facts in objects)
        self.classified = classify(scope.prefix, parsed, group.copies, scope.compression)
        misplaced = classify(scope.prefix, group.misplaced, {}, scope.compression).segments
        self._members: dict[str, list[ArchivedSegment]] = defaultdict(list)
        for segment in [*self.classified.segments, *misplaced]:
            if scope.grouping.of(segment.metadata.shard_id) == group.number:
                self._members[segment.metadata.shard_id].append(segment)
        self.shards = sorted({*self._members, *group.living, *group.gone})

    def members(self, shard: str) -> list[ArchivedSegment]:
        """Return a shard's segments."""
        return self._members.get(shard, [])

    def judge(self, shard: str) -> JudgedShard:
        """Judge one shard."""
        group, segments = self._group, self.members(shard)
        minutes = group.scope.minutes
        links = [ChainLink(segment.key, segment.metadata) for segment in segments]
        outside = [link for link in group.links.get(shard, []) if link.metadata.minute not in minutes]
        chain = check_chain(minutes, [*links, *outside], self._shard_context(shard))
        chain = chain._replace(findings=tuple(bounded(chain.findings)))
        proofs, whole = self._proofs(shard, segments)
        step = between_segments([*links, *outside], lambda link: link.metadata.minute in minutes)
        steps = [found for found in (step, inside_segments(links, self.facts)) if found is not None]
        greatest_ms = max((found.ms for found in steps), default=0)
        firsts = {proof.first for proof in proofs}
        return JudgedShard(
            shard_row(shard, segments, chain, greatest_ms),
            chain,
            proofs,
            whole,
            {segment.metadata.first: segment.key for segment in segments if segment.metadata.first in firsts},
            max(segments, key=lambda segment: (segment.metadata.last, segment.key)).key if segments else None,
            Minutes.of(group.scope.day, segments),
            tuple(step_back_findings(shard, steps)),
        )

    def spans(self, shard: str) -> list[ArchivedSpan]:
        """Return what is known to be archived of a shard: its segments, their neighbours, and expired runs."""
        expired = [ArchivedSpan(run.first, run.last, None) for run in self._group.expired.get(shard, ())]
        links = [span_of(link.metadata) for link in self._group.links.get(shard, ())]
        return [*(span_of(segment.metadata) for segment in self.members(shard)), *links, *expired]

    def dropped(self) -> tuple[list[UnresolvedRecords], list[Finding]]:
        """Follow dropped records to their originals as far as this group knows."""
        segments = [segment for segment in self.classified.segments if segment.metadata.dropped]
        if not self.has_lines or not segments:
            return [], []
        scope = self._group.scope
        storage = scope.storage or open_in_task(scope.archive)
        dropped, findings = read_dropped_records(storage, scope.prefix, segments)
        if scope.numbers is not None:
            dropped = with_conflicts(storage, dropped, self.members, scope.numbers)
        maps: dict[str, SpanMap] = {}
        unresolved = []
        for segment, records in dropped:
            left = []
            for record in records:
                shard, position = record.original or ("", None)
                if position is None:
                    left += [record] if record.conflict is not None else []
                    continue
                spans = maps.setdefault(shard, SpanMap(self.spans(shard)))
                if spans.fate(position) != "archived":
                    left.append(record)
            if left:
                is_readable = not self.facts[segment.key].problem
                unresolved.append(UnresolvedRecords(segment, tuple(left), scope.writes and is_readable))
        return unresolved, findings

    def merge_groups(self, restored: Mapping[str, RestoredLines]) -> list[MergeGroup]:
        """Return what goes into the Parquet files, with lines that come back."""
        groups = group_overlaps(spans_of(self.rows, self.classified, self.facts))
        return with_restored(groups, raw_objects(self.rows), restored) if restored else groups

    def redo_tasks(self, restored: Mapping[str, RestoredLines]) -> tuple[frozenset[int], int]:
        """Return the tasks that have written what is merged or left out, and how many groups are merged."""
        groups = self.merge_groups(restored)
        good = {group.objects[0].key for group in groups if not group.merge}
        merged = {raw_object.key for group in groups if group.merge for raw_object in group.objects}
        tasks = {
            self.tasks[key]
            for key, read in self.facts.items()
            if key not in good and (read.lines or read.problem or key in merged)
        }
        return frozenset(tasks), sum(group.merge for group in groups)

    def _shard_context(self, shard: str) -> ShardContext:
        group = self._group
        left_out = self.classified.left_out
        return ShardContext(
            shard,
            group.markers.get(shard, ShardMarkers()),
            group.checkpoints.get(shard),
            group.reach.get(shard, SearchReach(to_the_beginning=False, to_the_end=False)),
            holes=tuple(
                row.parsed.first
                for row in (self.rows if left_out else ())
                if row.key in left_out and row.parsed is not None and row.parsed.shard_id == shard
            ),
            expired=group.expired.get(shard, ()),
            unread=group.unread,
            gone=group.gone.get(shard, ()),
        )

    def _proofs(
        self, shard: str, segments: Sequence[ArchivedSegment]
    ) -> tuple[tuple[EvidenceLink, ...], tuple[tuple[Position, Position], ...]]:
        proofs = [segment_link(segment.metadata, segment.row.last_modified_ms) for segment in segments]
        if shard in self._group.as_they_are:
            return tuple(proofs), ()
        condensed = condense(proofs, self._group.scope.judged, self._group.positions.get(shard, frozenset()))
        single = {(proof.first, proof.last) for proof in proofs}
        return tuple(condensed), tuple(
            ends for proof in condensed if (ends := (proof.first, proof.last)) not in single
        )


def bounded(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings of which not many have one code, severity and shard: those become one that counts them."""
    groups: dict[tuple[str, str, str | None, bool], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.code, finding.severity, finding.shard, finding.repaired].append(finding)
    return [
        finding for group in groups.values() for finding in (group if len(group) <= _MANY else [_together(group)])
    ]


def _together(findings: Sequence[Finding]) -> Finding:
    first = findings[0]
    keys = dict.fromkeys(key for finding in findings for key in finding.keys)
    positions = dict.fromkeys(position for finding in findings for position in finding.positions)
    return msgspec.structs.replace(
        first,
        message=f"{len(findings)} findings like this one: {first.message}",
        minute=None,
        keys=tuple(keys)[:SAMPLES],
        positions=tuple(positions)[:SAMPLES],
        count=sum(finding.count for finding in findings),
        digest=digest_of_lines(
            f"{one.code} {one.severity} {one.shard} {one.minute} {one.keys} {one.positions} {one.begins} {one.until} "
            f"{one.count} {one.contents}"
            for one in findings
        ),
    )
