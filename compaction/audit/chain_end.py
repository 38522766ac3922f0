"""The end of a shard's chain where no later segment proves it: the end marker or KCL's checkpoint must. Pure."""

from typing import NamedTuple

from archive.format.markers import EndMarker
from archive.format.minute import minute_text
from archive.format.position import Position
from compaction.audit.evidence import EndProof, ShardContext
from compaction.inventory.neighbours import Link
from compaction.verdict.findings import Code, Finding, Severity, finding


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
    named = marker.last_position()
    if named != _last(tail):
        return _gap(tail, context, "end.json", named)
    if marker.proof != "read":
        return _unproven(tail, context, "end.json says that the shard was closed longer ago than its retention")
    return End("end.json")


def _by_checkpoint(tail: Link | None, context: ShardContext) -> End:
    last, checkpoint = _last(tail), context.checkpoint
    if checkpoint is not None and checkpoint == last:
        return End("checkpoint")
    if checkpoint is not None and (last is None or checkpoint > last):
        return _gap(tail, context, "KCL's checkpoint", checkpoint)
    return _unproven(tail, context, "no later segment, no end.json, and no checkpoint of KCL at this position")


def _gap(tail: Link | None, context: ShardContext, source: str, named: Position | None) -> End:
    reach = context.reach
    if not reach.to_the_end or (tail is None and not reach.to_the_beginning):
        message = f"{source} names {named}, which was not found in the days that were searched"
        return _unproven(tail, context, message)
    message = f"{source} names {named}, and the last segment ends at {_last(tail)}: what lies between is missing"
    return _open(tail, context, Code.BROKEN_CHAIN, message, severity="defect", named=named)


def _unproven(tail: Link | None, context: ShardContext, why: str) -> End:
    return _open(tail, context, Code.UNPROVEN_END, why, severity="unknown")


def _open(
    tail: Link | None,
    context: ShardContext,
    code: Code,
    message: str,
    *,
    severity: Severity,
    named: Position | None = None,
) -> End:
    """Return an end that nothing proves, with a finding about the tail, where there is one."""
    found = finding(
        code,
        message,
        severity=severity,
        shard=context.shard_id,
        minute=None if tail is None else minute_text(tail.metadata.minute),
        keys=[] if tail is None else [tail.key],
        positions=[position for position in (_last(tail), named) if position is not None],
    )
    return End("", (found,))


def _last(tail: Link | None) -> Position | None:
    return None if tail is None else tail.metadata.last
