"""A day of the archive, judged by the product's rules: its chains, its lines, its times, and what that rests on.

The model's own is how things are found: neighbours of a chain and evidence around a scope come from a sorted list,
not by the searches of `compaction.inventory.neighbours` and `minutebook.proof.search`. It is the archive as it is at
that step of the night that is looked at, so what changes between two steps is seen by one and not by the other.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from compaction.audit.coverage import open_time_findings
from compaction.audit.rules.chain import JudgedMinutes, ShardContext, check_chain, maybe_living_shards
from compaction.audit.rules.lines import alteration_findings, check_lines, repeat_findings, with_contents
from compaction.basis.evidence import with_evidence
from compaction.basis.judged import is_as_used, shards_of
from compaction.basis.outside import OutsideQuery, outside_of, places_outside, with_outside
from compaction.inventory.checkpoints import Checkpoints
from compaction.inventory.neighbours import ChainLink, SearchReach
from compaction.inventory.segments import ArchivedSegment, ListedSegment, ParsedObject, SegmentFacts, classify, parse
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.inventory.tombstones import nearest_days, runs_of
from compaction.tasks.merging import Repeat
from compaction.verdict.audit_document import Audit, AuditCheck, Equation, Scope, overall_verdict
from compaction.verdict.basis import Basis, FolderBasis, ShardBasis
from compaction.verdict.findings import Code, Finding, ordered
from minutebook.compression import Compression
from minutebook.coverage.intervals import Interval
from minutebook.format.arrival import MIDNIGHT_EDGE_MS
from minutebook.format.day import MINUTES_A_DAY, Day, day_of_ms
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind
from minutebook.proof.evidence_set import EvidenceSet, ProofQuery
from minutebook.proof.reading import JudgedScope, ScopeFacts, judge_facts
from minutebook.proof.sources import Stream, sources_of
from minutebook.published.verdict import RULES
from tests.corpus.model import PREFIX
from tests.lives.model.archive import Archive, Entry
from tests.lives.model.world import Name

_EDGE: Final = MIDNIGHT_EDGE_MS // MINUTE_MS
_LOOKBACK_DAYS: Final = 14


class View(NamedTuple):
    """A day before a line is read, in the order of `compaction.audit.day_view`."""

    day: Day
    scope: Interval
    end_minute: int | None
    now_ms: int
    judged_from_ms: int
    checkpoints: Checkpoints
    markers: ArchiveMarkers
    entries: Sequence[Entry]
    folders: tuple[FolderBasis, ...]

    @property
    def minutes(self) -> JudgedMinutes:
        """The minutes that are judged."""
        end = self.day.shift(1).first_minute if self.end_minute is None else self.end_minute
        return JudgedMinutes(self.day.first_minute, end)


class Judged(NamedTuple):
    """The judgement of a view. `neighbours` are the segments around it that its chains join."""

    judged: JudgedScope
    neighbours: Mapping[str, Sequence[ChainLink]]
    shards: Sequence[str]
    chain_findings: tuple[Finding, ...]
    other_findings: tuple[Finding, ...]

    @property
    def looks_broken(self) -> bool:
        """Return whether a segment seems to be missing."""
        return any(about.code == Code.BROKEN_CHAIN for about in self.chain_findings)


def judge(archive: Archive, view: View, rows: Sequence[ListedSegment], facts: Mapping[str, SegmentFacts]) -> Judged:
    """Judge a day by its rows, the facts about them, and the archive around it as it is now."""
    parsed: list[ParsedObject] = []
    for row, entry in zip(rows, view.entries, strict=True):
        read = facts[row.key]
        if entry.metadata is None or read.metadata is None:
            parsed += parse([(row, read.metadata)])
        else:
            parsed.append((row, entry.metadata))
    classified = classify(PREFIX, parsed, {}, Compression.GZIP)
    members: dict[str, list[ArchivedSegment]] = defaultdict(list)
    for segment in classified.segments:
        members[segment.metadata.shard_id].append(segment)
    markers = view.markers
    shards = sorted({*members, *maybe_living_shards(view.day, markers.shards, _LOOKBACK_DAYS)})
    around = {shard: _around(archive, view, shard, members.get(shard, ())) for shard in markers.shards}
    tombstones = markers.statements.tombstones
    expired = runs_of({day: tombstones[day] for day in nearest_days(tombstones, view.day)})
    chains: list[Finding] = []
    neighbours = {}
    for shard in shards:
        own = [ChainLink(segment.key, segment.metadata) for segment in members.get(shard, ())]
        near = around.get(shard, _NOWHERE)
        neighbours[shard] = near.links(view.minutes)
        context = ShardContext(
            shard,
            markers.shards.get(shard, ShardMarkers()),
            view.checkpoints.by_shard.get(shard),
            SearchReach(to_the_beginning=True, to_the_end=True),
            expired=expired.get(shard, ()),
        )
        chains += check_chain(view.minutes, [*own, *neighbours[shard]], context).findings
    judged = _judge_times(archive, view, members, around)
    known = [*classified.findings, *markers.findings, *chains]
    of_objects = with_contents([*classified.findings, *check_lines(classified.segments, facts)], facts)
    others = (*of_objects, *alteration_findings(rows, facts))
    return Judged(judged, neighbours, shards, (*chains, *open_time_findings(judged, known, {})), others)


class _Around(NamedTuple):
    """The segments of a shard before and after those of a view, the nearest first."""

    before: tuple[Entry, ...] = ()
    after: tuple[Entry, ...] = ()

    def links(self, minutes: JudgedMinutes) -> list[ChainLink]:
        """Return them as neighbours of a chain."""
        return [
            ChainLink(entry.key, entry.metadata)
            for entry in (*self.before, *self.after)
            if entry.metadata is not None and entry.metadata.minute not in minutes
        ]


_NOWHERE: Final = _Around()


def _around(archive: Archive, view: View, shard: str, own: Sequence[ArchivedSegment]) -> _Around:
    """Find the segments around: up to the nearest beyond the edges, and behind up to what reaches the scope's end."""
    chain, minutes = archive.chain(shard), view.minutes
    if own:
        firsts = [segment.metadata.first for segment in own]
        low, high = archive.split(shard, min(firsts)), archive.split(shard, max(firsts))
    else:
        later = (at for at, entry in enumerate(chain) if entry.row.parsed and entry.row.parsed.minute >= minutes.end)
        low = high = next(later, len(chain))
    before = _outward(reversed(chain[:low]), view, lambda minute: minute < minutes.first - _EDGE)
    after = _outward(chain[high:], view, lambda minute: minute > minutes.end + _EDGE)
    return _Around(tuple(before), tuple(after))


