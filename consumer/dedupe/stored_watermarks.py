"""Watermarks stored with a segment: in its metadata, or in an object beside it if they are too long."""

from typing import Final

from consumer.dedupe.watermarks import Watermarks
from minutebook.errors import ObjectVanished
from minutebook.format.keys import watermarks_key
from minutebook.format.metadata import SegmentMetadata
from minutebook.store.retrying import RetryingStore

WATERMARKS_LIMIT: Final = 1000
WATERMARKS_BESIDE: Final = "beside"
"""The metadata field `watermarks` if they have an object of their own."""


def store_watermarks(store: RetryingStore, key: str, watermarks: Watermarks) -> str:
    """Return the metadata field for a segment; what does not fit is written to `key` first.

    The key contains the segment's writer, so only an earlier attempt of ours can have written it.
    """
    text = watermarks.encode()
    if len(text) <= WATERMARKS_LIMIT:
        return text
    store.put_if_absent(key, text.encode())
    return WATERMARKS_BESIDE


def load_watermarks(store: RetryingStore, prefix: str, metadata: SegmentMetadata) -> Watermarks | None:
    """Return the watermarks stored with a segment; None if it has none.

    Raises:
        ObjectVanished: they were written beside the segment and are gone.
        FormatError: they do not parse.
    """
    if metadata.watermarks is None:
        return None
    if metadata.watermarks != WATERMARKS_BESIDE:
        return Watermarks.decode(metadata.watermarks)
    key = watermarks_key(prefix, metadata.shard_id, metadata.minute, metadata.first, metadata.writer)
    stored = store.get(key)
    if stored is None:
        raise ObjectVanished(f"{key} is gone", next_step="find out who deletes objects under the prefix")
    return Watermarks.decode(stored.body)
