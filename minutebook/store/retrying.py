"""An object store whose requests are repeated while their outcome is unknown.

Every request of the port is safe to repeat: reads change nothing, a DELETE deletes once, and a PUT `If-None-Match: *`
admits one object, so that the second attempt answers EXISTS where the first one was applied after all. Whoever must
know whose object that is asks by `writer` or by comparing (`put_or_read`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from minutebook.errors import ObjectVanished
from minutebook.format.markers import JSON_TYPE
from minutebook.retry import Backoff, until_known
from minutebook.store.objects import ListedObject, Listing, ObjectHead, ObjectStore, PutOutcome, StoredObject
from minutebook.store.parallel import ReadMany, in_parallel
from minutebook.store.storage import Sink, Storage, Tail, Upload

T = TypeVar("T")


class RetryingStore:
    """Implements `ObjectStore` on another one; `new_backoff` gives the waits of each request.

    A factory that returns one shared backoff bounds several requests together, as a commit's PUT and HEAD.
    `read_many` is how callers of the store make many requests.

    Every method raises:
        StoreUnavailable: the backoff's budget is spent.
        StoreRefused: the store said no for good.
    """

    def __init__(
        self, store: ObjectStore, new_backoff: Callable[[], Backoff], read_many: ReadMany = in_parallel
    ) -> None:
        self.raw = store
        self.new_backoff = new_backoff
        self.read_many = read_many

    def within(self, new_backoff: Callable[[], Backoff]) -> "RetryingStore":
        """Return the same store with other waits."""
        return RetryingStore(self.raw, new_backoff, self.read_many)

    def put_if_absent(
        self, key: str, body: bytes, metadata: Mapping[str, str] | None = None, content_type: str = JSON_TYPE
    ) -> PutOutcome:
        """Send a PUT with `If-None-Match: *`; EXISTS may mean an earlier attempt of this very call."""
        fields = metadata or {}
        return self._ask("PUT", key, lambda: self.raw.put_if_absent(key, body, fields, content_type))

    def put_or_read(self, key: str, body: bytes) -> StoredObject | None:
        """Put a small JSON object unless there is one; returns the other one that is there, None where `body` is.

        Raises:
            ObjectVanished: it exists for PUT and not for GET.
        """
        if self.put_if_absent(key, body) is PutOutcome.CREATED:
            return None
        found = self.get(key)
        if found is None:
            raise ObjectVanished(
                f"{key} exists for PUT and not for GET: it was deleted under us, or hides behind a delete marker",
                next_step="find out who deletes objects (lifecycle rule, script); run minutebook doctor",
            )
        return None if found.body == body else found

    def head(self, key: str) -> ObjectHead | None:
        """Send a HEAD; None when there is no such object."""
        return self._ask("HEAD", key, lambda: self.raw.head(key))

    def get(self, key: str) -> StoredObject | None:
        """Send a GET for a whole object; None when there is no such object."""
        return self._ask("GET", key, lambda: self.raw.get(key))

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List everything under `prefix`. All of it is read before the first row is returned: a LIST starts anew."""
        return iter(self._ask("LIST", prefix, lambda: list(self.raw.list_objects(prefix))))

    def first_objects(self, prefix: str, count: int) -> list[ListedObject]:
        """Return the first rows of a LIST, at most `count`."""
        return self._ask("LIST", prefix, lambda: list(islice(self.raw.list_objects(prefix), count)))

    def list_level(self, folder: str) -> Listing:
        """List what lies directly below `folder`, which is empty or ends in `/`."""
        return self._ask("LIST", folder, lambda: self.raw.list_level(folder))

    def keys(self, prefix: str) -> list[str]:
        """Return the keys of everything under `prefix`."""
        return [row.key for row in self.list_objects(prefix)]

    def _ask(self, method: str, key: str, request: Callable[[], T]) -> T:
        return until_known(request, self.new_backoff(), f"{method} {key}")


class RetryingStorage(RetryingStore):
    """The same on a `Storage`, with the requests of publishing that are safe to repeat.

    `put_if_match` is not: after an unknown outcome the caller has to read and compare, so it takes the `storage`
    itself. Neither are streams that are read (`open_read`): whoever reads one begins again from its start.
    """

    def __init__(
        self, storage: Storage, new_backoff: Callable[[], Backoff], read_many: ReadMany = in_parallel
    ) -> None:
        super().__init__(storage, new_backoff, read_many)
        self.storage = storage

    def within(self, new_backoff: Callable[[], Backoff]) -> "RetryingStorage":
        """Return the same storage with other waits."""
        return RetryingStorage(self.storage, new_backoff, self.read_many)

    def uri(self, key: str) -> str:
        """Return the address of a key as other tools write it."""
        return self.storage.uri(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects; a key that is not there counts as deleted."""
        doomed = list(keys)
        if doomed:
            self._ask("DELETE", f"{doomed[0]} and {len(doomed) - 1} more", lambda: self.storage.delete(doomed))

    def open_write(self, key: str, content_type: str) -> Sink:
        """Write a new object of any size; each request of the sink has waits of its own."""
        return self.storage.open_write(key, content_type, self.new_backoff)

    @contextmanager
    def writing(self, key: str, content_type: str) -> Iterator[Sink]:
        """Write a new object within a block; where the block is left by an exception, nothing of it stays behind."""
        sink = self._ask("PUT", key, lambda: self.open_write(key, content_type))
        try:
            yield sink
            sink.close()
        except BaseException:  # whatever ends it
            sink.abort()
            raise

    def copy(self, source: str, key: str, etag: str) -> bool:
        """Copy an object to a key that is nobody else's: a second copy is the first one. False: it is another one."""
        return self._ask("COPY", source, lambda: self.storage.copy(source, key, etag))

    def read_tail(self, key: str, count: int) -> Tail:
        """Read the last `count` bytes of an object, or all of it when it is shorter."""
        return self._ask("GET", key, lambda: self.storage.read_tail(key, count))

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Return the files below `prefix` that were begun and neither finished nor given up."""
        return self._ask("LIST uploads", prefix, lambda: self.storage.open_uploads(prefix))

    def abort_upload(self, upload: Upload) -> None:
        """Give up a file in the making."""
        self._ask("ABORT", upload.key, lambda: self.storage.abort_upload(upload))
