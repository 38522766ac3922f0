"""What is promised of the end of a shard."""

from typing import TYPE_CHECKING

from tests.simulation.promises.objects import Segment
from tests.simulation.world import Violation, name

if TYPE_CHECKING:
    from tests.simulation.promises.ledger import Ledger


def check_end(ledger: "Ledger", chain: list[Segment]) -> None:
    """Check that an end that is called proven is one: of a closed shard, at the chain's end, with nothing behind it.

    Raises:
        Violation: it is not.
    """
    if ledger.end is None:
        return
    if not ledger.shard.closed:
        raise Violation("end.json was written for an open shard")
    last = chain[-1].last if chain else None
    said = ledger.end.last_position()
    if ledger.end.proof != "read":
        ledger.world.tally["checked: an end that is not proven"] += 1
        return
    if ledger.ended_empty:
        # Retention passed a zombie that held the shard's very first records (near_retention, at error level):
        # nobody else can know that there ever were any.
        ledger.world.tally["checked: an end before the first segment"] += 1
        return
    since_ms = ledger.application.start_at_ms if ledger.application is not None else None
    if said is None and chain and since_ms is not None and chain[0].metadata.arrival_min_ms < since_ms:
        # `consume` gave TRIM_HORIZON for a start that its clock took for trimmed: refused from then on (exit 6).
        ledger.world.tally["checked: an end before the start was moved"] += 1
        return
    ended = chain[-1].metadata.last if chain else ledger.adopted
    # What was put before the application began lies before the first record, and nobody asks for it.
    none = -1 if ledger.start is None else ledger.shard.index[ledger.start.first_position()] - 1
    ends = sorted(none if position is None else ledger.shard.index[position] for position in (said, ended))
    if ledger.withheld.are_optional(ends[0] + 1, ends[1] + 1):
        ledger.world.happened("beyond the promise: the chain ends at two records")
        return
    if said != ended:
        raise Violation(f"end.json says {said}, the chain ends at {name(last)}")
    begun = len(ledger.shard.everything) if ledger.start is None and ledger.adopted is None else (last or 0) + 1
    if ledger.adopted is not None and last is None:
        begun = ledger.shard.index[ledger.adopted] + 1
    if ledger.withheld.demanded(begun, len(ledger.shard.everything)):
        raise Violation(f"end.json calls the end proven, and {name(begun)} is missing")
