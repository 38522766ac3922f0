"""Find the segment that ends at a position, when nothing says in which minute it lies.

Keys begin with the minute, so the search lists whole days, newest first. It is for start-ups after the dedupe table
was lost, never for the steady state.
"""

from archive.errors import FormatError
from archive.format.day import Day, day_of_ms
from archive.format.keys import SegmentKey, parse_segment_key
from archive.format.metadata import SegmentMetadata
from archive.format.position import Position
from archive.store.commit import stored_segment
from archive.store.retrying import RetryingStore

_DAYS_BEYOND = 2
"""Arrival times may step back, so the neighbours of the first candidate's day are looked at as well."""


def segment_ending_at(
    store: RetryingStore,
    prefix: str,
    shard_id: str,
    position: Position,
    *,
    now_ms: int,
    oldest_ms: int,
) -> SegmentMetadata | None:
    """Return the shard's segment whose last position is `position`; None when there is none since `oldest_ms`.

    That segment is the one with the greatest first position up to `position`. Costs one LIST per thousand objects of
    each day that is looked at, and one HEAD.

    Raises:
        StoreUnavailable, StoreRefused, ForeignObject: see `archive.store.commit`.
    """
    best: tuple[Position, str] | None = None
    days_beyond = 0
    for day in range(day_of_ms(now_ms).number + 1, day_of_ms(oldest_ms).number - 1, -1):
        for key in store.keys(Day(day).path(prefix)):
            parsed = _segment_of(prefix, key, shard_id)
            if parsed is not None and parsed.first <= position and (best is None or parsed.first > best[0]):
                best = (parsed.first, key)
        days_beyond += best is not None
        if days_beyond > _DAYS_BEYOND:
            break
    if best is None:
        return None
    found = stored_segment(store, prefix, best[1])
    return found if found.last == position else None


def _segment_of(prefix: str, key: str, shard_id: str) -> SegmentKey | None:
    """Return what a key says when it is a segment of the shard; other objects are the audit's business."""
    if f"/{shard_id}/" not in key:
        return None
    try:
        parsed = parse_segment_key(prefix, key)
    except FormatError:
        return None
    return parsed if parsed.shard_id == shard_id else None
