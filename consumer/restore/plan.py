"""The lease rows that follow from an archive: the rules of `minutebook restore`. No I/O.

the archive holds                           the row's checkpoint
end.json                                    SHARD_END (never without that proof: KCL would skip the rest)
segments                                    the last position of the chain: KCL delivers from right after it
segments with one missing between           the last position before the gap, so that it is read again and filled
only start.json                             the start that it records
nothing, but an ancestor is archived        TRIM_HORIZON, as KCL gives it to children
nothing                                     the application's own start

Every shard that ListShards returns gets a row: KCL searches for shards without one only minutes later. A checkpoint
that is too old is safe: LIST finds the records that are archived already, and they are skipped. These rules never
give one that is too new.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

from consumer.archived.application import KclStart
from consumer.archived.chain_ends import ChainEnd
from consumer.archived.shard_markers import ArchivedShard
from consumer.leases.rows import Checkpoint, Lease
from consumer.stream.port import ShardInfo
from minutebook.errors import SafetyRefusal
from minutebook.format.metadata import ChainStart
from minutebook.format.position import Position


class RowChange(enum.Enum):
    """What happens to a row."""

    CREATE = "create"
    REPLACE = "replace"
    KEEP = "keep"


class PlannedRow(NamedTuple):
    """One row: its action, the new and the present row, the reason, and warnings to read before."""

    action: RowChange
    lease: Lease
    seen: Lease | None
    reason: str
    warnings: tuple[str, ...]


class RestoreFacts(NamedTuple):
    """The input of the plan. `ends` covers the shards whose end is not proven.

    `oldest_held_ms`: records that arrived before this time are trimmed (epoch milliseconds). `as_of`: only a part of
    the archive was read, so an end.json may lie after it.
    """

    shards: Mapping[str, ShardInfo]
    archived: Mapping[str, ArchivedShard]
    ends: Mapping[str, ChainEnd]
    start: KclStart
    oldest_held_ms: int
    as_of: bool = False


def plan_rows(facts: RestoreFacts, present: Mapping[str, Lease]) -> list[PlannedRow]:
    """Return the planned row of every listed shard, in the order of the ids.

    Raises SafetyRefusal if the archive proves the end of a shard that the stream calls open.
    """
    return [_plan(facts, facts.shards[shard_id], present.get(shard_id)) for shard_id in sorted(facts.shards)]


def _plan(facts: RestoreFacts, info: ShardInfo, seen: Lease | None) -> PlannedRow:
    checkpoint, reason, warnings = _checkpoint(facts, info)
    lease = Lease(
        shard_id=info.shard_id,
        checkpoint=checkpoint,
        counter=0 if seen is None else seen.counter + 1,
        parents=frozenset(info.parents),
        children=frozenset(info.children),
        starting_hash_key=info.starting_hash_key,
        ending_hash_key=info.ending_hash_key,
    )
    if seen is None:
        return PlannedRow(RowChange.CREATE, lease, None, reason, warnings)
    # No worker lives: an owner in the row is dead, and a new worker would wait until the lease expires.
    is_free = seen.owner is None or seen.checkpoint == "SHARD_END"
    if (seen.checkpoint, seen.parents) == (lease.checkpoint, lease.parents) and is_free:
        return PlannedRow(RowChange.KEEP, seen, seen, reason, warnings)
    if isinstance(seen.checkpoint, Position) and isinstance(checkpoint, Position) and checkpoint < seen.checkpoint:
        warnings = (*warnings, f"goes back from {seen.checkpoint}: the records in between are read again")
    return PlannedRow(RowChange.REPLACE, lease, seen, reason, warnings)


def _checkpoint(facts: RestoreFacts, info: ShardInfo) -> tuple[Checkpoint, str, tuple[str, ...]]:
    archived = facts.archived.get(info.shard_id, ArchivedShard(None, None))
    chain_end = facts.ends.get(info.shard_id)
    if archived.end is not None and not info.closed:
        raise SafetyRefusal(
            f"the archive proves the end of {info.shard_id}, and ListShards calls it open",
            next_step="run minutebook audit for the shard's last day before anything else",
        )
    if archived.end is not None and _reaches(archived, chain_end, as_of=facts.as_of):
        return "SHARD_END", "end.json", ()
    if chain_end is not None:
        return _after_chain(facts, chain_end)
    if archived.start is not None:
        return _after_marker(facts, archived.start.chain_start())
    if any(ancestor in facts.archived for ancestor in _ancestors(facts.shards, info)):
        return "TRIM_HORIZON", "a child of an archived shard, nothing archived yet", ()
    return _application_start(facts), "nothing archived: the application's start", ()


def _after_chain(facts: RestoreFacts, chain_end: ChainEnd) -> tuple[Checkpoint, str, tuple[str, ...]]:
    segment = chain_end.before_holes
    warnings = []
    if chain_end.holes:
        warnings.append(f"a segment is missing after {segment.last}: starts before the gap, to read it again")
    warnings += [
        f"{key} cannot be read, and may name segments before {chain_end.tail.first}" for key in chain_end.unread
    ]
    if segment.arrival_max_ms < facts.oldest_held_ms:
        warnings.append("older than the stream's retention: records may be gone, continuity will be unproven")
    return (
        segment.last,
        "the end of the chain" if not chain_end.holes else "the last segment before a gap",
        tuple(warnings),
    )


def _after_marker(facts: RestoreFacts, start: ChainStart) -> tuple[Checkpoint, str, tuple[str, ...]]:
    reason = "start.json, no segment yet"
    if start.adopted is not None:
        return start.adopted, reason, ()
    if start.sentinel == "AT_TIMESTAMP":
        return _application_start(facts), reason, ()
    return "TRIM_HORIZON", reason, ()


def _application_start(facts: RestoreFacts) -> Checkpoint:
    """Return the application's start; `minutebook consume` writes its time into KCL's configuration."""
    return "TRIM_HORIZON" if facts.start.at_seconds is None else "AT_TIMESTAMP"


def _reaches(archived: ArchivedShard, chain_end: ChainEnd | None, *, as_of: bool) -> bool:
    """Return whether the part of the archive that was read reaches the proven end."""
    if not as_of or archived.end is None or archived.end.last is None:
        return True
    return chain_end is not None and not chain_end.holes and chain_end.tail.last == archived.end.last_position()


def _ancestors(shards: Mapping[str, ShardInfo], info: ShardInfo) -> set[str]:
    """Return parents, grandparents and so on, as far as the stream still lists them."""
    ancestors: set[str] = set()
    unvisited = list(info.parents)
    while unvisited:
        shard_id = unvisited.pop()
        if shard_id not in ancestors:
            ancestors.add(shard_id)
            unvisited += shards[shard_id].parents if shard_id in shards else ()
    return ancestors