def _outward(entries: Iterable[Entry], view: View, is_far: Callable[[int], bool]) -> Iterator[Entry]:
    minutes = view.minutes
    for entry in entries:
        assert entry.metadata is not None
        if entry.metadata.minute in minutes:
            continue
        yield entry
        if is_far(entry.metadata.minute):
            return


def _judge_times(
    archive: Archive,
    view: View,
    members: Mapping[str, Sequence[ArchivedSegment]],
    around: Mapping[str, _Around],
) -> JudgedScope:
    """Judge what is proven of the scope's times, by all evidence that there is."""
    statements, application = view.markers.statements, view.markers.application
    assert application is not None
    query = ProofQuery(view.scope, application.begin_ms, view.now_ms)
    known = EvidenceSet(query, statements)
    entries = {entry.key: entry for entry in view.entries}
    for shard, segments in members.items():
        for segment in segments:
            link = entries[segment.key].link
            if link is not None:
                known.add_link(shard, link)
    for shard, near in around.items():
        for entry in (*near.before, *near.after):
            if entry.link is not None:
                known.add_link(shard, entry.link)
    _add_later_marks(archive, view, known)
    for shard, marks in list(known.marks.items()):
        for mark in marks:
            is_near = Interval(mark.from_ms, mark.until_ms).overlaps(view.scope)
            if is_near and mark.position is not None and mark.position not in known.ends[shard]:
                _add_ending_at(archive, view, known, shard, mark.position)
    shards = {
        shard: known.facts(shard, to_the_beginning=True, to_the_end=True, unseen=frozenset())
        for shard in sorted(known.known)
    }
    sources = sources_of(statements, shards, Stream())
    return judge_facts(ScopeFacts(query, shards, sources, (), ""))


def _add_later_marks(archive: Archive, view: View, known: EvidenceSet) -> None:
    """Add the marks of later days until something of each shard reaches the scope's end."""
    statements, until_ms = view.markers.statements, view.scope.until_ms
    for number in range(day_of_ms(until_ms).number, day_of_ms(view.now_ms).number + 1):
        day = Day(number)
        if day not in statements.marks:
            known.add_marks(archive.marks[day].values())
        reaching = {shard for shard, markers in statements.shards.items() if markers.end is not None}
        reaching |= {
            shard
            for shard, marks in known.marks.items()
            if any(mark.kind is MarkKind.READ and mark.until_ms >= until_ms for mark in marks)
        }
        if all(shard in reaching or known.is_archived_beyond(shard) for shard in known.known):
            return


def _add_ending_at(archive: Archive, view: View, known: EvidenceSet, shard: str, position: Position) -> None:
    """Add the segment that ends where a mark stands."""
    chain, at = archive.chain(shard), archive.split(shard, position._replace(sub=position.sub + 1))
    for entry in islice(reversed(chain[:at]), 3):
        is_outside = entry.metadata is not None and entry.metadata.minute not in view.minutes
        if entry.link is not None and is_outside and entry.link.last == position:
            known.add_link(shard, entry.link)


