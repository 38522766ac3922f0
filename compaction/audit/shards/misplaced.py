"""What lies elsewhere than its metadata says, in whatever shard: copies of other objects, and strays.

A digest of each object's writer and size is dealt out. What is there twice comes to the driver with what lies
elsewhere than it says, few as they are, and is compared there.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from compaction.audit.shards.judging import mark_writers, repeated_writers, suspects, writer_digest
from compaction.audit.shards.objects import SeenObject
from compaction.inventory.day_objects import DayObjects
from compaction.inventory.heads import head_rows
from compaction.inventory.inventory import make_row
from compaction.inventory.segments import (
    ParsedObject,
    decode_if_ours,
    find_copied_objects,
    is_in_place,
    misplaced,
    parse,
)
from compaction.shard_groups.port import ShardGroups, driver_values
from minutebook.format.metadata import SegmentMetadata
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage


def ask_foreign(storage: RetryingStorage, objects: DayObjects) -> list[SeenObject]:
    """Ask for the metadata of the objects whose key is not a segment's."""
    metadata = head_rows(storage, objects.foreign)
    return [SeenObject(row, metadata[row.key]) for row in objects.foreign]


def find_misplaced(
    storage: RetryingStorage, objects: DayObjects, seen: ShardGroups, foreign: Sequence[SeenObject], behind: int = 0
) -> tuple[dict[str, str], dict[int, list[ParsedObject]]]:
    """Return the copies, by key with their originals, and by group the segments that lie under other shards.

    The day's groups are those of `seen` that are numbered from `behind` on.
    """
    grouping = objects.grouping
    numbers = [behind + number for number in grouping.numbers]
    marks = seen.repartition(mark_writers, dict.fromkeys(numbers, grouping.total), grouping.total)
    driver_values(marks)
    found = marks.collect(repeated_writers, dict.fromkeys(grouping.numbers))
    repeated = frozenset[bytes]().union(*found.values())
    repeated |= {digest for one in foreign if (digest := writer_digest(one)) is not None}
    suspected = seen.collect(suspects, dict.fromkeys(numbers, repeated))
    near = [one for some in suspected.values() for one in some]
    chosen = sorted([*near, *foreign], key=lambda one: one.row.key.encode())
    parsed = parse((one.row, one.fields) for one in chosen)
    copies = find_copied_objects(objects.prefix, parsed, _elsewhere(storage, objects, parsed), objects.compression)
    strays: dict[int, list[ParsedObject]] = defaultdict(list)
    for row, outcome in parsed:
        is_stray = isinstance(outcome, SegmentMetadata) and not is_in_place(row, outcome)
        if not is_stray or row.parsed is None or row.key in copies or not isinstance(outcome, SegmentMetadata):
            continue
        home = grouping.of(outcome.shard_id)
        if home != grouping.of(row.parsed.shard_id):
            strays[home].append((row, outcome))
    return copies, strays


def copies_by_group(objects: DayObjects, copies: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Return copies by the group that their keys belong to."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for key, original in copies.items():
        found[group_of_key(objects, key)][key] = original
    return found


def group_of_key(objects: DayObjects, key: str) -> int:
    """Return the group that a key belongs to."""
    parsed = make_row(objects.prefix, ListedObject(key, 0, "", 0)).parsed
    return objects.grouping.of("" if parsed is None else parsed.shard_id)


def _elsewhere(
    storage: RetryingStorage, objects: DayObjects, parsed: Sequence[ParsedObject]
) -> dict[str, SegmentMetadata]:
    """Ask for the originals of misplaced objects, where these lie outside of what was listed."""
    rows = [make_row(objects.prefix, ListedObject(key, 0, "", 0)) for key in misplaced(objects.prefix, parsed)]
    found = head_rows(storage, [row for row in rows if not objects.holds(row)])
    return {key: known for key, fields in found.items() if (known := decode_if_ours(fields)) is not None}
