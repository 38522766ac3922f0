"""The metadata of objects, read by HEAD: for passes that read no lines."""

from collections.abc import Sequence

from compaction.inventory.inventory import ListedSegment
from compaction.inventory.segments import UserMetadata
from minutebook.store.parallel import in_parallel
from minutebook.store.retrying import RetryingStorage


def head_rows(storage: RetryingStorage, rows: Sequence[ListedSegment]) -> dict[str, UserMetadata]:
    """Return the metadata of objects by key, read many at once; None where an object is gone."""
    heads = in_parallel(lambda row: storage.head(row.key), rows)
    return {row.key: None if head is None else head.metadata for row, head in zip(rows, heads, strict=True)}
