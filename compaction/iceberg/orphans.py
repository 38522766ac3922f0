"""Files in a table's folders that nothing of the table names: what crashed and lost commits wrote, and their removal.

    <location>/metadata/    metadata files, manifest lists, manifests, statistics
    <location>/data/        data and delete files of engines that maintain the table

A commit writes its files first and the catalog's answer makes them the table's. So a file may go that is not named
(`named`), is older than the age, and has a name as Iceberg's writers give; before each batch of deletes the table is
loaded again, and read again if it has moved. What is deleted first names what is deleted later. Published days have
their own rules (`compaction.vacuum.day`): what lies below a folder `dt=DAY` is left alone.

Metadata files that nothing names tell whether the folder is the table's alone; nothing goes where it is not:

    does not parse to its end                        a crash in the middle of writing it
    of this table                                    a commit that was refused or crashed; or so old that the log has
                                                     forgotten it
    of this table, upon one that nothing names
    and that the log could not have forgotten        the table goes on in another catalog, or ours was set back:
                                                     refused
    of another table, without a snapshot             the making of a table that crashed
    of another table that has snapshots              a table that was dropped, or lives here, too: refused
"""

import gzip
import json
import re
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from pyarrow.fs import FileSelector
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadataUtil

from archive.errors import CatalogRefused, CatalogUnavailable, OutcomeUnknown, SafetyRefusal
from archive.store.parallel import in_parallel
from compaction.iceberg.failures import translated
from compaction.iceberg.named import NamedFiles, name_of
from compaction.iceberg.shape import ARRIVAL, partitioned_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

_FOLDERS: Final = ("metadata", "data")
_METADATA: Final = re.compile(r".*\.metadata\.json(\.gz)?")
_LISTS: Final = re.compile(r"snap-.*\.avro")
_KINDS: Final = re.compile(r".*(\.metadata\.json(\.gz)?|\.avro|\.parquet|\.orc|\.puffin|\.stats)")
_PUBLISHED: Final = re.compile(r"(^|/)dt=[0-9]{4}-[0-9]{2}-[0-9]{2}/")
_BATCH: Final = 256
_AGAIN: Final = "run the command again: nothing of the table was deleted that it names"


class TableFile(NamedTuple):
    """A file in the table's folders."""

    uri: str
    size: int
    modified_ms: int


class Orphans(NamedTuple):
    """What goes, in the order in which it is deleted, and what the table named when it was looked at."""

    location: str
    files: tuple[TableFile, ...]
    named: NamedFiles
    seen: str


