"""The object store port: the five requests that the protocol needs, and what they may answer.

Outcomes that the protocol expects are values. Everything that leaves the outcome open is `OutcomeUnknown`, for
reads too (there it only means "ask again"); a refusal for good is `StoreRefused`.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol


class PutOutcome(enum.Enum):
    """The two answers of a conditional PUT that leave no doubt."""

    CREATED = "created"
    """HTTP 200: the object exists now, with these bytes and this metadata."""
    EXISTS = "exists"
    """HTTP 412: an object was there already. It may be ours, from a request whose answer got lost."""


class ObjectHead(NamedTuple):
    """What a HEAD answers. Metadata names are lower case, without `x-amz-meta-`."""

    key: str
    size: int
    etag: str
    metadata: Mapping[str, str]
    last_modified_ms: int


class ListedObject(NamedTuple):
    """One row of a LIST."""

    key: str
    size: int
    etag: str
    last_modified_ms: int


class Listing(NamedTuple):
    """What lies directly below a folder: the folders (each ends in `/`) and the objects."""

    folders: tuple[str, ...]
    objects: tuple[ListedObject, ...]


class StoredObject(NamedTuple):
    """What a GET answers."""

    body: bytes
    etag: str
    metadata: Mapping[str, str]


class ObjectStore(Protocol):
    """S3 as the protocol sees it. Keys are whole keys, prefix included.

    Every method raises `OutcomeUnknown` (try again with the same bytes) or `StoreRefused` (do not).
    """

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Send one PUT with `If-None-Match: *`."""
        ...

    def head(self, key: str) -> ObjectHead | None:
        """Send one HEAD; None when there is no such object."""
        ...

    def get(self, key: str) -> StoredObject | None:
        """Send one GET for a whole object; None when there is no such object."""
        ...

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List everything under `prefix` in the store's key order, page by page."""
        ...

    def list_level(self, folder: str) -> Listing:
        """List what lies directly below `folder`, which is empty or ends in `/`."""
        ...
