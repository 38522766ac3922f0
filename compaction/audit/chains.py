"""The examination: from what was listed and read to findings, proofs and the balance of lines.

The only place that knows the order of the steps: sort out objects, join neighbours, judge chains, judge lines.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from archive.errors import FormatError
from archive.format.day import Day
from archive.format.metadata import ChainStart, SegmentMetadata, is_ours
from archive.format.position import Position, SequenceRange
from archive.retry import until_known
from archive.store.storage import Storage
from compaction.audit.chain import check_chain
from compaction.audit.evidence import ChainResult, Link, Reach, ShardContext
from compaction.audit.lines import check_lines, repeat_findings
from compaction.inventory.inventory import Inventory, Row, ShardMarkers, Waits, in_parallel
from compaction.inventory.neighbours import Need, Neighbours, find_neighbours
from compaction.inventory.segments import Described, Segment, describe, parse, strays
from compaction.inventory.shard_markers import Surroundings
from compaction.tasks.facts import SegmentFacts
from compaction.tasks.merging import Repeat
from compaction.tasks.plan import Piece, Span
from compaction.verdict.audit_document import Equation, Shard
from compaction.verdict.findings import Finding

Fields = Mapping[str, str] | None


class Witnesses(NamedTuple):
    """What is asked beside the day's objects. `expired` holds, by shard, what tombstones of earlier days cover."""

    surroundings: Surroundings
    checkpoints: Mapping[str, Position]
    expired: Mapping[str, tuple[SequenceRange, ...]] = {}


class Chains(NamedTuple):
    """The verdict on every shard, and the neighbours that it rests on."""

    results: Mapping[str, ChainResult]
    neighbours: Neighbours


def head_rows(storage: Storage, rows: Sequence[Row], waits: Waits) -> dict[str, Fields]:
    """Ask for the metadata of objects, many at once; None where an object is gone."""

    def fields(row: Row) -> Fields:
        head = until_known(lambda: storage.head(row.key), waits(), f"HEAD {row.key}")
        return None if head is None else head.metadata

    return dict(zip((row.key for row in rows), in_parallel(fields, rows), strict=True))


def sort_out(storage: Storage, inventory: Inventory, metadata: Mapping[str, Fields], waits: Waits) -> Described:
    """Sort out the day's objects; looks outside the day only for the originals of misplaced ones."""
    objects = parse((row, metadata[row.key]) for row in inventory.rows)
    homes = strays(inventory.prefix, objects)
    rows = [Row(key, 0, "", 0, None) for key in homes]
    elsewhere = {
        key: parsed
        for key, fields in head_rows(storage, rows, waits).items()
        if (parsed := _decode(fields)) is not None
    }
    return describe(inventory.prefix, objects, elsewhere)


def join(
    storage: Storage,
    inventory: Inventory,
    described: Described,
    witnesses: Witnesses,
    waits: Waits,
    *,
    lookback_days: int,
) -> Chains:
    """Find each shard's neighbours and judge its chain."""
    by_shard: dict[str, list[Segment]] = defaultdict(list)
    for segment in described.segments:
        by_shard[segment.metadata.shard_id].append(segment)
    shards = witnesses.surroundings.shards
    concerned = sorted({*by_shard, *_living(inventory.day, shards, lookback_days)})
    needs = {shard: _need(by_shard.get(shard, []), shards.get(shard, ShardMarkers())) for shard in concerned}
    neighbours = find_neighbours(storage, inventory.prefix, inventory.day, needs, waits, days=lookback_days)
    holes = _holes(inventory, described)
    results = {}
    for shard in concerned:
        links = [Link(segment.key, segment.metadata) for segment in by_shard.get(shard, [])]
        outside = [link for link in neighbours.links.get(shard, []) if link.metadata.minute not in inventory.day]
        context = ShardContext(
            shard,
            shards.get(shard, ShardMarkers()),
            witnesses.checkpoints.get(shard),
            neighbours.reach.get(shard, Reach(to_the_beginning=False, to_the_end=False)),
            tuple(holes.get(shard, ())),
            witnesses.expired.get(shard, ()),
        )
        results[shard] = check_chain(inventory.day, [*links, *outside], context)
    return Chains(results, neighbours)


def _living(day: Day, shards: Mapping[str, ShardMarkers], lookback_days: int) -> list[str]:
    """Return the shards without a segment of the day that are judged all the same: those that may have lived then.

    Not those whose end was proven before the day began, and not those that were begun long after it: had they had
    records on this day, the link of their first remaining segment would be broken, and its own day says so.
    """
    begin, much_later = str(day), str(day.shift(1 + lookback_days))
    return [
        shard
        for shard, markers in shards.items()
        # ISO 8601: text order is time order.
        if (markers.end is None or markers.end.written_at >= begin)
        and (markers.start is None or markers.start.written_at < much_later)
    ]


def _need(segments: Sequence[Segment], markers: ShardMarkers) -> Need:
    if not segments:
        return Need(None, None, before=markers.start is not None, after=markers.start is not None)
    chain = sorted(segments, key=lambda segment: segment.metadata.first)
    tail = max(segment.metadata.last for segment in segments)
    ends = markers.end is not None and markers.end.last_position() == tail
    starts = isinstance(chain[0].metadata.after, ChainStart)
    return Need(chain[0].metadata.first, chain[-1].metadata.first, before=not starts, after=not ends)


