"""Find and delete files in a table's folders that the table does not reference: left by crashed or failed commits.

    <location>/metadata/    metadata files, manifest lists, manifests, statistics
    <location>/data/        data and delete files of engines that maintain the table

A commit writes its files before the catalog accepts it. So a file is deleted if the table does not name it (`named`),
it is older than the age, and its name looks like one of Iceberg's writers. Before each batch of deletes the table is
loaded again, and its files are read again if it has changed. Files are deleted before those that they reference.
Files below a folder `dt=DAY` are skipped: published days have their own rules (`compaction.commands.vacuum.day`).

Unnamed metadata files show whether another table uses the folder; if so, nothing is deleted:

    truncated                                        a crash while it was written
    of this table, and once current                  too old for the log
    of this table, based on one that was current     a commit that was refused or crashed
    of this table, based on any other                the table continues in another catalog, or ours was set back:
                                                     refused; unknown for files older than all that `formers` yields
    of another table, without a snapshot             its creation crashed, or it is empty and uses the folder: kept
    of another table, with snapshots                 a table that was dropped or uses the folder: refused
"""

import contextlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pyarrow.fs import FileSelector
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO

from compaction.tables.failures import translated
from compaction.tables.formers import FormerMetadata, TornMetadataError, formers, read_former
from compaction.tables.named import NamedFiles, name_of
from compaction.tables.shape import ARRIVAL, partitioned_by
from minutebook.errors import CatalogRefused, CatalogUnavailable, OutcomeUnknown, SafetyRefusal
from minutebook.store.parallel import in_parallel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

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
    """The files to delete, in order, and the files that the table named at `metadata_location`."""

    location: str
    files: tuple[TableFile, ...]
    named: NamedFiles
    metadata_location: str


class TableFolders:
    """The folders of a table."""

    def __init__(self, catalog: "Catalog", identifier: str) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self.name = f"{catalog.name}.{identifier}"

    def find(self, before_ms: int) -> Orphans:
        """Return the files that the table does not name and that were written before a time.

        Raises:
            CatalogRefused: the table does not exist or is not ours, or its metadata is not readable as a whole.
            CatalogUnavailable: the catalog or the files are unavailable.
            SafetyRefusal: another table, or another catalog, uses the folders.
        """
        try:
            listed = list(_listed(self._load()))
            # Loaded after the listing, so that everything committed by then is named.
            table, named = self._load(), NamedFiles(before_ms)
            named.add(table)
            unnamed = [file for file in listed if file.uri not in named]
            metadata = [file.uri for file in unnamed if _METADATA.fullmatch(name_of(file.uri))]
            others = _checked_alone(table, named, metadata)
        except OutcomeUnknown as exc:
            raise CatalogUnavailable(str(exc), next_step=_AGAIN) from exc
        old = (file for file in unnamed if file.modified_ms < before_ms and file.uri not in others)
        return Orphans(table.location(), tuple(sorted(old, key=_rank)), named, table.metadata_location)

    def delete(self, orphans: Orphans, deleted: Callable[[TableFile], None]) -> None:
        """Delete the files that the table still does not name; call `deleted` for each. Raises as `find`."""
        location = orphans.metadata_location
        try:
            for start in range(0, len(orphans.files), _BATCH):
                while (table := self._load()).metadata_location != location:
                    orphans.named.add(table)
                    location = table.metadata_location
                batch = [file for file in orphans.files[start : start + _BATCH] if file.uri not in orphans.named]
                in_parallel(lambda file: deleted(_delete(table, file)), batch)
        except OutcomeUnknown as exc:
            raise CatalogUnavailable(str(exc), next_step=_AGAIN) from exc

    def _load(self) -> "Table":
        with translated(f"loading {self.name}"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchIcebergTableError:  # a table of another kind; a subclass of the next error
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
    """List the table's folders, without files of other kinds, without a date or of published days."""
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
            if info.is_file and is_ours and info.mtime_ns is not None and _is_there(io, uri, path, inside):
                yield TableFile(f"{uri}/{inside}", info.size, info.mtime_ns // 1_000_000)


def _is_there(io: PyArrowFileIO, folder: str, path: str, inside: str) -> bool:
    """Return whether a file's address leads to this file, inside the folder.

    pyiceberg cuts an address at `#` or `?`, and would delete another file. A symbolic link may lead elsewhere.
    """
    scheme, _, leads_to = io.parse_location(f"{folder}/{inside}", io.properties)
    if leads_to != f"{path}/{inside}":
        return False
    return scheme != "file" or os.path.realpath(leads_to) == f"{os.path.realpath(path)}/{inside}"


def _delete(table: "Table", file: TableFile) -> TableFile:
    with translated(f"deleting {file.uri}"), contextlib.suppress(FileNotFoundError):
        table.io.delete(file.uri)
    return file


def _checked_alone(table: "Table", named: NamedFiles, unnamed: list[str]) -> set[str]:
    """Return the metadata files of other tables, which are empty; raise SafetyRefusal if others use the folders."""
    current, others = table.metadata, set[str]()
    history = list(formers(current, lambda uri: _parsed(table, uri), since_ms=0)) if unnamed else []
    since_ms = min((each.written_ms for each in history), default=current.last_updated_ms)
    once_current = {name_of(each.uri) for each in history}
    ours = {each.uri for each in history}  # by address: another table's files may have the same names
    strange = [uri for uri in unnamed if uri not in ours]
    parsed = dict(zip(strange, in_parallel(lambda uri: _parsed(table, uri), strange), strict=True))
    for uri, other in parsed.items():
        if other is None:
            continue
        if other.table_uuid != current.table_uuid:
            if other.snapshots:
                raise SafetyRefusal(
                    f"{uri} is of another table, which has rows",
                    next_step="of one that was dropped, delete or move the files by hand; of one that lives, give it "
                    "a location of its own",
                )
            others.add(uri)
            continue
        before, written_ms = uri, other.last_updated_ms
        if other.metadata_log:
            before, written_ms = other.metadata_log[-1].metadata_file, other.metadata_log[-1].timestamp_ms
        if written_ms > since_ms and name_of(before) not in once_current and before not in named:
            raise SafetyRefusal(
                f"{uri} goes on where the catalog's table does not",
                next_step="find the catalog that has the newest metadata: the table is registered in two, or this "
                "one was restored from a backup",
            )
    return others


def _parsed(table: "Table", uri: str) -> FormerMetadata | None:
    """Return a metadata file; None if it is gone or truncated."""
    with translated(f"reading {uri}"):
        try:
            return read_former(table.io, uri)
        except (FileNotFoundError, TornMetadataError):
            return None
