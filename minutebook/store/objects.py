"""The object store port: the five requests of the protocol and their answers.

Outcomes that the protocol expects are values. Errors that leave the outcome open raise `OutcomeUnknown`, for reads
too (retry them); permanent errors raise `StoreRefused`.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol


class PutOutcome(enum.Enum):
    """The two definite answers of a conditional PUT."""

    CREATED = "created"
    """HTTP 200: the object exists now, with these bytes and this metadata."""
    EXISTS = "exists"
    """HTTP 412: an object existed already. It may be ours, from a request whose answer got lost."""


class ObjectHead(NamedTuple):
    """The answer to a HEAD. Metadata names are lower case, without `x-amz-meta-`."""

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
    """The direct children of a folder: folders (each ends in `/`) and objects."""

    folders: tuple[str, ...]
    objects: tuple[ListedObject, ...]


class StoredObject(NamedTuple):
    """The answer to a GET."""

    body: bytes
    etag: str
    metadata: Mapping[str, str]


class ObjectStore(Protocol):
    """An object store. Keys include the prefix."""

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Send one PUT with `If-None-Match: *`."""

    def head(self, key: str) -> ObjectHead | None:
        """Send one HEAD; None if there is no such object."""

    def get(self, key: str) -> StoredObject | None:
        """Send one GET for a whole object; None if there is no such object."""

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List everything under `prefix` in the store's key order, page by page."""

    def list_level(self, folder: str) -> Listing:
        """List the direct children of `folder`, which is empty or ends in `/`."""
