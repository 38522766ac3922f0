"""What the log says of a shard's chain: its commits, and a start that leaves doubts."""

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


def doubt_start(chain: ChainTail, log: "FilteringBoundLogger", stored_last: Position, oldest: Position) -> None:
    """Report that a start without a checkpoint came upon the chain's middle, and no record of the archived part.

    Retention trimmed those records, and perhaps records behind them that nobody archived.
    """
    chain.doubt(Continuity.UNPROVEN)
    log.error(
        "resumed_past_retention",
        position=str(stored_last),
        oldest=str(oldest),
        next_step="the lease table was lost after records were trimmed; records between these positions may be "
        "gone, and the audit will say unknown for this shard",
    )
