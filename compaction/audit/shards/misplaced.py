"""Objects that do not lie where their metadata says, in whatever shard: copies, and segments under another shard.

digest of each object's writer and size -> groups by digest -> those that come twice
objects with such a digest, and those out of place -> the driver compares them: few as they are
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

from compaction.audit.shards.objects import ObjectFacts, all_objects
from compaction.inventory import segments
from compaction.inventory.day_objects import DayObjects
from compaction.shard_groups.port import GroupValue, ShardGroups, Values, driver_values
from minutebook.format.metadata import SegmentMetadata
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage

T = TypeVar("T")


def ask_foreign(storage: RetryingStorage, inventory: DayObjects) -> list[ObjectFacts]:
    """Ask for the metadata of the objects whose key is not a segment's."""
    metadata = segments.head_rows(storage, inventory.foreign)
    return [ObjectFacts(row, metadata[row.key]) for row in inventory.foreign]


def find_misplaced(
    storage: RetryingStorage,
    inventory: DayObjects,
    objects: ShardGroups,
    foreign: Sequence[ObjectFacts],
    behind: int = 0,
) -> tuple[dict[str, str], dict[int, list[segments.ParsedObject]]]:
    """Return the copies, by key with their originals, and by group the segments that lie under other shards.

    The day's groups are those of `objects` that are numbered from `behind` on.
    """
    grouping = inventory.grouping
    numbers = [behind + number for number in grouping.numbers]
    digests = objects.repartition(mark_writers, dict.fromkeys(numbers, grouping.total), grouping.total)
    driver_values(digests)
    by_group = digests.collect(repeated_writers, dict.fromkeys(grouping.numbers))
    repeated = frozenset[bytes]().union(*by_group.values())
    repeated |= {digest for facts in foreign if (digest := _writer_digest(facts)) is not None}
    suspected = objects.collect(suspects, dict.fromkeys(numbers, repeated))
    inside = [facts for of_group in suspected.values() for facts in of_group]
    ordered = sorted([*inside, *foreign], key=lambda facts: facts.row.key.encode())
    parsed = segments.parse((facts.row, facts.fields) for facts in ordered)
    copies = segments.find_copied_objects(
        inventory.prefix, parsed, _elsewhere(storage, inventory, parsed), inventory.compression
    )
    under_others: dict[int, list[segments.ParsedObject]] = defaultdict(list)
    for row, metadata in parsed:
        if row.parsed is None or row.key in copies or not isinstance(metadata, SegmentMetadata):
            continue
        group = grouping.of(metadata.shard_id)
        if not segments.is_in_place(row, metadata) and group != grouping.of(row.parsed.shard_id):
            under_others[group].append((row, metadata))
    return copies, under_others


def mark_writers(values: Values, count: int) -> Iterator[GroupValue]:
    """Give a digest of each object's writer and size to the group that it belongs to. The work of a task."""
    for facts in all_objects(values):
        if (digest := _writer_digest(facts)) is not None:
            yield 1 + digest[0] % (count - 1), digest


def repeated_writers(values: Values, argument: None) -> frozenset[bytes]:
    """Return the digests that came more than once: each commit has a writer of its own. The work of a task."""
    del argument
    once, twice = set[bytes](), set[bytes]()
    for digest in values:
        (twice if digest in once else once).add(digest)
    return frozenset(twice)


def suspects(values: Values, repeated: frozenset[bytes]) -> list[ObjectFacts]:
    """Return objects whose writer another one names, too, and those that are out of place. The work of a task."""
    return [facts for facts in all_objects(values) if _writer_digest(facts) in repeated or _is_misplaced(facts)]


def by_group_of_key(inventory: DayObjects, by_key: Mapping[str, T]) -> dict[int, dict[str, T]]:
    """Return what belongs to keys by the group that each key belongs to."""
    groups: dict[int, dict[str, T]] = defaultdict(dict)
    for key, value in by_key.items():
        parsed = segments.make_row(inventory.prefix, ListedObject(key, 0, "", 0)).parsed
        groups[inventory.grouping.of("" if parsed is None else parsed.shard_id)][key] = value
    return groups


def _writer_digest(facts: ObjectFacts) -> bytes | None:
    """Return a digest of an object's writer and size; None where it names no writer."""
    writer = None if facts.fields is None else facts.fields.get("writer")
    return None if writer is None else blake2b(f"{writer}\t{facts.row.size}".encode(), digest_size=16).digest()


def _is_misplaced(facts: ObjectFacts) -> bool:
    metadata = segments.decode_if_ours(facts.fields)
    return metadata is not None and not segments.is_in_place(facts.row, metadata)


def _elsewhere(
    storage: RetryingStorage, inventory: DayObjects, parsed: Sequence[segments.ParsedObject]
) -> dict[str, SegmentMetadata]:
    """Ask for the originals of misplaced objects, where these lie outside of what was listed."""
    rows = [
        segments.make_row(inventory.prefix, ListedObject(key, 0, "", 0))
        for key in segments.misplaced(inventory.prefix, parsed)
    ]
    heads = segments.head_rows(storage, [row for row in rows if not inventory.holds(row)])
    return {
        key: metadata for key, fields in heads.items() if (metadata := segments.decode_if_ours(fields)) is not None
    }
