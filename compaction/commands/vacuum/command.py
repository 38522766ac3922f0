"""`minutebook vacuum`: delete what nothing names of all published days, and show it."""

import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from compaction.commands.vacuum.day import RawDays, delete_leftovers, find_all
from compaction.job.checks import iceberg_table, table_of_each, table_of_stream
from compaction.job.request import VacuumRequest
from compaction.job.settings import JobSettings, check_apart, load_job_settings
from compaction.publish.publisher import GRACE_MS
from compaction.tables.catalog import opened_folders
from minutebook.apply_option import is_applied, tell_unchanged
from minutebook.clock import SystemClock
from minutebook.errors import MinutebookError, SafetyRefusal, SettingsError, StoreRefused, worst
from minutebook.format.day import Day
from minutebook.format.minute import DAY_MS
from minutebook.logs import Limit, configure_logging
from minutebook.owner import read_owned
from minutebook.properties_file import PropertiesFile, Source
from minutebook.properties_folder import PropertiesFolder, StreamFile, streams_of
from minutebook.published.reading import published_days
from minutebook.store.places import open_retrying
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import list_tombstones, read_tombstone
from minutebook.streams_run import StreamEnd, StreamsRun
from minutebook.terminal import TerminalConsole
from minutebook.wording import ITEM, printable_json

if TYPE_CHECKING:
    from compaction.tables.orphans import TableFile, TableFolders

_AGE: Final = re.compile(r"([1-9][0-9]{0,4})d", re.ASCII)
_STORE_BUDGET_SECONDS: Final = 120
_SHOWN: Final = 20
FORMAT: Final = 1


class VacuumDay(msgspec.Struct, frozen=True, kw_only=True):
    """The objects and bytes of one day that go, and its unfinished uploads; or why nothing goes."""

    day: str
    objects: int = 0
    bytes: int = 0
    uploads: int = 0
    exit_code: int = 0
    reason: str = ""
    next_step: str = ""


