"""The chains of a day's shards: their segments are joined with neighbours and evidence, and each chain is judged."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low

from compaction.audit.rules.evidence import ChainResult
from compaction.inventory.neighbours import NeighbourQuery
from compaction.inventory.segments import ArchivedSegment
from compaction.inventory.shard_markers import ShardMarkers
from compaction.verdict.audit_document import Shard
from minutebook.format.day import Day
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position


def maybe_living_shards(day: Day, shards: Mapping[str, ShardMarkers], lookback_days: int) -> list[str]:
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


def need(segments: Sequence[ArchivedSegment], markers: ShardMarkers) -> NeighbourQuery:
    """Return what a shard needs of the days around."""
    if not segments:
        return NeighbourQuery(None, None, before=markers.start is not None, after=markers.start is not None)
    chain = sorted(segments, key=lambda segment: segment.metadata.first)
    before = chain[0].metadata.after
    tail = max(segment.metadata.last for segment in segments)
    ends = markers.end is not None and markers.end.last_position() == tail
    return NeighbourQuery(
        chain[0].metadata.first,
        chain[-1].metadata.first,
        before=not isinstance(before, ChainStart),
        after=not ends,
        stands_on=before if isinstance(before, Position) else None,
    )


def with_evidence(
    need: NeighbourQuery, markers: ShardMarkers, marked: Iterable[Position], checkpoint: Position | None
) -> NeighbourQuery:
    """Return what a shard needs that may have no segment of the day: then its evidence says where its chain stood.

    `marked` are the positions that its read marks stand on.
    """
    if need.low is not None:
        return need
    ended = None if markers.end is None else markers.end.last_position()
    named = [position for position in (ended, checkpoint, *marked) if position is not None]
    return need._replace(stands_on=max(named, default=None))


def shard_row(shard: str, segments: Sequence[ArchivedSegment], result: ChainResult) -> Shard:
    """Return a shard's row of the table."""
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
        start_proof=result.proof.start,
        end_proof=result.proof.end,
    )
