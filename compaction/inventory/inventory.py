"""The rows of a day's inventory: each object that LIST returns, with what its key says."""

from typing import NamedTuple

from minutebook.errors import FormatError
from minutebook.format.keys import SegmentKey, parse_segment_key
from minutebook.published.inventory import PublishedRow
from minutebook.store.objects import ListedObject


class ListedSegment(NamedTuple):
    """One object of the day. `parsed` is None when the key is not a segment's."""

    key: str
    size: int
    etag: str
    last_modified_ms: int
    parsed: SegmentKey | None


def make_row(prefix: str, listed: ListedObject) -> ListedSegment:
    """Return a row of LIST with its parsed key."""
    try:
        parsed = parse_segment_key(prefix, listed.key)
    except FormatError:
        parsed = None
    return ListedSegment(*listed, parsed)


def row_of_published(prefix: str, row: PublishedRow) -> ListedSegment:
    """Return a line of a published inventory as LIST would return it."""
    key, etag, size, last_modified_ms = row
    return make_row(prefix, ListedObject(key, size, etag, last_modified_ms))