def _holes(inventory: Inventory, described: Described) -> dict[str, list[Position]]:
    holes: dict[str, list[Position]] = defaultdict(list)
    for row in inventory.segments:
        if row.key in described.left_out and row.parsed is not None:
            holes[row.parsed.shard_id].append(row.parsed.first)
    return holes


def pieces_of(inventory: Inventory) -> list[Piece]:
    """Return what can be read of the day: every object whose key is a segment's."""
    return [
        Piece(row.key, row.etag, row.size, row.parsed.shard_id, row.parsed.minute, row.parsed.first)
        for row in inventory.rows
        if row.parsed is not None
    ]


def spans_of(inventory: Inventory, described: Described, facts: Mapping[str, SegmentFacts]) -> list[Span]:
    """Return what goes into the Parquet files: members that were read to their end and hold at least one line."""
    members = {segment.key for segment in described.segments}
    spans = []
    for piece in pieces_of(inventory):
        read = facts.get(piece.key)
        if piece.key in members and read is not None and not read.problem and read.low and read.high:
            spans.append(Span(piece, read.low, read.high, read.is_sorted))
    return spans


def known_spans(described: Described, chains: Chains, witnesses: Witnesses) -> dict[str, list[SequenceRange]]:
    """Return, by shard, what is known to be archived: the day's segments, their neighbours, and expired runs."""
    spans: dict[str, list[SequenceRange]] = defaultdict(list)
    for segment in described.segments:
        spans[segment.metadata.shard_id].append(segment.metadata.span)
    for shard_id, links in chains.neighbours.links.items():
        spans[shard_id] += [link.metadata.span for link in links]
    for shard_id, runs in witnesses.expired.items():
        spans[shard_id] += runs
    return spans


def all_findings(
    described: Described,
    chains: Chains,
    witnesses: Witnesses,
    facts: Mapping[str, SegmentFacts] | None,
    repeats: Sequence[Repeat],
) -> list[Finding]:
    """Collect what every step found."""
    found = [*described.findings, *witnesses.surroundings.findings]
    for result in chains.results.values():
        found += result.findings
    if facts is not None:
        found += check_lines(described.segments, facts)
        found += repeat_findings(repeats)
    return found


class Rows(NamedTuple):
    """What a rewrite wrote: `compacted` rows, `removed` producer duplicates less, `restored` rows more."""

    compacted: int | None = None
    removed: int = 0
    restored: int = 0


def balance(described: Described, facts: Mapping[str, SegmentFacts] | None, repeated: int, rows: Rows) -> Equation:
    """Return the balance of lines."""
    members = {segment.key: segment for segment in described.segments}
    if facts is None:
        raw = unique = sum(segment.metadata.records for segment in described.segments)
        return Equation(raw=raw, unique=unique, duplicates=0, rejected=0, compacted=None, removed=0, balanced=True)
    raw = sum(read.lines for read in facts.values())
    copied = sum(read.lines for key, read in facts.items() if key in described.copies)
    good = sum(read.lines for key, read in facts.items() if key in members and not read.problem)
    rejected = sum(
        read.lines
        for key, read in facts.items()
        if key not in described.copies and (key not in members or read.problem)
    )
    unique = good - repeated - rows.removed
    return Equation(
        raw=raw,
        unique=unique,
        duplicates=copied + repeated,
        rejected=rejected,
        compacted=rows.compacted,
        removed=rows.removed,
        balanced=raw == unique + copied + repeated + rows.removed + rejected
        and rows.compacted in {None, unique + rows.restored},
        restored=rows.restored,
    )


def shard_rows(described: Described, chains: Chains) -> list[Shard]:
    """Return the table of shards."""
    by_shard: dict[str, list[Segment]] = defaultdict(list)
    for segment in described.segments:
        by_shard[segment.metadata.shard_id].append(segment)
    return [
        _shard_row(shard, by_shard.get(shard, []), chains.results.get(shard))
        for shard in sorted({*by_shard, *chains.results})
    ]


def _shard_row(shard: str, segments: Sequence[Segment], result: ChainResult | None) -> Shard:
    lags = sorted(max(0, one.row.last_modified_ms - one.metadata.arrival_max_ms) for one in segments)
    return Shard(
        shard=shard,
        objects=len(segments),
        records=sum(one.metadata.records for one in segments),
        bytes=sum(one.row.size for one in segments),
        payload_bytes=sum(one.metadata.payload_bytes for one in segments),
        first=str(min(one.metadata.first for one in segments)) if segments else None,
        last=str(max(one.metadata.last for one in segments)) if segments else None,
        lag_ms_median=median_low(lags) if lags else None,
        lag_ms_max=lags[-1] if lags else None,
        start_proof=result.proof.start if result else "",
        end_proof=result.proof.end if result else "",
    )


def _decode(fields: Fields) -> SegmentMetadata | None:
    if fields is None or not is_ours(fields):
        return None
    try:
        return SegmentMetadata.decode(fields)
    except FormatError:
        return None
