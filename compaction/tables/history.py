"""The snapshots that a table's current one was made from, and which of them may expire.

pyiceberg takes the parent away from a snapshot whose parent expires; other engines keep its number. Then the branch
goes on at the snapshot of the next lower sequence number, without those that a rollback has left, by the log. So what
a night recorded of a day is found beyond snapshots that expired.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from compaction.tables.commit import DAY_PROPERTY

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

BY_PROPERTY: Final = "minutebook.by"
FOLLOW: Final = "follow"
"""Who made a snapshot: those of `minutebook follow` expire here, and no others."""

ROWS_UNTIL: Final = "minutebook.rows-until"
"""A property of tables that are followed: when the last complete poll began."""


def branch_of(metadata: "TableMetadata", snapshot: "Snapshot | None" = None) -> "Iterator[Snapshot]":
    """Yield the current snapshot, or another one, and those that it was made from, the newest first."""
    seen = set[int]()
    at = snapshot or metadata.current_snapshot()
    while at is not None:
        seen.add(at.snapshot_id)
        yield at
        parent = None if at.parent_snapshot_id is None else metadata.snapshot_by_id(at.parent_snapshot_id)
        at = parent or _before(metadata, at, seen)


def _before(metadata: "TableMetadata", at: "Snapshot", seen: Collection[int]) -> "Snapshot | None":
    """Return the snapshot that one whose parent has expired was probably made from."""
    number, rolled_back = _number(at), _rolled_back(metadata)
    earlier = (
        each
        for each in metadata.snapshots
        if _number(each) < number and each.snapshot_id not in seen and each.snapshot_id not in rolled_back
    )
    return max(earlier, key=_number, default=None)


def _number(snapshot: "Snapshot") -> int:
    return snapshot.sequence_number or 0


def _rolled_back(metadata: "TableMetadata") -> set[int]:
    """Return the snapshots that were current before a rollback to an earlier one."""
    branch, aside = dict[int, None](), set[int]()
    for entry in metadata.snapshot_log:
        if entry.snapshot_id in branch:
            while next(reversed(branch)) != entry.snapshot_id:
                aside.add(branch.popitem()[0])
        else:
            branch[entry.snapshot_id] = None
    return aside - branch.keys()


def expirable(metadata: "TableMetadata", before_ms: int) -> list[int]:
    """Return follow's snapshots from before a time that are neither a day's newest nor named by a branch or tag.

    Nor a day's newest for a snapshot of another engine, whose rows are known by what was recorded before: else a
    table that is set back to it could not be committed to. Nor two between which a rollback has left others: without
    them these would count as what the table was made from, as the log of rollbacks goes with its snapshots.
    """
    kept = {ref.snapshot_id for ref in metadata.refs.values()}
    branch = list(branch_of(metadata))
    kept |= _newest_of_days(branch)
    aside = sorted({_number(each) for each in metadata.snapshots} - {_number(each) for each in branch})
    for child, parent in pairwise(branch):
        if bisect_right(aside, _number(parent)) < bisect_left(aside, _number(child)):
            kept |= {child.snapshot_id, parent.snapshot_id}
    place = {snapshot.snapshot_id: at for at, snapshot in enumerate(branch)}
    for snapshot in metadata.snapshots:
        if BY_PROPERTY in summary_of(snapshot) or DAY_PROPERTY in summary_of(snapshot):
            continue
        at = place.get(snapshot.snapshot_id)
        kept |= _newest_of_days(branch_of(metadata, snapshot) if at is None else branch[at:])
    return [
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.timestamp_ms < before_ms
        and snapshot.snapshot_id not in kept
        and summary_of(snapshot).get(BY_PROPERTY) == FOLLOW
    ]


def _newest_of_days(branch: "Iterable[Snapshot]") -> set[int]:
    """Return the newest snapshot of each day."""
    newest = dict[str, int]()
    for snapshot in branch:
        if day := summary_of(snapshot).get(DAY_PROPERTY, ""):
            newest.setdefault(day, snapshot.snapshot_id)
    return {*newest.values()}


def summary_of(snapshot: "Snapshot") -> Mapping[str, str]:
    """Return the properties of a snapshot's summary."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
