"""A local directory as a `Storage`: for output on a laptop, and for archives that were copied down.

User metadata lies beside a file in `<name>.metadata.json`. A lock file makes the conditional writes atomic between
processes of this program; other tools do not respect it.

Files are listed by one thread at a time, and a small one is read with one request: they are in the machine's memory,
and threads that take turns at Python's lock would need twice the CPU.
"""

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from minutebook.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from minutebook.retry import Backoff
from minutebook.store.objects import ListedObject, Listing, ObjectHead, PutOutcome, StoredObject
from minutebook.store.storage import ObjectBody, ObjectChanged, Tail, Upload

METADATA_SUFFIX: Final = ".metadata.json"
_LOCK: Final = ".minutebook.lock"
_WRITING: Final = ".writing"
_CHUNK_BYTES: Final = 1 << 20
_SMALL_BYTES: Final = 64 << 10
"""Pointers, reports and tables up to this size may be replaced within one tick of the clock; segments never are."""


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_NO_FILE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class _File(NamedTuple):
    """A file's state, and its bytes if it is small or was asked for whole."""

    stat: os.stat_result
    body: bytes

    @property
    def is_small(self) -> bool:
        """Whether its bytes are there in any case."""
        return self.stat.st_size <= _SMALL_BYTES

    @property
    def etag(self) -> str:
        """A tag that changes with the file: the MD5 of a small one, size and modification time of others."""
        if self.is_small:
            return f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'
        return f'"{self.stat.st_size}-{self.stat.st_mtime_ns}"'


