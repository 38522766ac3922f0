"""The end of a shard's chain where no later segment follows: do the end marker and KCL's checkpoint name more? Pure.

That nothing came behind the tail, they cannot prove: coverage judges that, by times.
"""

from typing import NamedTuple

from archive.format.markers import EndMarker
from archive.format.minute import minute_text
from archive.format.position import Position
from compaction.inventory.neighbours import Link
from compaction.rules.evidence import EndProof, ShardContext
from compaction.verdict.findings import Code, Finding, finding


class End(NamedTuple):
    """What proves the end, and what is wrong with it."""

    proof: EndProof
    findings: tuple[Finding, ...] = ()


def prove_end(tail: Link | None, context: ShardContext) -> End:
    """Compare the last segment that is known with what the end marker and the checkpoint say.

    A position that lies beyond the tail proves a loss only when nothing later is stored: without a later segment, and
    with the archive searched to its end.
    """
    if context.has_hole(_last(tail), None) or "end.json" in context.markers.unreadable:
        return End("")
    marker = context.markers.end
    if marker is not None:
        return _by_marker(tail, context, marker)
    return _by_checkpoint(tail, context)


def _by_marker(tail: Link | None, context: ShardContext, marker: EndMarker) -> End:
    named, last = marker.last_position(), _last(tail)
    # What one delivery left out another one may have brought: an aggregate of another shard's.
    if named != last and (last is None or str(last.sequence) not in marker.undelivered):
        return _gap(tail, context, "end.json", named)
    if marker.proof != "read":
        return End("")
    return End("end.json")


def _by_checkpoint(tail: Link | None, context: ShardContext) -> End:
    last, checkpoint = _last(tail), context.checkpoint
    if checkpoint is not None and checkpoint == last:
        return End("checkpoint")
    if checkpoint is not None and (last is None or checkpoint > last):
        return _gap(tail, context, "KCL's checkpoint", checkpoint)
    return End("")


def _gap(tail: Link | None, context: ShardContext, source: str, named: Position | None) -> End:
    reach = context.reach
    if not reach.to_the_end or (tail is None and not reach.to_the_beginning):
        return End("")
    message = f"{source} names {named}, and the last segment ends at {_last(tail)}: what lies between is missing"
    found = finding(
        Code.BROKEN_CHAIN,
        message,
        shard=context.shard_id,
        minute=None if tail is None else minute_text(tail.metadata.minute),
        keys=[] if tail is None else [tail.key],
        positions=[position for position in (_last(tail), named) if position is not None],
    )
    return End("", (found,))


def _last(tail: Link | None) -> Position | None:
    return None if tail is None else tail.metadata.last
