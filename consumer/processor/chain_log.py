"""Log events of a shard's chain."""

from typing import TYPE_CHECKING

from consumer.processor.chain_tail import ChainTail
from minutebook.format.metadata import Continuity, SegmentMetadata
from minutebook.format.position import Position

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
    """Log that a segment is stored."""
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
    """Log that another writer's segment has the slot."""
    log.warning(
        "slot_lost",
        winner_last=str(winner.last),
        next_step="expected for a moment after a lease changed hands; if it lasts, two workers share a shard",
    )


def doubt_start(chain: ChainTail, log: "FilteringBoundLogger", stored_last: Position, oldest: Position) -> None:
    """Mark the chain unproven: a start without a checkpoint met its middle, and no record of the archived part.

    Retention trimmed those records, and perhaps records after them that were never archived.
    """
    chain.doubt(Continuity.UNPROVEN)
    log.error(
        "resumed_past_retention",
        position=str(stored_last),
        oldest=str(oldest),
        next_step="the lease table was lost after records were trimmed; records between these positions may be "
        "gone, and the audit will say unknown for this shard",
    )