class TableFolders:
    """The folders of one table of a catalog."""

    def __init__(self, catalog: "Catalog", identifier: str) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self.name = f"{catalog.name}.{identifier}"

    def find(self, before_ms: int) -> Orphans:
        """Return the files that nothing names and that were written before a time. Deletes nothing.

        Raises:
            CatalogRefused: no such table, or none of ours; its metadata cannot be read wholly.
            CatalogUnavailable: the catalog or the files stayed away.
            SafetyRefusal: another table, or another catalog, uses the folders.
        """
        try:
            listed = list(_listed(self._load()))
            # Afterwards: what was committed by then is named, and no other's.
            table, named = self._load(), NamedFiles(before_ms)
            named.add(table)
            strangers = [file for file in listed if file.uri not in named]
            _check_alone(table, named, [file.uri for file in strangers if _METADATA.fullmatch(name_of(file.uri))])
        except OutcomeUnknown as exc:
            raise CatalogUnavailable(str(exc), next_step=_AGAIN) from exc
        old = sorted((file for file in strangers if file.modified_ms < before_ms), key=_rank)
        return Orphans(table.location(), tuple(old), named, table.metadata_location)

    def delete(self, found: Orphans) -> tuple[TableFile, ...]:
        """Delete what the table does not name by now either; returns it. Raises as `find`."""
        gone: list[TableFile] = []
        seen = found.seen
        try:
            for start in range(0, len(found.files), _BATCH):
                while (table := self._load()).metadata_location != seen:
                    found.named.add(table)
                    seen = table.metadata_location
                batch = [file for file in found.files[start : start + _BATCH] if file.uri not in found.named]
                in_parallel(lambda file: _delete(table, file.uri), batch)
                gone += batch
        except OutcomeUnknown as exc:
            raise CatalogUnavailable(str(exc), next_step=_AGAIN) from exc
        return tuple(gone)

    def _load(self) -> "Table":
        with translated(f"loading {self.name}"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchIcebergTableError:  # one of another kind has the name
                raise
            except NoSuchTableError as exc:
                raise CatalogRefused(
                    f"there is no table {self.name}", next_step="name the table as compact --iceberg was given it"
                ) from exc
        if partitioned_by(table, table.spec())[:1] != [ARRIVAL]:
            raise CatalogRefused(
                f"{self.name} is not partitioned by day({ARRIVAL}): it is no table of published days",
                next_step="name the table as compact --iceberg was given it",
            )
        return table


def _rank(file: TableFile) -> tuple[int, str]:
    name = name_of(file.uri)
    kinds = (_METADATA.fullmatch(name), _LISTS.fullmatch(name), name.endswith(".avro") or None)
    return next((rank for rank, kind in enumerate(kinds) if kind is not None), len(kinds)), file.uri


def _listed(table: "Table") -> "Iterator[TableFile]":
    """List the table's folders; files of other kinds, without a date, and of published days are passed over."""
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        raise CatalogRefused(
            f"{type(io).__name__} of the catalog's py-io-impl cannot list folders",
            next_step="let pyiceberg use pyiceberg.io.pyarrow.PyArrowFileIO for this command",
        )
    for folder in _FOLDERS:
        uri = f"{table.location().rstrip('/')}/{folder}"
        with translated(f"listing {uri}"):
            scheme, netloc, path = io.parse_location(uri, io.properties)
            selector = FileSelector(path, allow_not_found=True, recursive=True)
            infos = io.fs_by_scheme(scheme, netloc).get_file_info(selector)
        for info in infos:
            inside = info.path.removeprefix(f"{path}/")
            is_ours = inside != info.path and _KINDS.fullmatch(info.base_name) and not _PUBLISHED.search(inside)
            if info.is_file and is_ours and info.mtime_ns is not None:
                yield TableFile(f"{uri}/{inside}", info.size, info.mtime_ns // 1_000_000)


def _delete(table: "Table", uri: str) -> None:
    with translated(f"deleting {uri}"):
        try:
            table.io.delete(uri)
        except FileNotFoundError:
            return


def _check_alone(table: "Table", named: NamedFiles, strangers: list[str]) -> None:
    """Refuse folders in which metadata lies that another table, or another catalog, goes on from."""
    current = table.metadata
    since_ms = min((entry.timestamp_ms for entry in current.metadata_log), default=current.last_updated_ms)
    for uri, other in zip(strangers, in_parallel(lambda uri: _parsed(table, uri), strangers), strict=True):
        if other is None:
            continue
        if other.table_uuid != current.table_uuid:
            if other.snapshots:
                raise SafetyRefusal(
                    f"{uri} is of another table, which has rows",
                    next_step="of one that was dropped, delete or move the files by hand; of one that lives, give it "
                    "a location of its own",
                )
            continue
        before = other.metadata_log[-1:]
        if any(entry.timestamp_ms > since_ms and entry.metadata_file not in named for entry in before):
            raise SafetyRefusal(
                f"{uri} goes on where the catalog's table does not",
                next_step="find the catalog that has the newest metadata: the table is registered in two, or this "
                "one was restored from a backup",
            )


def _parsed(table: "Table", uri: str) -> "TableMetadata | None":
    """Return a metadata file; None where it is gone, or was not written to its end."""
    with translated(f"reading {uri}"):
        try:
            with table.io.new_input(uri).open() as stream:
                data = stream.read()
        except FileNotFoundError:
            return None
        try:
            text = (gzip.decompress(data) if ".gz" in name_of(uri) else data).decode()
            json.loads(text)
        except (ValueError, EOFError, zlib.error, gzip.BadGzipFile):
            return None
        return TableMetadataUtil.parse_raw(text)
