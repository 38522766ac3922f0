"""The metadata of a day's objects, asked for by HEAD where no line is read."""

from collections.abc import Mapping, Sequence

from compaction.inventory.inventory import Inventory, ListedSegment
from compaction.inventory.segments import (
    ClassifiedObjects,
    UserMetadata,
    classify,
    decode_if_ours,
    find_copied_objects,
    misplaced,
    parse,
)
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage


def head_rows(storage: RetryingStorage, rows: Sequence[ListedSegment]) -> dict[str, UserMetadata]:
    """Ask for the metadata of objects, many at once; None where an object is gone."""

    def fields(row: ListedSegment) -> UserMetadata:
        head = storage.head(row.key)
        return None if head is None else head.metadata

    return dict(zip((row.key for row in rows), in_parallel(fields, rows), strict=True))


def sort_out(
    storage: RetryingStorage, inventory: Inventory, metadata: Mapping[str, UserMetadata]
) -> ClassifiedObjects:
    """Sort out the day's objects; looks outside the day only for the originals of misplaced ones."""
    objects = parse((row, metadata[row.key]) for row in inventory.rows)
    rows = [ListedSegment(key, 0, "", 0, None) for key in misplaced(inventory.prefix, objects)]
    elsewhere = {
        key: parsed
        for key, fields in head_rows(storage, rows).items()
        if (parsed := decode_if_ours(fields)) is not None
    }
    copies = find_copied_objects(inventory.prefix, objects, elsewhere, inventory.compression)
    return classify(inventory.prefix, objects, copies, inventory.compression)
