"""The chains of a day's shards: their segments are joined with neighbours and evidence, and each chain is judged."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from archive.format.day import Day
from archive.format.metadata import ChainStart
from archive.format.minute import MINUTE_MS
from archive.format.position import Position
from archive.store.retrying import RetryingStorage
from compaction.audit.chain import Span, check_chain
from compaction.audit.evidence import ChainResult, Evidence, ShardContext
from compaction.audit.originals import ArchivedSpan, span_of
from compaction.inventory.inventory import Inventory
from compaction.inventory.neighbours import Link, Need, Neighbours, Reach, find_neighbours
from compaction.inventory.segments import Described, Segment
from compaction.inventory.shard_markers import ShardMarkers
from compaction.verdict.audit_document import Shard


class Chains(NamedTuple):
    """The verdict on every shard, and the neighbours that it rests on."""

    results: Mapping[str, ChainResult]
    neighbours: Neighbours


def join(
    storage: RetryingStorage, inventory: Inventory, described: Described, evidence: Evidence, *, lookback_days: int
) -> Chains:
    """Find each shard's neighbours and judge its chain."""
    by_shard = _by_shard(described)
    shards = evidence.markers.shards
    concerned = sorted({*by_shard, *_living(inventory.day, shards, lookback_days)})
    needs = {shard: _need(by_shard.get(shard, []), shards.get(shard, ShardMarkers())) for shard in concerned}
    neighbours = find_neighbours(storage, inventory, needs, days=lookback_days)
    span = Span(inventory.day.first_minute, inventory.end_ms // MINUTE_MS)
    holes = _holes(inventory, described)
    results = {}
    for shard in concerned:
        links = [Link(segment.key, segment.metadata) for segment in by_shard.get(shard, [])]
        outside = [link for link in neighbours.links.get(shard, []) if link.metadata.minute not in span]
        context = ShardContext(
            shard,
            shards.get(shard, ShardMarkers()),
            evidence.checkpoints.get(shard),
            neighbours.reach.get(shard, Reach(to_the_beginning=False, to_the_end=False)),
            holes=tuple(holes.get(shard, ())),
            expired=evidence.expired.runs.get(shard, ()),
            unread=evidence.expired.unread,
        )
        results[shard] = check_chain(span, [*links, *outside], context)
    return Chains(results, neighbours)


def _by_shard(described: Described) -> dict[str, list[Segment]]:
    by_shard: dict[str, list[Segment]] = defaultdict(list)
    for segment in described.segments:
        by_shard[segment.metadata.shard_id].append(segment)
    return by_shard


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


def known_spans(described: Described, chains: Chains, evidence: Evidence) -> dict[str, list[ArchivedSpan]]:
    """Return, by shard, what is known to be archived: the day's segments, their neighbours, and expired runs."""
    spans: dict[str, list[ArchivedSpan]] = defaultdict(list)
    for segment in described.segments:
        spans[segment.metadata.shard_id].append(span_of(segment.metadata))
    for shard_id, links in chains.neighbours.links.items():
        spans[shard_id] += [span_of(link.metadata) for link in links]
    for shard_id, runs in evidence.expired.runs.items():
        spans[shard_id] += [ArchivedSpan(run.first, run.last, None) for run in runs]
    return spans


def shard_rows(described: Described, chains: Chains) -> list[Shard]:
    """Return the table of shards."""
    by_shard = _by_shard(described)
    return [
        _shard_row(shard, by_shard.get(shard, []), chains.results.get(shard))
        for shard in sorted({*by_shard, *chains.results})
    ]


def _shard_row(shard: str, segments: Sequence[Segment], result: ChainResult | None) -> Shard:
    lags = sorted(max(0, segment.row.last_modified_ms - segment.metadata.arrival_max_ms) for segment in segments)
    return Shard(
        shard=shard,
        objects=len(segments),
        records=sum(segment.metadata.records for segment in segments),
        bytes=sum(segment.row.size for segment in segments),
        payload_bytes=sum(segment.metadata.payload_bytes for segment in segments),
        first=str(min(segment.metadata.first for segment in segments)) if segments else None,
        last=str(max(segment.metadata.last for segment in segments)) if segments else None,
        lag_ms_median=median_low(lags) if lags else None,
        lag_ms_max=lags[-1] if lags else None,
        start_proof=result.proof.start if result else "",
        end_proof=result.proof.end if result else "",
    )
