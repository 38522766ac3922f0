"""An object store that files are published to: the port of the protocol, and what publishing needs beside it.

`ObjectStore` is what the commit protocol needs. Publishing swaps a pointer (`put_if_match`), writes large files
piece by piece (`open_write`), reads bodies as they stream in (`open_read`), and removes what nobody points to.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from minutebook.aws.access import PLAIN, Access
from minutebook.errors import StoreError
from minutebook.retry import Backoff
from minutebook.store.objects import ObjectStore


class ObjectChanged(StoreError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """The object is no longer the one that was listed: somebody writes to or deletes from the day."""


class ObjectBody(NamedTuple):
    """An object that is being read: its user metadata, and its bytes in chunks."""

    metadata: Mapping[str, str]
    chunks: Iterator[bytes]


class Tail(NamedTuple):
    """The last bytes of an object, the size of all of it, and its ETag."""

    data: bytes
    size: int
    etag: str = ""


class Upload(NamedTuple):
    """A file in the making that was not finished: its key, which upload of it, and when it was begun (epoch ms)."""

    key: str
    upload_id: str
    started_ms: int


class Sink(Protocol):
    """A file that is being written. It exists for readers once `close` has returned, and not before."""

    @property
    def closed(self) -> bool:
        """Tell whether the file is finished or given up."""
        ...

    @property
    def size(self) -> int:
        """Return the bytes written so far."""
        ...

    def write(self, data: bytes) -> int:
        """Append."""
        ...

    def flush(self) -> None:
        """Do nothing: pieces are sent when they are large enough."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...

    def abort(self) -> None:
        """Give the file up; nothing of it stays visible."""
        ...


class Storage(ObjectStore, Protocol):
    """An object store with what publishing and expiring need beside the commit protocol.

    Every method raises `OutcomeUnknown` (ask again) or `StoreRefused` (do not).
    """

    def uri(self, key: str) -> str:
        """Return the address of a key as other tools write it."""
        ...

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Replace the object whose ETag is `etag` (None: there must be none); False when it is another one."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects; a key that is not there counts as deleted."""
        ...

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Read an object as it streams in.

        Raises:
            ObjectChanged: it is gone, or its ETag is not `etag`.
        """
        ...

    def read_tail(self, key: str, count: int) -> Tail:
        """Read the last `count` bytes of an object, or all of it when it is shorter."""
        ...

    def copy(self, source: str, key: str, etag: str) -> bool:
        """Copy an object of this store to a key that is nobody else's, without reading it here.

        False, and nothing is copied: it is gone, or its ETag is not `etag`.
        """
        ...

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> Sink:
        """Write a new object of any size, at a key that is nobody else's.

        The sink repeats each of its requests while its outcome is unknown, with waits of `new_backoff`: a file in
        the making cannot be read again from its start by whoever writes it.
        """
        ...

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Return the files below `prefix` that were begun with `open_write` and neither finished nor given up."""
        ...

    def abort_upload(self, upload: Upload) -> None:
        """Give up a file in the making; one that is not there any more counts as given up."""
        ...


class Address(NamedTuple):
    """Where a store is, as plain text: tasks take it along and open the store themselves.

    `bucket` None means a local directory, `root`, whose files are the objects.
    """

    bucket: str | None
    root: str = ""
    region: str = ""
    endpoint: str | None = None
    access: Access = PLAIN