class VacuumTable(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a table that go, and their bytes; `reason` says why nothing goes, or nothing more."""

    table: str
    location: str = ""
    objects: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    exit_code: int = 0
    reason: str = ""
    next_step: str = ""


class VacuumReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints. Days of which nothing goes are only counted in `looked_at`.

    `applied`: the objects are deleted; else they would be.
    """

    format: int
    output: str
    applied: bool
    older_than_days: int
    looked_at: int
    objects: int
    bytes: int
    uploads: int
    exit_code: int
    days: tuple[VacuumDay, ...]
    table: VacuumTable | None = None


class PublishedOutput(NamedTuple):
    """The archive, and the output where its days are published."""

    archive: RetryingStorage
    prefix: str
    storage: RetryingStorage
    root: str


def run_vacuum(request: VacuumRequest, environ: Mapping[str, str]) -> int:
    """Print what nothing names below the output and, with `apply`, delete it; return the worst day's exit code."""
    apply = is_applied(apply=request.apply, dry_run=request.dry_run)
    age_ms, table = vacuum_age_ms(request.older_than), iceberg_table(request.iceberg, request.iceberg_catalog)
    configure_logging("warning", limit=Limit(SystemClock()))
    source = streams_of(request.file, environ, request.stream)
    table_of_each(source, table)

    def vacuum(stream: Source) -> VacuumReport:
        settings = load_job_settings(stream, environ)
        return _vacuumed(request, settings, age_ms, table_of_stream(table, settings.application_name), apply=apply)

    if isinstance(source, PropertiesFolder):

        def work(_: StreamFile, properties: PropertiesFile) -> StreamEnd:
            report = vacuum(properties)
            if not request.as_json:
                _show(report, as_json=False)
            return end_of_stream(report)

        code = StreamsRun("vacuum", source, request.as_json, is_long=True).run(work)
    else:
        report = vacuum(source)
        _show(report, as_json=request.as_json)
        code = report.exit_code
    if not apply:
        tell_unchanged("vacuum", dry_run=request.dry_run, as_json=request.as_json)
    return code


def end_of_stream(report: VacuumReport) -> StreamEnd:
    """Return the row of a stream of a folder: what goes, and the first day or table of which nothing may go."""
    verb = "deleted" if report.applied else "would be deleted"
    table = report.table or VacuumTable(table="")
    objects, size = report.objects + table.objects, report.bytes + table.bytes
    outcome, next_step = f"{objects:,} object(s), {size:,} bytes {verb}", ""
    refused = [(f"{row.day}: {row.reason}", row.next_step) for row in report.days if row.exit_code]
    if table.exit_code:
        refused.append((f"table {table.table}: {table.reason}", table.next_step))
    if refused:
        more = f"; and {len(refused) - 1} more" if len(refused) > 1 else ""
        outcome, next_step = f"{outcome}{ITEM}{refused[0][0]}{more}", refused[0][1]
    return StreamEnd(report.exit_code, outcome, next_step, report)


def _vacuumed(
    request: VacuumRequest, settings: JobSettings, age_ms: int, table: str | None, *, apply: bool
) -> VacuumReport:
    place, archive = settings.output(request.out), settings.archive
    check_apart(place, archive)
    if place.address.bucket is None and not Path(place.address.root).is_dir():
        raise SettingsError(
            f"there is no directory {place.address.root!r}", next_step="name what compact was given as --out"
        )
    clock = SystemClock()
    raw = open_retrying(archive.address, _STORE_BUDGET_SECONDS)
    output = PublishedOutput(raw, archive.prefix, open_retrying(place.address, _STORE_BUDGET_SECONDS), place.prefix)
    read_owned(raw, archive.prefix, settings.owner, application=settings.application_name)
    opened = nullcontext() if table is None else opened_folders(table, request.iceberg_catalog, place)
    with opened as folders:  # open the catalog first: with a wrong table name, delete nothing
        report = vacuum_output(output, clock.now_ms(), age_ms, apply=apply)
        if folders is not None:
            done = vacuum_table(folders, clock.now_ms() - age_ms, apply=apply)
            code = worst([report.exit_code, done.exit_code])
            report = replace(report, table=done, exit_code=code)
    return report


def vacuum_age_ms(text: str) -> int:
    """Return an age such as 7d in milliseconds; raises SettingsError below the grace of 3 days."""
    days = _AGE.fullmatch(text)
    if days is None:
        raise SettingsError(f"not an age: {text!r}", next_step="write it in days, as in --older-than 7d")
    age_ms = int(days[1]) * DAY_MS
    if age_ms < GRACE_MS:
        least = GRACE_MS // DAY_MS
        raise SettingsError(
            f"--older-than {text} would delete files that a job is about to publish or a query is reading",
            next_step=f"use --older-than {least}d or more",
        )
    return age_ms


def vacuum_output(output: PublishedOutput, now_ms: int, age_ms: int, *, apply: bool) -> VacuumReport:
    """Delete what nothing names and is older than the age; without `apply` only report it."""
    days = published_days(output.storage, output.root)
    expired = list_tombstones(output.archive, output.prefix)

    def has_objects(day: Day) -> bool:
        return day not in expired and bool(output.archive.first_objects(day.path(output.prefix), 1))

    def expired_as(day: Day) -> str:
        return _expired_as(output, day) if day in expired else ""

    rows = []
    for folder, left in find_all(
        output.storage, output.root, days, now_ms - age_ms, RawDays(has_objects, expired_as)
    ):
        if isinstance(left, MinutebookError):
            row = VacuumDay(day=folder.name, exit_code=left.exit_code, reason=str(left), next_step=left.next_step)
            rows.append(row)
        elif left.objects or left.uploads:
            if apply:
                delete_leftovers(output.storage, folder, left)
            uploads = len(left.uploads)
            rows.append(VacuumDay(day=folder.name, objects=len(left.objects), bytes=left.size, uploads=uploads))
    return VacuumReport(
        format=FORMAT,
        output=output.storage.uri(output.root),
        applied=apply,
        older_than_days=age_ms // DAY_MS,
        looked_at=len(days),
        objects=sum(row.objects for row in rows),
        bytes=sum(row.bytes for row in rows),
        uploads=sum(row.uploads for row in rows),
        exit_code=worst(row.exit_code for row in rows),
        days=tuple(rows),
    )


def _expired_as(output: PublishedOutput, day: Day) -> str:
    why = f"{day} is expired, and its tombstone cannot be read: what is here may be all there is of it"
    try:
        tombstone = read_tombstone(output.archive, output.prefix, day, must_exist=True)
    except StoreRefused as exc:
        raise SafetyRefusal(f"{why}: {exc}", next_step=exc.next_step) from exc
    if tombstone is None:
        raise SafetyRefusal(why, next_step="restore its tombstone from a version of it")
    return tombstone.generation


def vacuum_table(folders: "TableFolders", before_ms: int, *, apply: bool) -> VacuumTable:
    """Delete what nothing names and was written before a time; without `apply` only report it."""
    report = VacuumTable(table=folders.name)
    files: tuple[TableFile, ...] = ()
    deleted: set[TableFile] = set()
    try:
        orphans = folders.find(before_ms)
        report, files = replace(report, location=orphans.location), orphans.files
        if apply:
            folders.delete(orphans, deleted.add)
    except MinutebookError as exc:
        report = replace(report, exit_code=exc.exit_code, reason=str(exc), next_step=exc.next_step)
    if apply:
        files = tuple(file for file in files if file in deleted)
    uris, size = tuple(file.uri for file in files), sum(file.size for file in files)
    return replace(report, objects=len(files), bytes=size, files=uris)


def _show(report: VacuumReport, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(printable_json(msgspec.json.encode(report).decode()) + "\n")
        return
    console = TerminalConsole()
    for line in _lines(report):
        console.print(line)


def _lines(report: VacuumReport) -> Sequence[str]:
    lines = []
    for row in report.days:
        if row.reason:
            lines.append(f"{row.day}: left alone: {row.reason}; next step: {row.next_step}")
            continue
        uploads = f", {row.uploads:,} unfinished upload(s)" if row.uploads else ""
        lines.append(f"{row.day}: {row.objects:,} object(s), {row.bytes:,} bytes{uploads}")
    verb = "deleted" if report.applied else "would be deleted"
    lines.append(
        f"{verb} below {report.output}: {report.objects:,} object(s), {report.bytes:,} bytes, {report.uploads:,} "
        f"unfinished upload(s), of {report.looked_at:,} day(s); all older than {report.older_than_days} days"
    )
    return lines if report.table is None else [*lines, *table_lines(report.table, apply=report.applied)]


def table_lines(table: VacuumTable, *, apply: bool) -> list[str]:
    """Return the lines for the terminal."""
    if table.reason:
        what = f"stopped after {table.objects:,} object(s)" if table.objects else "left alone"
        return [f"table {table.table}: {what}: {table.reason}; next step: {table.next_step}"]
    verb = "deleted" if apply else "would be deleted"
    shown = [f"  {uri}" for uri in table.files[:_SHOWN]]
    more = [f"  and {table.objects - _SHOWN:,} more: --json names all"] if table.objects > _SHOWN else []
    summary = (
        f"{verb} in the folders of table {table.table}, which does not name them: {table.objects:,} object(s), "
        f"{table.bytes:,} bytes"
    )
    return [*shown, *more, summary]
