"""What nothing names in the folders of an Iceberg table, as `minutebook vacuum --iceberg` tells of it."""

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from minutebook.errors import MinutebookError

if TYPE_CHECKING:
    from compaction.tables.orphans import TableFile, TableFolders

_SHOWN: Final = 20


class VacuumTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table: which files go, and how many bytes they are; or why nothing goes, or nothing more."""

    table: str
    location: str = ""
    objects: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    exit_code: int = 0
    reason: str = ""
    next_step: str = ""


def vacuum_table(folders: "TableFolders", before_ms: int, *, dry_run: bool) -> VacuumTable:
    """Delete what nothing names and was written before a time; `dry_run`: only say what."""
    done = VacuumTable(table=folders.name)
    files: tuple[TableFile, ...] = ()
    gone: set[TableFile] = set()
    try:
        found = folders.find(before_ms)
        done, files = replace(done, location=found.location), found.files
        if not dry_run:
            folders.delete(found, gone.add)
    except MinutebookError as exc:
        done = replace(done, exit_code=exc.exit_code, reason=str(exc), next_step=exc.next_step)
    if not dry_run:
        files = tuple(file for file in files if file in gone)
    return replace(
        done,
        objects=len(files),
        bytes=sum(file.size for file in files),
        files=tuple(file.uri for file in files),
    )


def table_lines(table: VacuumTable, *, dry_run: bool) -> list[str]:
    """Return what the terminal shows."""
    if table.reason:
        what = f"stopped after {table.objects:,} object(s)" if table.objects else "left alone"
        return [f"table {table.table}: {what}: {table.reason}; next step: {table.next_step}"]
    verb = "would be deleted" if dry_run else "deleted"
    shown = [f"  {uri}" for uri in table.files[:_SHOWN]]
    more = [f"  and {table.objects - _SHOWN:,} more: --json names all"] if table.objects > _SHOWN else []
    said = f"{verb} in the folders of table {table.table}, which does not name them"
    return [*shown, *more, f"{said}: {table.objects:,} object(s), {table.bytes:,} bytes"]
