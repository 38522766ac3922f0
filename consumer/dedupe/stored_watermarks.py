"""Watermarks as they travel with a segment: in its metadata, or beside it when they are too long for that."""

from typing import Final

from consumer.dedupe.watermarks import Watermarks
from minutebook.errors import ObjectVanished
from minutebook.format.keys import watermarks_key
from minutebook.format.metadata import SegmentMetadata
from minutebook.store.retrying import RetryingStore

WATERMARKS_LIMIT: Final = 1000
WATERMARKS_BESIDE: Final = "beside"
"""The value of the metadata field `watermarks` when they have an object of their own."""


def store_watermarks(store: RetryingStore, key: str, watermarks: Watermarks) -> str:
    """Return the metadata field of a segment to come; what does not fit into it is written to `key` first.

    The key carries the segment's writer, so it is ours alone: when it exists, an earlier attempt was applied.
    """
    text = watermarks.encode()
    if len(text) <= WATERMARKS_LIMIT:
        return text
    store.put_if_absent(key, text.encode())
    return WATERMARKS_BESIDE


def load_watermarks(store: RetryingStore, prefix: str, metadata: SegmentMetadata) -> Watermarks | None:
    """Return the watermarks that travel with a stored segment; None when it carries none.

    Raises:
        ObjectVanished: they were written beside the segment and are gone.
        FormatError: they do not parse.
    """
    if metadata.watermarks is None:
        return None
    if metadata.watermarks != WATERMARKS_BESIDE:
        return Watermarks.decode(metadata.watermarks)
    key = watermarks_key(prefix, metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    found = store.get(key)
    if found is None:
        raise ObjectVanished(f"{key} is gone", next_step="find out who deletes objects under the prefix")
    return Watermarks.decode(found.body)
