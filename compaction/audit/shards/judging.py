"""What a task judges of the shards of its group, and the little that the driver has to know of it.

The rules are those of `compaction.audit.rules`, each about one shard, or one object, at a time. What looks across shards
the driver settles between two visits: copies that lie in other shards than their originals, segments that lie under
another shard's key, neighbours outside the day, originals of dropped records.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from compaction.audit.rules.chains import need
from compaction.audit.rules.dropped import Unsettled
from compaction.audit.rules.lines import Counts, check_lines, count
from compaction.audit.rules.originals import ArchivedSpan, Original, SpanMap
from compaction.audit.shards.bounding import bounded
from compaction.audit.shards.group_view import GroupContext, GroupView, JudgedShard, all_seen
from compaction.audit.shards.objects import SeenObject
from compaction.inventory.inventory import ListedSegment
from compaction.inventory.neighbours import NeighbourQuery, OutwardScan
from compaction.inventory.segments import (
    ArchivedSegment,
    decode_if_ours,
    is_in_place,
)
from compaction.inventory.shard_markers import ShardMarkers
from compaction.parquet.plan import MergeGroup, RestoredLines
from compaction.shard_groups.port import GroupValue, Values
from compaction.verdict.findings import Finding

if TYPE_CHECKING:
    from minutebook.format.position import Position


class JudgedGroup(NamedTuple):
    """What the driver is told. `tainted` are the tasks whose part must not be published as it is.

    `of_names` was found of names and metadata, `of_lines` of lines and of dropped records.
    """

    shards: Mapping[str, JudgedShard]
    of_names: tuple[Finding, ...]
    of_lines: tuple[Finding, ...]
    counts: Counts
    unsettled: tuple[Unsettled, ...]
    tainted: frozenset[int]
    merges: int


# Copies and strays


def mark_writers(values: Values, count_: int) -> Iterator[GroupValue]:
    """Give a digest of each object's writer and size to the group that it belongs to. The work of a task."""
    for one in all_seen(values):
        if (digest := writer_digest(one)) is not None:
            yield 1 + digest[0] % (count_ - 1), digest


def repeated_writers(values: Values, argument: None) -> frozenset[bytes]:
    """Return the digests that came more than once: each commit has a writer of its own. The work of a task."""
    del argument
    once, twice = set[bytes](), set[bytes]()
    for digest in values:
        (twice if digest in once else once).add(digest)
    return frozenset(twice)


def suspects(values: Values, repeated: frozenset[bytes]) -> list[SeenObject]:
    """Return the objects whose writer another one names, too, and those that lie elsewhere than they say."""
    return [one for one in all_seen(values) if writer_digest(one) in repeated or _is_misplaced(one)]


def writer_digest(one: SeenObject) -> bytes | None:
    """Return a digest of an object's writer and size; None where it names no writer."""
    writer = None if one.fields is None else one.fields.get("writer")
    return None if writer is None else blake2b(f"{writer}\t{one.row.size}".encode(), digest_size=16).digest()


def _is_misplaced(one: SeenObject) -> bool:
    metadata = decode_if_ours(one.fields)
    return metadata is not None and not is_in_place(one.row, metadata)


# What neighbours are needed


def needs(values: Values, group: GroupContext) -> dict[str, NeighbourQuery]:
    """Return what each shard of the group needs of the days around. The work of a task."""
    look = GroupView(values, group)
    return {shard: need(look.members(shard), group.markers.get(shard, ShardMarkers())) for shard in look.shards}


def nearest_later(values: Values, argument: tuple[int | None, Mapping[str, NeighbourQuery]]) -> list[ListedSegment]:
    """Return the rows behind a scope within the day that may be neighbours. The work of a task."""
    end, wanted = argument
    side = OutwardScan(wanted, 1)
    side.add(
        row
        for rows in values
        for row in rows
        if end is not None and row.parsed is not None and row.parsed.minute >= end
    )
    return side.rows()


# The judgement


def judge_group(values: Values, group: GroupContext) -> JudgedGroup:
    """Judge a group. The work of a task."""
    look = GroupView(values, group)
    shards = {shard: look.judge(shard) for shard in look.shards}
    unsettled, of_dropped = look.dropped()
    tainted, merges = look.tainted({})
    return JudgedGroup(
        shards,
        tuple(bounded(look.described.findings)),
        tuple(bounded([*check_lines(look.described.segments, look.facts), *of_dropped])),
        count(look.described, look.facts if look.has_lines else None),
        tuple(unsettled),
        tainted,
        merges,
    )


def tainted_by(values: Values, argument: tuple[GroupContext, Mapping[str, RestoredLines]]) -> frozenset[int]:
    """Return the tainted tasks where lines come back. The work of a task."""
    group, restored = argument
    return GroupView(values, group).tainted(restored)[0]


class Wanted(NamedTuple):
    """Which groups are wanted: those to merge, and those of which `tasks` held an object; None: all."""

    group: GroupContext
    restored: Mapping[str, RestoredLines]
    tasks: frozenset[int] | None


def wanted_groups(values: Values, argument: Wanted) -> list[MergeGroup]:
    """Return the groups that are wanted. The work of a task."""
    look = GroupView(values, argument.group)
    groups = look.groups(argument.restored)
    if argument.tasks is None:
        return groups
    return [group for group in groups if group.merge or look.tasks[group.objects[0].key] in argument.tasks]


def nearby_spans(values: Values, argument: tuple[GroupContext, Iterable[Original]]) -> dict[str, list[ArchivedSpan]]:
    """Return, by shard, what decides the fate of positions: the spans around each, and the first and last of all."""
    group, wanted = argument
    look = GroupView(values, group)
    by_shard: dict[str, list[Position]] = defaultdict(list)
    for shard, position in wanted:
        by_shard[shard].append(position)
    return {shard: SpanMap(look.spans(shard)).around(positions) for shard, positions in by_shard.items()}


def segments_of(values: Values, group: GroupContext) -> list[ArchivedSegment]:
    """Return a group's segments. The work of a task, for level stream."""
    return list(GroupView(values, group).described.segments)
