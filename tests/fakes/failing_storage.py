"""A storage that fails on both sides of a request: before it is applied, or after, with the answer lost."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from minutebook.errors import OutcomeUnknown
from minutebook.retry import Backoff
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject
from minutebook.store.storage import ObjectBody, Sink, Storage, Tail, Upload
from tests.searching import IS_DEEP

T = TypeVar("T")


class Crash(BaseException):
    """The process is gone: nothing of ours may catch this."""


def crash_points() -> Iterator[int]:
    """Return the steps around which a test crashes, once in front of them and once behind: each moment comes once.

    A crash behind a step leaves what one in front of the next leaves: only a deep search takes the time for both.
    """
    return itertools.count(1, 1 if IS_DEEP else 2)


class PassingStorage:
    """Another storage, each request of which goes through `_send`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def uri(self, key: str) -> str:
        """Pass on."""
        return self._storage.uri(key)

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Pass on."""
        return self._send(lambda: self._storage.put_if_absent(key, body, metadata, content_type))

    def now_ms(self, prefix: str) -> int:
        """Pass on."""
        return self._send(lambda: self._storage.now_ms(prefix))

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Pass on."""
        return self._send(lambda: self._storage.put_if_match(key, body, etag, content_type))

    def head(self, key: str) -> ObjectHead | None:
        """Pass on."""
        return self._send(lambda: self._storage.head(key))

    def get(self, key: str) -> StoredObject | None:
        """Pass on."""
        return self._send(lambda: self._storage.get(key))

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """Pass on."""
        yield from self._send(lambda: list(self._storage.list_objects(prefix)))

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """Pass on."""
        yield from self._send(lambda: list(self._storage.list_after(prefix, start_after)))

    def list_level(self, folder: str) -> Listing:
        """Pass on."""
        return self._send(lambda: self._storage.list_level(folder))

    def delete(self, keys: Iterable[str]) -> None:
        """Pass on."""
        self._send(lambda: self._storage.delete(keys))

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Pass on."""
        return self._send(lambda: self._storage.open_read(key, etag))

    def read_tail(self, key: str, count: int) -> Tail:
        """Pass on."""
        return self._send(lambda: self._storage.read_tail(key, count))

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> Sink:
        """Pass on."""
        return self._send(lambda: self._storage.open_write(key, content_type, new_backoff))

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Pass on."""
        return self._send(lambda: self._storage.open_uploads(prefix))

    def abort_upload(self, upload: Upload) -> None:
        """Pass on."""
        self._send(lambda: self._storage.abort_upload(upload))

    def _send(self, request: Callable[[], T]) -> T:
        raise NotImplementedError


class FailingStorage(PassingStorage):
    """Another storage, with one fault at the request of a given number (from 1).

    `applied` tells on which side of the request it happens. `crash` ends the process; otherwise the outcome is
    unknown to the client, once.
    """

    def __init__(self, storage: Storage, at: int, *, applied: bool, crash: bool = True) -> None:
        super().__init__(storage)
        self._at = at
        self._applied = applied
        self._error: BaseException = Crash(f"at request {at}") if crash else OutcomeUnknown(f"request {at}: time-out")
        self.requests = 0

    @property
    def reached(self) -> bool:
        """Tell whether the request of the fault was sent."""
        return self.requests >= self._at

    def _send(self, request: Callable[[], T]) -> T:
        self.requests += 1
        if self.requests != self._at:
            return request()
        if self._applied:
            request()
        raise self._error
