"""Where reports are written: a folder of this machine, or a prefix on S3 for jobs that have no folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from minutebook.errors import StoreRefused
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage

_TYPES: Final = {".json": "application/json", ".html": "text/html; charset=utf-8"}

_NEXT: Final = "the day itself is done; let the role write there (s3:PutObject), or name another --report"


class ReportPlace(Protocol):
    """Takes files of a report; one of the same name is replaced."""

    def write(self, name: str, body: bytes) -> str:
        """Write a file; returns its address. Raises StoreError."""
        ...


class ReportFolder(NamedTuple):
    """A folder, which is made with the first file."""

    folder: Path

    def write(self, name: str, body: bytes) -> str:
        """Write a file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_bytes(body)
        return str(path.absolute())


class ReportPrefix(NamedTuple):
    """A prefix on S3. Nothing is asked of it before the first report: PutObject is the one right that it takes."""

    storage: RetryingStorage
    prefix: str

    def write(self, name: str, body: bytes) -> str:
        """Write an object."""
        key = f"{self.prefix}{name}"
        try:
            sink = self.storage.open_write(key, _TYPES[Path(name).suffix])
            sink.write(body)
            sink.close()
        except StoreRefused as exc:
            raise StoreRefused(f"the report was not written: {exc}", next_step=_NEXT) from exc
        return self.storage.uri(key)


def report_place(place: StorePrefix, open_place: Callable[[StorePrefix], RetryingStorage]) -> ReportPlace:
    """Return the place of reports at an address."""
    if place.address.bucket is None:
        return ReportFolder(Path(place.address.root))
    return ReportPrefix(open_place(place), place.prefix)
