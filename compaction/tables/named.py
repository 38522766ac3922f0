"""Every file that a table's metadata leads to, by name. It is read wholly, or not believed at all.

    metadata files      the current one, all that its log names, and what was current since a time (`lineage`)
    statistics          of the table, and of its partitions
    snapshots           all that the current metadata has, and those of metadata that was current since a time: a
                        query may have begun on one that was expired a moment ago
    of each snapshot    its manifest list, its manifests, the files of all entries, deleted ones too

Names are compared without their folders: Iceberg's carry an id of their own, and one file has several addresses
(`s3` and `s3a`, a bucket and its access point, a link to a folder). A file that has the name of another one stays.

A manifest that was cut short may read well: entries are counted against the manifest list, its files against the
snapshot's summary.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from pyiceberg.manifest import ManifestContent
from pyiceberg.serializers import FromInputFile

from compaction.tables.failures import translated
from compaction.tables.lineage import formers
from minutebook.errors import CatalogRefused
from minutebook.store.parallel import in_parallel

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

T = TypeVar("T")
_LIVE_FILES: Final = {ManifestContent.DATA: "total-data-files", ManifestContent.DELETES: "total-delete-files"}


def name_of(uri: str) -> str:
    """Return the name of a file without its folders."""
    return uri.rstrip("/").rpartition("/")[2]


class NamedFiles:
    """The names of all files that a table leads to; `since_ms` is when metadata still counts that was replaced."""

    def __init__(self, since_ms: int) -> None:
        self._since_ms = since_ms
        self._names: set[str] = set()
        self._known: set[str] = set()

    def __contains__(self, uri: str) -> bool:
        """Tell whether a file of this name is named."""
        return name_of(uri) in self._names

    def add(self, table: "Table") -> None:
        """Add what a table leads to; nothing that was named before goes.

        Raises:
            CatalogRefused: a file of the metadata is gone or damaged.
            OutcomeUnknown: one could not be read now.
        """
        io, metadata = table.io, table.metadata
        self._name([table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)])
        replaced = self._replaced_lately(io, metadata)
        for each in (metadata, *replaced):
            self._name(file.statistics_path for file in (*each.statistics, *each.partition_statistics))
        kept = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        self._add_snapshots(io, metadata.snapshots)
        for each in replaced:
            for snapshot in each.snapshots:
                if snapshot.snapshot_id not in kept:
                    self._add_expired(io, snapshot)

    def _replaced_lately(self, io: "FileIO", metadata: "TableMetadata") -> "list[TableMetadata]":
        """Read and name what was current at or after the time, but for what is; also what the log has forgotten."""
        logged = {entry.metadata_file for entry in metadata.metadata_log}
        found: dict[str, TableMetadata | None] = {}

        def read(uri: str) -> "TableMetadata | None":
            try:
                found[uri] = self._read(uri, lambda uri: _metadata(io, uri))
            except CatalogRefused as exc:
                # Writers may delete what their log forgets.
                if uri in logged or not isinstance(exc.__cause__, FileNotFoundError):
                    raise
                found[uri] = None
            return found[uri]

        lately = [each.uri for each in formers(metadata, read, self._since_ms) if each.replaced_ms >= self._since_ms]
        self._name(lately)
        read_now = [found[uri] if uri in found else read(uri) for uri in lately]
        return [each for each in read_now if each is not None]

    def _add_snapshots(self, io: "FileIO", snapshots: "Iterable[Snapshot]") -> None:
        lists = [snapshot for snapshot in snapshots if snapshot.manifest_list not in self._known]
        manifests = {
            manifest.manifest_path: manifest
            for found in in_parallel(lambda each: self._manifests(io, each), lists)
            for manifest in found
            if manifest.manifest_path not in self._known
        }
        for files in in_parallel(lambda each: self._files(io, each), list(manifests.values())):
            self._name(files)
        self._name(manifests)
        self._name(snapshot.manifest_list for snapshot in lists)
        self._known |= {*manifests, *(snapshot.manifest_list for snapshot in lists)}

    def _add_expired(self, io: "FileIO", snapshot: "Snapshot") -> None:
        """Add a snapshot that the table gave up lately; whoever expired it may have deleted files of it already."""
        self._name([snapshot.manifest_list])
        try:
            self._add_snapshots(io, [snapshot])
        except CatalogRefused as exc:
            if not isinstance(exc.__cause__, FileNotFoundError):
                raise

    def _manifests(self, io: "FileIO", snapshot: "Snapshot") -> "list[ManifestFile]":
        found = self._read(snapshot.manifest_list, lambda _: snapshot.manifests(io))
        summary = None if snapshot.summary is None else snapshot.summary.additional_properties
        for content, name in _LIVE_FILES.items():
            said = (summary or {}).get(name, "")
            live = sum(
                (each.added_files_count or 0) + (each.existing_files_count or 0)
                for each in found
                if each.content == content
            )
            if said.isdecimal() and live < int(said) and all(each.added_files_count is not None for each in found):
                raise _cut_short(snapshot.manifest_list, f"{live:,} of {said} {name.removeprefix('total-')}")
        return found

    def _files(self, io: "FileIO", manifest: "ManifestFile") -> list[str]:
        entries = self._read(manifest.manifest_path, lambda _: manifest.fetch_manifest_entry(io, False))
        counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        said = sum(count or 0 for count in counts)
        if None not in counts and len(entries) != said:
            raise _cut_short(manifest.manifest_path, f"{len(entries):,} of {said:,} entries")
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


def _metadata(io: "FileIO", uri: str) -> "TableMetadata":
    return FromInputFile.table_metadata(io.new_input(uri))


def _cut_short(uri: str, what: str) -> CatalogRefused:
    return CatalogRefused(
        f"{uri} is damaged: it holds {what}",
        next_step="restore the file from a version of it, or expire the snapshots that need it",
    )
