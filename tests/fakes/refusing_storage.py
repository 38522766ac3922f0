"""A storage that does not give some objects, as S3 of one in Glacier, or under a key that is disabled."""

from collections.abc import Callable

from compaction.job.context import JobContext
from minutebook.errors import StoreError
from minutebook.store.objects import ObjectHead, StoredObject
from minutebook.store.places import open_storage
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, ObjectBody, Storage
from tests.fakes.failing_storage import PassingStorage, T

Refuse = Callable[[str], StoreError | None]
"""Returns the error of a request for a key; None: it is answered. LISTs are always."""


class RefusingStorage(PassingStorage):
    """Another storage, but for some keys."""

    def __init__(self, storage: Storage, refuse: Refuse) -> None:
        super().__init__(storage)
        self._refuse = refuse

    def head(self, key: str) -> ObjectHead | None:
        """Pass on or refuse."""
        self._check(key)
        return super().head(key)

    def get(self, key: str) -> StoredObject | None:
        """Pass on or refuse."""
        self._check(key)
        return super().get(key)

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Pass on or refuse."""
        self._check(key)
        return super().open_read(key, etag)

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Pass on or refuse."""
        self._check(key)
        return super().put_if_match(key, body, etag, content_type)

    def _check(self, key: str) -> None:
        if (error := self._refuse(key)) is not None:
            raise error

    def _send(self, request: Callable[[], T]) -> T:
        return request()


def refusing(context: JobContext, refuse: Refuse) -> JobContext:
    """Return the context of a run that is refused objects of archive and output; tasks open these themselves."""

    class Refusing(JobContext):
        def open(self, address: Address) -> RetryingStorage:
            return RetryingStorage(RefusingStorage(open_storage(address), refuse), self.archive.new_backoff)

    archive = context.archive
    refused = RetryingStorage(RefusingStorage(archive.storage, refuse), archive.new_backoff)
    return Refusing(*context._replace(archive=refused))