class DirectoryStorage:
    """The files below `root`; keys are relative paths with `/`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder = str(root)
        self._turn = threading.Lock()

    def uri(self, key: str) -> str:
        """Return the file's absolute path; the trailing slash of a folder's key is kept."""
        return str((self.root / key).absolute()) + ("/" if key.endswith("/") else "")

    def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str], content_type: str) -> PutOutcome:  # noqa: ARG002 - files have no type
        """Create the file unless it exists."""
        with self._lock(), _writing(self.uri(key)):
            path = self._path(key)
            if path.exists():
                return PutOutcome.EXISTS
            if metadata:
                _write(path.with_name(path.name + METADATA_SUFFIX), json.dumps(dict(metadata)).encode())
            _write(path, body)
        return PutOutcome.CREATED

    def now_ms(self, prefix: str) -> int:  # noqa: ARG002 - one clock for all
        """Return the time of the machine's clock, which the file system stamps files with."""
        return time.time_ns() // 1_000_000

    def put_if_match(self, key: str, body: bytes, etag: str | None, content_type: str) -> bool:  # noqa: ARG002 - files have no type
        """Replace the file if its ETag is `etag`; None creates it."""
        with self._lock(), _writing(self.uri(key)):
            path = self._path(key)
            present = _etag(path, path.stat()) if path.exists() else None
            if present != etag:
                return False
            _write(path, body)
        return True

    def head(self, key: str) -> ObjectHead | None:
        """Return size, tag and metadata."""
        path = self._path(key)
        if not path.is_file():
            return None
        stat = path.stat()
        return ObjectHead(key, stat.st_size, _etag(path, stat), _metadata(path), stat.st_mtime_ns // 1_000_000)

    def get(self, key: str) -> StoredObject | None:
        """Return the whole file."""
        path = self._text_path(key)
        try:
            file = _opened(path, whole=True)
            return StoredObject(file.body, file.etag, _metadata(path))
        except _NO_FILE:
            return None
        except OSError as exc:
            raise StoreRefused(f"{key}: {exc}", next_step="look at the permissions of the directory") from exc

    def list_objects(self, prefix: str) -> Iterator[ListedObject]:
        """List the files whose key begins with `prefix`, in the order of keys."""
        name = prefix.rpartition("/")[0]
        folder = self._path(name)
        with self._turn, _listing(prefix):
            rows = list(self._walk(str(folder), f"{name}/" if name else "", prefix)) if folder.is_dir() else []
        yield from sorted(rows, key=lambda row: row.key.encode())

    def list_after(self, prefix: str, start_after: str) -> Iterator[ListedObject]:
        """List the files whose key begins with `prefix` and lies behind `start_after`."""
        return (row for row in self.list_objects(prefix) if row.key.encode() > start_after.encode())

    def list_level(self, folder: str) -> Listing:
        """List the direct children of a folder."""
        path = self._path(folder)
        with _listing(folder):
            entries = sorted(path.iterdir()) if path.is_dir() else []
            folders = tuple(f"{folder}{entry.name}/" for entry in entries if entry.is_dir())
            return Listing(
                folders, tuple(self._row(entry, f"{folder}{entry.name}") for entry in entries if _is_object(entry))
            )

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the files, and the folders that become empty."""
        for key in keys:
            with _writing(self.uri(key)):
                path = self._path(key)
                path.unlink(missing_ok=True)
                path.with_name(path.name + METADATA_SUFFIX).unlink(missing_ok=True)
                folder = path.parent
                with contextlib.suppress(OSError):  # somebody writes into it, or has deleted it
                    while folder != self.root and not any(folder.iterdir()):
                        folder.rmdir()
                        folder = folder.parent

    def open_read(self, key: str, etag: str | None) -> ObjectBody:
        """Read a file in chunks."""
        path = self._text_path(key)
        file = None
        with contextlib.suppress(*_NO_FILE):
            file = _opened(path)
        if file is None or (etag is not None and etag != file.etag):
            raise ObjectChanged(f"{key} is not the file that was listed")
        return ObjectBody(_metadata(path), iter([file.body] if file.body else []) if file.is_small else _chunks(path))

    def read_tail(self, key: str, count: int) -> Tail:
        """Read the end of a file."""
        path = self._path(key)
        stat = path.stat()
        with path.open("rb") as handle:
            handle.seek(max(0, stat.st_size - count))
            return Tail(handle.read(), stat.st_size, _etag(path, stat))

    def open_write(self, key: str, content_type: str, new_backoff: Callable[[], Backoff]) -> "FileSink":  # noqa: ARG002 - files have no type, and nothing to wait for
        """Write a file under a temporary name; `close` renames it."""
        return FileSink(self._path(key))

    def open_uploads(self, prefix: str) -> list[Upload]:
        """Return the files that still have a temporary name."""
        with _listing(prefix):
            paths = sorted(self._path(prefix.rpartition("/")[0]).rglob(f"*{_WRITING}"))
            names = {path: path.relative_to(self.root).as_posix() for path in paths if path.is_file()}
            return [
                Upload(name.removesuffix(_WRITING), name, path.stat().st_mtime_ns // 1_000_000)
                for path, name in names.items()
                if name.startswith(prefix)
            ]

    def abort_upload(self, upload: Upload) -> None:
        """Delete an unfinished file."""
        self.delete([upload.upload_id])

    def _walk(self, folder: str, key: str, prefix: str) -> Iterator[ListedObject]:
        """Yield the files below a folder, whose keys begin with `key`, in no order; those with a prefix alone."""
        with os.scandir(folder) as entries:
            for entry in entries:
                name = key + entry.name
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(entry.path, f"{name}/", prefix)
                elif name.startswith(prefix) and _is_name(entry.name) and entry.is_file():
                    yield self._row(entry, name)

    def _row(self, entry: "os.DirEntry[str] | Path", key: str) -> ListedObject:
        stat = entry.stat()
        return ListedObject(key, stat.st_size, _etag(os.fspath(entry), stat), stat.st_mtime_ns // 1_000_000)

    def _path(self, key: str) -> Path:
        return Path(self._text_path(key))

    def _text_path(self, key: str) -> str:
        """Return the path of a key, which costs as text a tenth of a `Path`."""
        if key.startswith("/") or ".." in key.split("/"):
            raise StoreRefused(
                f"{key!r} leads out of {self.root}",
                next_step="find out who wrote this name: keys are relative to the store's root",
            )
        return f"{self._folder}/{key}"

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with _writing(str(self.root)):
            self.root.mkdir(parents=True, exist_ok=True)
            handle = (self.root / _LOCK).open("ab")
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


class FileSink(io.RawIOBase):
    """A file that gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + _WRITING)
        with _writing(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("wb")
        self.size = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # any buffer, as files take
        """Append."""
        self.size += len(data)
        with _writing(str(self._path)):
            return self._file.write(data)

    def close(self) -> None:
        """Finish and rename the file."""
        if not self.closed:
            with _writing(str(self._path)):
                self._file.close()
                self._part.rename(self._path)
            super().close()

    def abort(self) -> None:
        """Delete the unfinished file."""
        self._file.close()
        self._part.unlink(missing_ok=True)
        super().close()


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    """Raise StoreUnavailable for a full or broken disk, StoreRefused for a place that cannot be written to."""
    try:
        yield
    except OSError as exc:
        if exc.errno in _FULL:
            raise StoreUnavailable(
                f"{path}: {exc.strerror}", next_step="look at the disk; then run it again"
            ) from exc
        raise StoreRefused(
            f"{path} cannot be written: {exc.strerror}", next_step="name a folder that this process may write to"
        ) from exc


@contextlib.contextmanager
def _listing(prefix: str) -> Iterator[None]:
    """Raise OutcomeUnknown if files disappear while they are listed: the LIST is retried and sees one moment."""
    try:
        yield
    except FileNotFoundError as exc:
        raise OutcomeUnknown(f"LIST {prefix}: {exc}") from exc


def _is_object(path: Path) -> bool:
    return path.is_file() and _is_name(path.name)


def _is_name(name: str) -> bool:
    return not name.endswith((METADATA_SUFFIX, _WRITING)) and name != _LOCK


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + _WRITING)
    part.write_bytes(body)
    part.rename(path)


def _etag(path: Path | str, stat: os.stat_result) -> str:
    return _File(stat, _read(str(path)) if stat.st_size <= _SMALL_BYTES else b"").etag


def _opened(path: str, *, whole: bool = False) -> _File:
    """Open a file once, so that all that is said of it belongs to its bytes: somebody may replace it meanwhile.

    Raises one of `_NO_FILE` if there is none.
    """
    with io.FileIO(path) as handle:
        stat = os.fstat(handle.fileno())
        return _File(stat, handle.readall() if whole or stat.st_size <= _SMALL_BYTES else b"")


def _read(path: str) -> bytes:
    with io.FileIO(path) as handle:
        return handle.readall()


def _metadata(path: Path | str) -> dict[str, str]:
    try:
        return msgspec.json.decode(_read(f"{path}{METADATA_SUFFIX}"), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise StoreRefused(
            f"{path}{METADATA_SUFFIX}: {exc}", next_step="copy the file and its metadata from the archive again"
        ) from exc


def _chunks(path: str) -> Iterator[bytes]:
    with io.FileIO(path) as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            yield chunk
