"""The storage port: an `ObjectStore` with the requests of publishing and expiring."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from minutebook.aws.access import PLAIN, Access
from minutebook.errors import StoreError
from minutebook.retry import Backoff
from minutebook.store.objects import ListedObject, ObjectStore


class ObjectChanged(StoreError):  # noqa: N818 - the name says what happened, as in minutebook.errors
    """The object is gone or is not the one that was listed: another process changes the day."""


class ObjectBody(NamedTuple):
    """An object being read: its user metadata, and its bytes in chunks."""

    metadata: Mapping[str, str]
    chunks: Iterator[bytes]


class Tail(NamedTuple):
    """The last bytes of an object, its total size, and its ETag."""

    data: bytes
    size: int
    etag: str = ""


class Upload(NamedTuple):
    """An unfinished file: its key, the upload's id, and its start in epoch ms."""

    key: str
    upload_id: str
    started_ms: int


class Sink(Protocol):
    """A file being written. Readers see it once `close` has returned, not before."""

    @property
    def closed(self) -> bool:
        """Return whether the file is finished or aborted."""

    @property
    def size(self) -> int:
        """Return the bytes written so far."""

    def write(self, data: bytes) -> int:
        """Append."""

    def flush(self) -> None:
        """Do nothing: parts are sent when they are large enough."""

    def close(self) -> None:
        """Finish the file."""

    def abort(self) -> None:
        """Abort the file; nothing of it becomes visible."""


class Storage(ObjectStore, Protocol):
    """An object store for publishing and expiring."""

    def uri(self, key: str) -> str:
        """Return the address of a key in the form of other tools."""

    def now_ms(self, prefix: str) -> int:
        """Return the service's time in epoch ms, asked for by a request below `prefix`."""

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Replace the object if its ETag is `etag`; None creates it. False if the stored object is another one."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects; a missing key counts as deleted."""

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """List what is under `prefix` and lies behind the key `start_after`, in key order, page by page."""

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Read an object as it streams in; raises ObjectChanged if it is gone or its ETag is not `etag`."""

    def read_tail(self, key: str, count: int) -> Tail:
        """Read the last `count` bytes of an object, or all of a shorter one."""

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> Sink:
        """Write a new object of any size, at a key that only the caller writes.

        The sink retries each of its requests itself, with waits of `new_backoff`, because the caller cannot produce
        the bytes again.
        """

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Return the unfinished files of `open_write` below `prefix`."""

    def abort_upload(self, upload: Upload) -> None:
        """Delete an unfinished file; a missing one counts as deleted."""


class Address(NamedTuple):
    """The address of a store as plain values: tasks receive it and open the store themselves.

    Without a `bucket`, the store is the local directory `root`, whose files are the objects.
    """

    bucket: str | None
    root: str = ""
    region: str = ""
    endpoint: str | None = None
    access: Access = PLAIN
