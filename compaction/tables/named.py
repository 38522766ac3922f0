"""Collect the names of all files that a table's metadata references; fail if any of it cannot be read.

    metadata files      the current one, all that its log names, and those current since a time (`formers`)
    statistics          of the table, and of its partitions
    snapshots           of the current metadata, and of metadata that was current since a time: a query may read a
                        snapshot that has just expired
    of each snapshot    its manifest list, its manifests, the files of all entries, deleted ones too

Names are compared without folders, because Iceberg's names contain unique ids, and one file has several addresses
(`s3` and `s3a`, a bucket and its access point, a symbolic link). Two files with one name are both kept.

A truncated manifest may be readable, so its entries are counted against the manifest list, and the files of the list
against the snapshot's summary.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Snapshot

from compaction.tables.failures import translated
from compaction.tables.formers import FormerMetadata, formers, read_former, telling
from minutebook.errors import CatalogRefused
from minutebook.store.parallel import in_parallel

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

T = TypeVar("T")
_LIVE_FILES: Final = {ManifestContent.DATA: "total-data-files", ManifestContent.DELETES: "total-delete-files"}

_FORMERS: Final = 128
"""Earlier metadata files that stay in memory; each may be a megabyte."""


def name_of(uri: str) -> str:
    """Return the name of a file without folders."""
    return uri.rstrip("/").rpartition("/")[2]


class NamedFiles:
    """The names of all files that a table references, also by metadata replaced at or after `since_ms`."""

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._names: set[str] = set()
        self._known: set[str] = set()

    def __contains__(self, uri: str) -> bool:
        """Return whether the table references a file of this name."""
        return name_of(uri) in self._names

    def add(self, table: "Table") -> None:
        """Add the files of a table to those of earlier calls.

        Raises CatalogRefused if a metadata file is gone or damaged, OutcomeUnknown if it cannot be read now.
        """
        io, metadata = table.io, table.metadata
        self._name([table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)])
        replaced = self._replaced_lately(io, metadata)
        self._name(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
        self._add_snapshots(io, metadata.snapshots)
        current, expired = {snapshot.snapshot_id for snapshot in metadata.snapshots}, dict[int, bytes]()
        for former in replaced:
            self._name(former.statistics_paths)
            expired |= {
                each.snapshot_id: text for each, text in former.by_snapshot() if each.snapshot_id not in current
            }
        for number, text in expired.items():
            with translated(f"reading snapshot {number}, which has expired"):
                snapshot = Snapshot.model_validate_json(text)
            self._add_expired(io, snapshot)

    def _replaced_lately(self, io: "FileIO", metadata: "TableMetadata") -> Iterator[FormerMetadata]:
        """Name metadata replaced at or after the time, also what the current log no longer contains.

        Return as many of these files as tell all snapshots of then.
        """
        logged = {entry.metadata_file for entry in metadata.metadata_log}

        @lru_cache(maxsize=_FORMERS)
        def read(uri: str) -> FormerMetadata | None:
            try:
                return self._read(uri, lambda uri: read_former(io, uri))
            except CatalogRefused as exc:
                # Writers may delete files that their log no longer contains.
                if uri in logged or not isinstance(exc.__cause__, FileNotFoundError):
                    raise
                return None

        recent = [each.uri for each in formers(metadata, read, self._since_ms) if each.replaced_ms >= self._since_ms]
        self._name(recent)
        return telling(recent[::-1], read, metadata)

    def _add_snapshots(self, io: "FileIO", snapshots: "Iterable[Snapshot]") -> None:
        lists = [snapshot for snapshot in snapshots if snapshot.manifest_list not in self._known]
        manifests = {
            manifest.manifest_path: manifest
            for of_list in in_parallel(lambda each: self._manifests(io, each), lists)
            for manifest in of_list
            if manifest.manifest_path not in self._known
        }
        for files in in_parallel(lambda each: self._files(io, each), list(manifests.values())):
            self._name(files)
        self._name(manifests)
        self._name(snapshot.manifest_list for snapshot in lists)
        self._known |= {*manifests, *(snapshot.manifest_list for snapshot in lists)}

    def _add_expired(self, io: "FileIO", snapshot: "Snapshot") -> None:
        """Add a snapshot that expired recently; some of its files may already be deleted."""
        self._name([snapshot.manifest_list])
        try:
            self._add_snapshots(io, [snapshot])
        except CatalogRefused as exc:
            if not isinstance(exc.__cause__, FileNotFoundError):
                raise

    def _manifests(self, io: "FileIO", snapshot: "Snapshot") -> "list[ManifestFile]":
        manifests = self._read(snapshot.manifest_list, lambda _: snapshot.manifests(io))
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        is_counted = all(each.added_files_count is not None for each in manifests)
        for content, name in _LIVE_FILES.items():
            stated = summary.get(name, "")
            live = sum(
                (each.added_files_count or 0) + (each.existing_files_count or 0)
                for each in manifests
                if each.content == content
            )
            if stated.isdecimal() and live < int(stated) and is_counted:
                raise _truncated(snapshot.manifest_list, f"{live:,} of {stated} {name.removeprefix('total-')}")
        return manifests

    def _files(self, io: "FileIO", manifest: "ManifestFile") -> list[str]:
        entries = self._read(manifest.manifest_path, lambda _: manifest.fetch_manifest_entry(io, False))
        counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        stated = sum(count or 0 for count in counts)
        if None not in counts and len(entries) != stated:
            raise _truncated(manifest.manifest_path, f"{len(entries):,} of {stated:,} entries")
        return [entry.data_file.file_path for entry in entries]

    def _read(self, uri: str, read: Callable[[str], T]) -> T:
        with translated(f"reading {uri}"):
            try:
                return read(uri)
            except FileNotFoundError as exc:
                raise CatalogRefused(
                    f"{uri} is gone, and the table names it",
                    next_step="run it again, if the table was just being maintained; otherwise restore the file, or "
                    "expire the snapshots that need it",
                ) from exc

    def _name(self, uris: Iterable[str]) -> None:
        self._names |= {name_of(uri) for uri in uris}


def _truncated(uri: str, what: str) -> CatalogRefused:
    return CatalogRefused(
        f"{uri} is damaged: it holds {what}",
        next_step="restore the file from a version of it, or expire the snapshots that need it",
    )
