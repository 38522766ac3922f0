"""Directories whose files are stamped by a clock that a test moves, and a host's view of them that is interrupted."""

import bisect
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from minutebook.retry import Backoff
from minutebook.store.directory_storage import DirectoryStorage, FileSink
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject
from minutebook.store.storage import Storage
from tests.fakes.clock import ManualClock
from tests.fakes.failing_storage import PassingStorage

T = TypeVar("T")


class StampedDirectory(DirectoryStorage):
    """A directory whose service has the clock's time."""

    clock: ManualClock

    def __init__(self, root: Path, clock: ManualClock) -> None:
        super().__init__(root)
        self.clock = clock

    def stamp(self, key: str, time_ms: int | None = None) -> None:
        """Let a file be written now, or at another time."""
        when = self.clock.now_ms() if time_ms is None else time_ms
        os.utime(self.root / key, ns=(when * 1_000_000,) * 2)

    def now_ms(self, prefix: str) -> int:  # noqa: ARG002 - one clock for all
        """Return the clock's time."""
        return self.clock.now_ms()

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:
        """Create the file unless it exists."""
        outcome = super().put_if_absent(key, body, metadata, content_type)
        if outcome is PutOutcome.CREATED:
            self.stamp(key)
        return outcome

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:
        """Replace the file if its ETag is `etag`."""
        is_put = super().put_if_match(key, body, etag, content_type)
        if is_put:
            self.stamp(key)
        return is_put

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> FileSink:  # noqa: ARG002 - files have no type, and nothing to wait for
        """Write a file; it is stamped when it is complete."""
        return _StampedSink(self, key)

    def replace(self, key: str, body: bytes) -> None:
        """Put other bytes there behind everybody's back; the metadata stay."""
        (self.root / key).write_bytes(body)
        self.stamp(key)


class IndexedDirectory(StampedDirectory):
    """A directory that nobody else writes to: what it holds is known, and is not looked up in the file system."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        super().__init__(root, clock)
        rows = list(super().list_objects("")) if root.is_dir() else []
        self._rows = {row.key: row for row in rows}
        self._keys = sorted(self._rows)

    def stamp(self, key: str, time_ms: int | None = None) -> None:
        """Let a file be written now, or at another time."""
        super().stamp(key, time_ms)
        if key not in self._rows:
            bisect.insort(self._keys, key)
        self._rows[key] = self._row(self.root / key, key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the files."""
        gone = list(keys)
        super().delete(gone)
        for key in gone:
            if self._rows.pop(key, None) is not None:
                self._keys.remove(key)

    def forget(self, folder: str) -> list[str]:
        """Know no files of a folder any more, though they are there; return their keys."""
        begin, end = (bisect.bisect_left(self._keys, key) for key in (folder, f"{folder}\uffff"))
        gone, self._keys[begin:end] = self._keys[begin:end], []
        for key in gone:
            del self._rows[key]
        return gone

    def head(self, key: str) -> ObjectHead | None:
        """Return size, tag and metadata."""
        return super().head(key) if key in self._rows else None

    def get(self, key: str) -> StoredObject | None:
        """Return the whole file."""
        return super().get(key) if key in self._rows else None

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List the files whose key begins with `prefix`."""
        return self._from(bisect.bisect_left(self._keys, prefix), prefix)

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """List those behind a key, as S3 does: at no cost for what lies before it."""
        return self._from(bisect.bisect_right(self._keys, max(prefix, start_after)), prefix)

    def _from(self, at: int, prefix: str) -> Iterator[ListedObject]:
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            yield self._rows[self._keys[at]]
            at += 1

    def list_level(self, folder: str) -> Listing:
        """List the direct children of a folder."""
        rows = list(self.list_objects(folder))
        folders = {folder + row.key.removeprefix(folder).partition("/")[0] + "/" for row in rows}
        beside = tuple(row for row in rows if "/" not in row.key.removeprefix(folder))
        names = {f"{row.key}/" for row in beside}
        return Listing(tuple(sorted(folders - names)), beside)


class _StampedSink(FileSink):
    def __init__(self, directory: StampedDirectory, key: str) -> None:
        super().__init__(directory.root / key)
        self._directory, self._key = directory, key

    def close(self) -> None:
        """Finish the file."""
        is_first = not self.closed
        super().close()
        if is_first:
            self._directory.stamp(self._key)


class Interruptions:
    """What happens between the requests of one host, by the number of the request; `after` counts behind it.

    The requests of a host come one after the other, so that what happens at a request does not depend on threads.
    """

    def __init__(self, acts: Mapping[int, Callable[[], object]] | None = None, *, after: bool = False) -> None:
        self.requests = 0
        self._acts = dict(acts or {})
        self._after = after
        self._lock = threading.RLock()

    def send(self, request: Callable[[], T]) -> T:
        """Make a request, or die at it."""
        with self._lock:
            self.requests += 1
            act = self._acts.pop(self.requests, None)
            if act is not None and not self._after:
                act()
            answer = request()
            if act is not None and self._after:
                act()
            return answer


class InterruptedStorage(PassingStorage):
    """Another storage, by requests that `interruptions` may come between."""

    def __init__(self, storage: Storage, interruptions: Interruptions) -> None:
        super().__init__(storage)
        self._interruptions = interruptions

    def _send(self, request: Callable[[], T]) -> T:
        return self._interruptions.send(request)
