"""What the log says of a commit."""

from typing import TYPE_CHECKING

from archive.format.metadata import SegmentMetadata

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log_committed(
    log: "FilteringBoundLogger",
    metadata: SegmentMetadata,
    body_bytes: int,
    attempts: int,
    seconds: float,
    covered_until_ms: int | None,
) -> None:
    """Say that a segment is stored, and what it took."""
    log.info(
        "segment_committed",
        records=metadata.records,
        dropped=metadata.dropped,
        payload_bytes=metadata.payload_bytes,
        body_bytes=body_bytes,
        attempts=attempts,
        commit_seconds=round(seconds, 3),
        covered_until_ms=covered_until_ms,
        continuity=metadata.continuity,
    )


def log_lost_slot(log: "FilteringBoundLogger", winner: SegmentMetadata) -> None:
    """Say that another writer's segment has the slot."""
    log.warning(
        "slot_lost",
        winner_last=str(winner.last),
        next_step="expected for a moment after a lease changed hands; if it lasts, two workers share a shard",
    )