# The basis


def basis_of(archive: Archive, view: View, judged: Judged, generation: str, *, is_in_motion: bool) -> Basis:
    """Return what a verdict rests on; the archive around the scope is listed now."""
    statements = view.markers.statements
    query = OutsideQuery.of(PREFIX, view.scope, archive.clock.now_ms(), statements.tombstones)
    shards, used = shards_of(judged.judged, statements, judged.shards, judged.neighbours, query)
    basis = Basis(
        judged_from=iso_time(view.judged_from_ms),
        generation=generation,
        settings="",
        folders=view.folders,
        shards=shards,
        expired=tuple(map(str, nearest_days(statements.tombstones, view.day))),
    )
    outside = outside_of(query, shards, _rows_at(archive, query, shards))
    basis = with_outside(with_evidence(basis, PREFIX, view.markers, view.scope), query, outside)
    is_as_it_was = is_as_used(outside, basis.shards, used, view.judged_from_ms)
    return msgspec.structs.replace(basis, changed_meanwhile=is_in_motion or not is_as_it_was)


def present_basis(archive: Archive, markers: ArchiveMarkers, known: Basis, day: Day, scope: Interval) -> Basis:
    """Return the basis of a published day as LISTs give it now."""
    query = OutsideQuery.of(PREFIX, scope, archive.clock.now_ms(), markers.statements.tombstones)
    end = None if scope.until_ms >= day.end_ms else scope.until_ms // MINUTE_MS
    basis = msgspec.structs.replace(known, folders=archive.folders(day, end), changed_meanwhile=False)
    basis = with_evidence(basis, PREFIX, markers, scope)
    return with_outside(basis, query, outside_of(query, known.shards, _rows_at(archive, query, known.shards)))


def _rows_at(archive: Archive, query: OutsideQuery, shards: Sequence[ShardBasis]) -> list[ListedSegment]:
    places = places_outside(query, shards)
    rows: list[ListedSegment] = []
    for minute in places.minutes:
        if minute in archive.by_minute:
            rows += [entry.row for entry in archive.by_minute[minute].values()]
    for shard, minute in places.of_shards:
        found = archive.by_minute.get(minute, {}).values()
        rows += [entry.row for entry in found if entry.metadata is not None and entry.metadata.shard_id == shard]
    for hour in places.hours:
        first = hour.first_minute
        rows += [
            entry.row
            for entry in archive.by_day[first // MINUTES_A_DAY].values()
            if entry.row.parsed is not None and first <= entry.row.parsed.minute < first + 60
        ]
    return rows


# The document


def conclude(
    view: View,
    judged: Judged,
    further: Iterable[Finding],
    rows: int | None,
    *,
    is_in_motion: bool,
) -> Audit:
    """Return the audit, without what no rule of a published verdict looks at."""
    chains = [
        msgspec.structs.replace(about, severity="unknown")
        if is_in_motion and about.code == Code.BROKEN_CHAIN
        else about
        for about in judged.chain_findings
    ]
    findings = tuple(ordered([*judged.other_findings, *chains, *further]))
    checks = (AuditCheck(id="day_at_rest", status="unknown"),) if is_in_motion else ()
    count = 0 if rows is None else rows
    return Audit(
        schema="",
        rules=RULES,
        version="",
        audited_at=iso_time(view.now_ms),
        level="keys",
        verdict=overall_verdict(findings, checks),
        scope=_SCOPE,
        equation=Equation(
            raw=count, unique=count, duplicates=0, rejected=0, compacted=rows, removed=0, balanced=True
        ),
        shards=(),
        checks=checks,
        findings=findings,
    )


_SCOPE: Final = Scope(
    stream="", application="", archive="", day="", day_is_over=True, objects=0, bytes=0, inventory="", generation=None
)


class Rows(NamedTuple):
    """The rows of a day, each position once, and findings about positions that several objects have."""

    rows: Mapping[Name, bytes]
    findings: tuple[Finding, ...]


def merge_rows(view: View, entries: Mapping[str, Entry | None]) -> Rows:
    """Return what a rewrite makes of the segments that it read."""
    rows: dict[Name, bytes] = {}
    holders: dict[Name, list[str]] = defaultdict(list)
    for before in view.entries:
        entry = entries[before.key]
        for sent in () if entry is None or entry.metadata is None else entry.records or ():
            rows.setdefault((sent.shard, sent.position), sent.data)
            holders[sent.shard, sent.position].append(before.key)
    repeats = [
        Repeat(shard, 0, tuple(keys), len(keys) - 1, (str(position),), 0)
        for (shard, position), keys in holders.items()
        if len(keys) > 1
    ]
    return Rows(rows, tuple(repeat_findings(repeats)))
