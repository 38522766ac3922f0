"""Directories in memory for archives that live many times, and one thread for all requests of a process.

Nearly all of a life's time went into files and threads. In memory, a request is a look into a dictionary; sent by one
thread, requests come in an order that depends on nothing, and none comes after the one at which a process dies.
"""

import bisect
import hashlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

from compaction.shard_groups import opened
from compaction.tasks import task
from minutebook.retry import Backoff, backoff_within
from minutebook.store import parallel
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject
from minutebook.store.places import open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address, ObjectBody, ObjectChanged, Tail, Upload
from tests.fakes.clock import ManualClock

T = TypeVar("T")
_NUMBERS: Final = itertools.count(1)


class _Stored(NamedTuple):
    row: ListedObject
    body: bytes
    metadata: dict[str, str]


class MemoryDirectory:
    """A `Storage` whose objects have the ETags of files, and the times of a clock; tasks find it by its `root`."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.root = Path(f"/memory/{next(_NUMBERS)}")
        self._stored: dict[str, _Stored] = {}
        self._keys: list[str] = []
        self._uploads: dict[str, Upload] = {}
        _OPENED[str(self.root)] = self

    def copy(self, clock: ManualClock) -> "MemoryDirectory":
        """Return another one with the same objects."""
        other = MemoryDirectory(clock)
        other._stored, other._keys, other._uploads = dict(self._stored), list(self._keys), dict(self._uploads)
        return other

    def replace(self, key: str, body: bytes) -> None:
        """Put other bytes there behind everybody's back; the metadata stay."""
        self._put(key, body, self._stored[key].metadata)

    def stamp(self, key: str, time_ms: int) -> None:
        """Let an object be written at another time."""
        stored = self._stored[key]
        self._stored[key] = stored._replace(row=stored.row._replace(last_modified_ms=time_ms))

    def uri(self, key: str) -> str:
        """Return a path."""
        return f"{self.root}/{key}"

    def now_ms(self, prefix: str) -> int:  # noqa: ARG002 - one clock for all
        """Return the clock's time."""
        return self.clock.now_ms()

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:  # noqa: ARG002 - as of files
        """Create the object unless it exists."""
        if key in self._stored:
            return PutOutcome.EXISTS
        self._put(key, body, dict(metadata))
        return PutOutcome.CREATED

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:  # noqa: ARG002 - as of files
        """Replace the object if its ETag is `etag`; None creates it."""
        stored = self._stored.get(key)
        if (None if stored is None else stored.row.etag) != etag:
            return False
        self._put(key, body, {} if stored is None else stored.metadata)
        return True

    def head(self, key: str) -> ObjectHead | None:
        """Return size, tag and metadata."""
        stored = self._stored.get(key)
        if stored is None:
            return None
        row = stored.row
        return ObjectHead(key, row.size, row.etag, dict(stored.metadata), row.last_modified_ms)

    def get(self, key: str) -> StoredObject | None:
        """Return the whole object."""
        stored = self._stored.get(key)
        return None if stored is None else StoredObject(stored.body, stored.row.etag, dict(stored.metadata))

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List the objects whose key begins with `prefix`, in the order of keys."""
        return iter(self._rows(bisect.bisect_left(self._keys, prefix), prefix))

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """List the objects whose key begins with `prefix` and lies behind `start_after`."""
        at = max(bisect.bisect_left(self._keys, prefix), bisect.bisect_right(self._keys, start_after))
        return iter(self._rows(at, prefix))

    def list_level(self, folder: str) -> Listing:
        """List the direct children of a folder."""
        folders, beside = list[str](), list[ListedObject]()
        at = bisect.bisect_left(self._keys, folder)
        while at < len(self._keys) and (key := self._keys[at]).startswith(folder):
            name, separator, _ = key[len(folder) :].partition("/")
            if separator:
                folders.append(f"{folder}{name}/")
                at = bisect.bisect_left(self._keys, f"{folder}{name}0", at)  # 0 is the character behind the slash
            else:
                beside.append(self._stored[key].row)
                at += 1
        return Listing(tuple(folders), tuple(beside))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the objects."""
        for key in keys:
            if self._stored.pop(key, None) is not None:
                del self._keys[bisect.bisect_left(self._keys, key)]

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Read an object."""
        stored = self._stored.get(key)
        if stored is None or (etag is not None and stored.row.etag != etag):
            raise ObjectChanged(f"{key} is not the object that was listed")
        return ObjectBody(dict(stored.metadata), iter([stored.body]))

    def read_tail(self, key: str, count: int) -> Tail:
        """Read the end of an object."""
        stored = self._stored.get(key)
        if stored is None:
            raise FileNotFoundError(key)
        return Tail(stored.body[-count:], len(stored.body), stored.row.etag)

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> "MemorySink":  # noqa: ARG002 - as of files
        """Write an object; it is there when it is complete."""
        self._uploads[key] = Upload(key, key, self.clock.now_ms())
        return MemorySink(self, key)

    def finish(self, key: str, body: bytes | None) -> None:
        """Store what was written; None: leave it."""
        self._uploads.pop(key, None)
        if body is not None:
            self._put(key, body, {})

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Return what is being written, or was never finished."""
        return sorted(upload for key, upload in self._uploads.items() if key.startswith(prefix))

    def abort_upload(self, upload: Upload) -> None:
        """Forget what was not finished."""
        self._uploads.pop(upload.upload_id, None)

    def _put(self, key: str, body: bytes, metadata: dict[str, str]) -> None:
        if key not in self._stored:
            bisect.insort(self._keys, key)
        etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        self._stored[key] = _Stored(ListedObject(key, len(body), etag, self.clock.now_ms()), bytes(body), metadata)

    def _rows(self, at: int, prefix: str) -> list[ListedObject]:
        rows, keys, stored = list[ListedObject](), self._keys, self._stored
        while at < len(keys) and keys[at].startswith(prefix):
            rows.append(stored[keys[at]].row)
            at += 1
        return rows


