"""The lease rows with which another KCL application goes on behind a cut. No I/O.

the cut says                          the row's checkpoint
a position                            that position: KCL delivers from right after it
END                                   SHARD_END
NONE, or nothing of a descendant      TRIM_HORIZON: the whole shard lies behind the cut. Never AT_TIMESTAMP, on which
                                      KCL 3.1.3 throws where its configuration names no time (IteratorBuilder.java)

Every shard of the archive that ListShards returns gets a row, and each of its descendants: hash keys without one are
a hole, which KCL fills from the other application's initial position (HierarchicalShardSyncer.java). A child waits
for its parents by itself. Shards that had ended before the archive began get none, because KCL takes a parent without
a row for finished. Of two merged shards that have ended, both get a row, or neither.
"""

from collections.abc import Collection, Mapping

from consumer.leases.rows import Checkpoint, Lease
from consumer.stream.port import ShardInfo
from minutebook.cut import Cut
from minutebook.errors import SafetyRefusal


def plan_handover(cut: Cut, first: Collection[str], shards: Mapping[str, ShardInfo]) -> list[Lease]:
    """Return the rows in the order of the shards' ids; `first` are the shards with which the archive began.

    Raises SafetyRefusal if the stream does not hold a shard that the cut divides, or calls an ended one open.
    """
    _check_held(cut, {*cut.shards, *first}, shards)
    own = _own({*cut.shards, *first}, shards)
    for shard_id in sorted(own):
        parents = set(shards[shard_id].parents)
        if not parents <= own:  # one parent of a merge may be listed longer than the other one
            own -= {parent for parent in parents if cut.has_ended(parent)}
    return [_row(cut, shards[shard_id]) for shard_id in sorted(own)]


def _check_held(cut: Cut, known: Collection[str], shards: Mapping[str, ShardInfo]) -> None:
    for shard_id in sorted(known):
        info = shards.get(shard_id)
        if info is None and not cut.has_ended(shard_id):
            raise SafetyRefusal(
                f"all or a part of {shard_id} lies behind the cut, and the stream lists it no more: that is gone",
                next_step="make a cut at a later time; the archive holds what lies between",
            )
        if info is not None and cut.has_ended(shard_id) and not info.closed:
            raise SafetyRefusal(
                f"the cut says that {shard_id} has ended, and ListShards calls it open",
                next_step="run minutebook audit for the shard's last day before anything else",
            )


def _own(known: Collection[str], shards: Mapping[str, ShardInfo]) -> set[str]:
    """Return the listed shards that are known, open, or descend from one that is known."""
    own = {shard_id for shard_id, info in shards.items() if shard_id in known or not info.closed}
    while more := {
        shard_id
        for shard_id, info in shards.items()
        if shard_id not in own and {*known, *own}.intersection(info.parents)
    }:
        own |= more
    return own


def _row(cut: Cut, info: ShardInfo) -> Lease:
    checkpoint: Checkpoint = cut.positions.get(info.shard_id, "TRIM_HORIZON")
    return Lease(
        shard_id=info.shard_id,
        checkpoint="SHARD_END" if cut.has_ended(info.shard_id) else checkpoint,
        parents=frozenset(info.parents),
        children=frozenset(info.children),
        starting_hash_key=info.starting_hash_key,
        ending_hash_key=info.ending_hash_key,
    )
