"""What a delivery must not show, and what it may show and must not pass in silence."""

from typing import TYPE_CHECKING

from archive.errors import DeliveryDoubt
from archive.format.metadata import Continuity
from archive.format.position import Position
from consumer.processor.chain_tail import ChainTail

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def check_order(shard_id: str, position: Position, delivered: Position | None) -> None:
    """Raise DeliveryDoubt unless a record lies behind what was delivered before it."""
    if delivered is not None and position <= delivered:
        raise DeliveryDoubt(
            f"record {position} of {shard_id} was delivered after {delivered}",
            next_step="nothing was checkpointed beyond the archive; the records will be delivered again",
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