_OPENED: Final = WeakValueDictionary[str, MemoryDirectory]()


class MemorySink(io.BytesIO):
    """An object that is there when it is complete."""

    def __init__(self, directory: MemoryDirectory, key: str) -> None:
        super().__init__()
        self._directory, self._key = directory, key
        self.size = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]  # any buffer, as files take
        """Append."""
        self.size += len(data)
        return super().write(data)

    def close(self) -> None:
        """Finish the object."""
        if not self.closed:
            self._directory.finish(self._key, self.getvalue())
            super().close()

    def abort(self) -> None:
        """Leave it."""
        self._directory.finish(self._key, None)
        super().close()


class _Done(Generic[T]):
    """A future whose work is done."""

    def __init__(self, value: T) -> None:
        self._value = value

    def result(self) -> T:
        """Return what the work has returned."""
        return self._value


class _InThisThread:
    """Has the methods of a pool of threads that the nightly job uses, and does at once what is submitted."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take what a pool takes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for nothing."""

    def submit(self, work: Callable[..., T], /, *arguments: object) -> _Done[T]:
        """Do it."""
        return _Done(work(*arguments))

    def map(self, work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """Do all of it."""
        return [work(item) for item in items]


def _open_retrying(address: Address, budget_seconds: float) -> RetryingStorage:
    in_memory = _OPENED.get(address.root)
    if in_memory is None:
        return open_retrying(address, budget_seconds)
    return RetryingStorage(in_memory, backoff_within(budget_seconds))


def read_address(address: str) -> bytes:
    """Return the object at an address of a directory that lives."""
    root, _, key = address.removeprefix("/memory/").partition("/")
    stored = _OPENED[f"/memory/{root}"].get(key)
    if stored is None:
        raise FileNotFoundError(address)
    return stored.body


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Let tasks find directories in memory, and let no request of the nightly job be sent by another thread."""
    places: list[tuple[Any, str, object]] = [
        (opened, "open_retrying", _open_retrying),
        (parallel, "ThreadPoolExecutor", _InThisThread),
        (task, "ThreadPoolExecutor", _InThisThread),
    ]
    before = [getattr(module, name) for module, name, _ in places]
    for module, name, other in places:
        setattr(module, name, other)
    try:
        yield
    finally:
        for (module, name, _), own in zip(places, before, strict=True):
            setattr(module, name, own)
