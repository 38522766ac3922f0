"""An object store whose requests are retried while their outcome is unknown.

Every request of the port is safe to repeat: reads and DELETE are idempotent, and after a PUT `If-None-Match: *` whose
answer got lost the second attempt answers EXISTS. Callers that need to know whose object exists compare `writer` or
the bytes (`put_or_read`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

import msgspec

from minutebook.errors import FormatError, ObjectVanished
from minutebook.format.markers import JSON_TYPE
from minutebook.retry import Backoff, until_known
from minutebook.store.objects import ListedObject, Listing, ObjectHead, ObjectStore, PutOutcome, StoredObject
from minutebook.store.parallel import ReadMany, in_parallel
from minutebook.store.storage import Sink, Storage, Tail, Upload

T = TypeVar("T")


class RetryingStore:
    """An `ObjectStore` with retries; `new_backoff` gives the waits of each request.

    A factory that returns one shared backoff bounds several requests together, as a commit's PUT and HEAD. Callers
    make many requests through `read_many`. Every method raises StoreUnavailable once the backoff's budget is spent,
    or StoreRefused.
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
        """Put a small JSON object unless the key exists; return the stored object if its bytes differ, else None.

        An answer of 404, or with a body that is no JSON, is believed only if a second GET agrees (see `read`).
        Raises ObjectVanished if the object exists for PUT and not for GET.
        """
        if self.put_if_absent(key, body) is PutOutcome.CREATED:
            return None
        for _ in range(2):
            stored = self.get(key)
            if stored is not None and _is_json(stored.body):
                break
        if stored is None:
            raise ObjectVanished(
                f"{key} exists for PUT and not for GET: it was deleted under us, or hides behind a delete marker",
                next_step="find out who deletes objects (lifecycle rule, script); run minutebook doctor",
            )
        return None if stored.body == body else stored

    def head(self, key: str) -> ObjectHead | None:
        """Send a HEAD; None if there is no such object."""
        return self._ask("HEAD", key, lambda: self.raw.head(key))

    def get(self, key: str) -> StoredObject | None:
        """Send a GET for a whole object; None if there is no such object."""
        return self._ask("GET", key, lambda: self.raw.get(key))

    def read(self, key: str, decode: Callable[[StoredObject], T], *, must_exist: bool = False) -> T | None:
        """Return a small document as `decode` makes it; None if there is no such object.

        A proxy or a store may answer once with a part of the body, or with 404. So a document that does not parse
        (`decode` raises FormatError), or that must exist because it was listed or another object names it, is read
        once more before that is believed.
        """
        stored = self.get(key)
        if stored is None and must_exist:
            stored = self.get(key)
        if stored is None:
            return None
        try:
            return decode(stored)
        except FormatError:
            again = self.get(key)
            if again is None:
                raise
            return decode(again)

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List everything under `prefix`, all pages before the first row is returned: a retry starts over."""
        return iter(self._ask("LIST", prefix, lambda: list(self.raw.list_objects(prefix))))

    def first_objects(self, prefix: str, count: int) -> list[ListedObject]:
        """Return the first rows of a LIST, at most `count`."""
        return self._ask("LIST", prefix, lambda: list(islice(self.raw.list_objects(prefix), count)))

    def list_level(self, folder: str) -> Listing:
        """List the direct children of `folder`, which is empty or ends in `/`."""
        return self._ask("LIST", folder, lambda: self.raw.list_level(folder))

    def keys(self, prefix: str) -> list[str]:
        """Return the keys of everything under `prefix`."""
        return [row.key for row in self.list_objects(prefix)]

    def _ask(self, method: str, key: str, request: Callable[[], T]) -> T:
        return until_known(request, self.new_backoff(), f"{method} {key}")


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


class RetryingStorage(RetryingStore):
    """A `Storage` with retries for the requests that are safe to repeat.

    `put_if_match` is not, because after an unknown outcome the caller has to read and compare; nor is `open_read`,
    because a reader has to start over. Callers use `storage` for both.
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
        """Return the address of a key in the form of other tools."""
        return self.storage.uri(key)

    def now_ms(self, prefix: str) -> int:
        """Return the service's time in epoch ms, whatever this machine's clock says."""
        return self._ask("LIST", prefix, lambda: self.storage.now_ms(prefix))

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """List what lies behind a key, all pages before the first row is returned, as `list_objects`."""
        return iter(self._ask("LIST", prefix, lambda: list(self.storage.list_after(prefix, start_after))))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects; a missing key counts as deleted."""
        batch = list(keys)
        if batch:
            self._ask("DELETE", f"{batch[0]} and {len(batch) - 1} more", lambda: self.storage.delete(batch))

    def open_write(self, key: str, content_type: str) -> Sink:
        """Write a new object of any size; each request of the sink gets its own backoff."""
        return self.storage.open_write(key, content_type, self.new_backoff)

    @contextmanager
    def writing(self, key: str, content_type: str) -> Iterator[Sink]:
        """Write a new object within a block; an exception aborts it."""
        sink = self._ask("PUT", key, lambda: self.open_write(key, content_type))
        try:
            yield sink
            sink.close()
        except BaseException:
            sink.abort()
            raise

    def read_tail(self, key: str, count: int) -> Tail:
        """Read the last `count` bytes of an object, or all of a shorter one."""
        return self._ask("GET", key, lambda: self.storage.read_tail(key, count))

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Return the unfinished files below `prefix`."""
        return self._ask("LIST uploads", prefix, lambda: self.storage.open_uploads(prefix))

    def abort_upload(self, upload: Upload) -> None:
        """Delete an unfinished file."""
        self._ask("ABORT", upload.key, lambda: self.storage.abort_upload(upload))
