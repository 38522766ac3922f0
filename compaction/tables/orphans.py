"""Files in a table's folders that nothing of the table names: what crashed and lost commits wrote, and their removal.

    <location>/metadata/    metadata files, manifest lists, manifests, statistics
    <location>/data/        data and delete files of engines that maintain the table

A commit writes its files first and the catalog's answer makes them the table's. So a file may go that is not named
(`named`), is older than the age, and has a name as Iceberg's writers give; before each batch of deletes the table is
loaded again, and read again if it has moved. What is deleted first names what is deleted later. Published days have
their own rules (`compaction.commands.vacuum.day`): what lies below a folder `dt=DAY` is left alone.

Metadata files that nothing names tell whether the folder is the table's alone; nothing goes where it is not:

    ends in the middle                               a crash in the middle of writing it
    of this table, and current once                  so old that the log has forgotten it
    of this table, upon one that was current once    a commit that was refused or crashed
    of this table, upon one that never was           the table goes on in another catalog, or ours was set back:
                                                     refused; not known of what is older than all that `lineage` finds
    of another table, without a snapshot             its making crashed, or it lives here, too, and is empty: stays
    of another table that has snapshots              a table that was dropped, or lives here, too: refused
"""

import contextlib
import json
import os
import re
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pyarrow.fs import FileSelector
from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadataUtil

from compaction.tables.failures import translated
from compaction.tables.lineage import formers
from compaction.tables.named import NamedFiles, name_of
from compaction.tables.shape import ARRIVAL, partitioned_by
from minutebook.errors import CatalogRefused, CatalogUnavailable, OutcomeUnknown, SafetyRefusal
from minutebook.store.parallel import in_parallel

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
_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
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
            metadata = [file.uri for file in strangers if _METADATA.fullmatch(name_of(file.uri))]
            others = _checked_alone(table, named, metadata)
        except OutcomeUnknown as exc:
            raise CatalogUnavailable(str(exc), next_step=_AGAIN) from exc
        old = sorted(
            (file for file in strangers if file.modified_ms < before_ms and file.uri not in others), key=_rank
        )
        return Orphans(table.location(), tuple(old), named, table.metadata_location)

    def delete(self, found: Orphans, deleted: Callable[[TableFile], None]) -> None:
        """Delete what the table does not name by now either, and tell of each file. Raises as `find`."""
        seen = found.seen
        try:
            for start in range(0, len(found.files), _BATCH):
                while (table := self._load()).metadata_location != seen:
                    found.named.add(table)
                    seen = table.metadata_location
                batch = [file for file in found.files[start : start + _BATCH] if file.uri not in found.named]
                in_parallel(lambda file: deleted(_delete(table, file)), batch)
        except OutcomeUnknown as exc:
            raise CatalogUnavailable(str(exc), next_step=_AGAIN) from exc

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
            if info.is_file and is_ours and info.mtime_ns is not None and _is_there(io, uri, path, inside):
                yield TableFile(f"{uri}/{inside}", info.size, info.mtime_ns // 1_000_000)


def _is_there(io: PyArrowFileIO, folder: str, path: str, inside: str) -> bool:
    """Tell whether a file's address leads to it, and it lies in the folder.

    pyiceberg takes what follows a `#` or `?` off an address, and would delete another file. A link within a local
    folder leads to the files of somebody else.
    """
    scheme, _, leads_to = io.parse_location(f"{folder}/{inside}", io.properties)
    if leads_to != f"{path}/{inside}":
        return False
    return scheme != "file" or os.path.realpath(leads_to) == f"{os.path.realpath(path)}/{inside}"


def _delete(table: "Table", file: TableFile) -> TableFile:
    with translated(f"deleting {file.uri}"), contextlib.suppress(FileNotFoundError):
        table.io.delete(file.uri)
    return file


def _checked_alone(table: "Table", named: NamedFiles, strangers: list[str]) -> set[str]:
    """Return metadata files that are of other tables, without rows.

    Raises:
        SafetyRefusal: another table, or another catalog, goes on from one.
    """
    current, others = table.metadata, set[str]()
    parsed = dict(zip(strangers, in_parallel(lambda uri: _parsed(table, uri), strangers), strict=True))
    line = list(formers(current, lambda uri: _parsed(table, uri), since_ms=0)) if strangers else []
    since_ms = min((each.written_ms for each in line), default=current.last_updated_ms)
    once = {name_of(each.uri) for each in line}
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
        upon = [(entry.metadata_file, entry.timestamp_ms) for entry in other.metadata_log[-1:]]
        [(before, written_ms)] = upon or [(uri, other.last_updated_ms)]
        if written_ms > since_ms and name_of(before) not in once and before not in named:
            raise SafetyRefusal(
                f"{uri} goes on where the catalog's table does not",
                next_step="find the catalog that has the newest metadata: the table is registered in two, or this "
                "one was restored from a backup",
            )
    return others


def _parsed(table: "Table", uri: str) -> "TableMetadata | None":
    """Return a metadata file; None where it is gone, or was not written to its end."""
    with translated(f"reading {uri}"):
        try:
            with table.io.new_input(uri).open() as stream:
                data = stream.read()
        except FileNotFoundError:
            return None
        try:
            if data.startswith(_GZIP):
                data = zlib.decompressobj(_GZIP_WINDOW).decompress(data)  # what there is of it
            json.loads(data)
        except zlib.error as exc:
            raise ValueError(str(exc)) from exc
        except ValueError:
            if data.strip(b"\0")[:1] in {b"", b"{"}:  # a file system may leave zeros for what was not written
                return None
            raise
        return TableMetadataUtil.parse_raw(data.decode())
