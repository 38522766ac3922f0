"""The files by event day of one generation: written once, recorded, and found again.

    files      dt=D/_gen-G/_events/<event day>-<id>.parquet     rows of one event day, under a unique name
    record     dt=D/_gen-G/_events/<writer>.<number>.json       If-None-Match:*   names the valid files

Only files that a record names are valid. A run that is killed before its record leaves unused files, and the next run
writes them again. Of two concurrent runs the first record wins: the other run uses its files and deletes its own.
A record is used if its rows are those of the manifest and its files exist with their sizes. A record older than a day
is used only while the table holds its files: a sweep may be about to delete files that no table is marked to name.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import structlog

from compaction.columns.columns import Columns
from compaction.publish.publisher import GRACE_MS, Publisher
from compaction.shard_groups.port import Spread
from compaction.tables.events.rows import EventFile
from compaction.tables.events.work import (
    SIZES,
    EventSizes,
    SplitOrder,
    cut_by_event_day,
    gather,
    gather_orders,
    in_batches,
)
from compaction.tasks.finished import YOUNG_MS
from minutebook.clock import Clock
from minutebook.errors import ForeignObject, FormatError
from minutebook.format.document import decode_document, encode_document
from minutebook.published.generation import File, Manifest
from minutebook.store.objects import ListedObject
from minutebook.store.parallel import in_parallel
from minutebook.store.storage import Address

_RECORD: Final = ".json"


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of a manifest's rows, by event day."""

    format: int
    manifest: str
    rows: int
    files: tuple[File, ...]


class EventWork(NamedTuple):
    """How the files of a day are written: to where, and what runs the tasks."""

    out: Address
    spread: Spread
    clock: Clock
    sizes: EventSizes = SIZES


class EventFiles:
    """The files by event day of one day's generations. Every step may be repeated, by this or another run."""

    def __init__(self, publisher: Publisher, work: EventWork, window_days: int) -> None:
        self._publisher = publisher
        self._storage = publisher.storage
        self._work = work
        self._window_days = window_days
        self._log = structlog.get_logger().bind(day=str(publisher.folder.day))

    def rows(self, manifest: Manifest, held: Collection[str], check: Callable[[], object]) -> Mapping[str, int]:
        """Return address -> rows of the files of a manifest; write them if there are none.

        `held` are the addresses of the day's files in the table. `check` raises where no others may come in their
        place: a day that is refused each night would be written each time. Raises SafetyRefusal if an event lies
        outside of the window, FormatError if the files do not hold the rows of the manifest.
        """
        if not manifest.rows:
            return {}
        folder = self._publisher.folder.events(manifest.generation)
        listed = list(self._storage.list_objects(folder))
        ours = (row for row in listed if row.key.startswith(f"{folder}{manifest.writer}."))
        records = sorted(ours, key=lambda row: _number(row.key))
        if records:
            record = self._read(records[-1].key, manifest)
            rows = {} if record is None else self._addresses(record)
            is_young = records[-1].last_modified_ms >= self._work.clock.now_ms() - YOUNG_MS
            if record is not None and (is_young or set(rows) == set(held)) and self._is_whole(record):
                return rows
        check()
        number = 1 + max((_number(row.key) for row in records), default=-1)
        record = self._make(manifest, folder, f"{folder}{manifest.writer}.{number:03}{_RECORD}")
        self._tidy(listed)
        return self._addresses(record)

    def _make(self, manifest: Manifest, folder: str, key: str) -> EventRecord:
        files, scraps = self._cut(manifest, folder)
        if (rows := sum(file.rows for file in files)) != manifest.rows:
            raise FormatError(
                f"the files of {manifest.generation} by event day hold {rows} rows, the manifest {manifest.rows}",
                next_step="find out who writes to the output; run the command again",
            )
        record = EventRecord(
            format=1,
            manifest=self._publisher.folder.manifest(manifest.generation, manifest.writer),
            rows=manifest.rows,
            files=tuple(File(key=file.key, rows=file.rows, bytes=file.size) for file in files),
        )
        existing = self._storage.put_or_read(key, encode_document(record))
        self._storage.delete(scrap.key for scrap in scraps)
        if existing is not None:
            self._storage.delete(file.key for file in files)
            first = self._read(key, manifest)
            if first is None:
                raise ForeignObject(
                    f"{key} is not what a run writes there", next_step="find out who writes to the output"
                )
            return first
        days = {file.day for file in files}
        self._log.info("event_files_written", rows=manifest.rows, files=len(files), days=len(days - {None}))
        return record

    def _cut(self, manifest: Manifest, folder: str) -> tuple[list[EventFile], list[EventFile]]:
        """Run the tasks; return files and scraps."""
        work = self._work
        files = (file for file in manifest.files if file.rows)
        groups = in_batches(files, lambda file: file.bytes, work.sizes.order)
        orders = [
            SplitOrder(
                work.out,
                folder,
                tuple(file.key for file in group),
                self._publisher.folder.day.number,
                self._window_days,
                is_alone=len(groups) == 1,
                sizes=work.sizes,
            )
            for group in groups
        ]
        results = work.spread(cut_by_event_day, orders)
        scraps = [scrap for result in results for scrap in result.scraps]
        gathered = work.spread(gather, gather_orders(work.out, folder, scraps, work.sizes))
        return [file for group in (*(result.files for result in results), *gathered) for file in group], scraps

    def _read(self, key: str, manifest: Manifest) -> EventRecord | None:
        """Return a record that matches the manifest; None if it does not."""
        stored = self._storage.get(key)
        try:
            record = None if stored is None else decode_document(stored.body, EventRecord, key)
        except FormatError as exc:
            self._log.warning(
                "event_record_not_trusted", key=key, error=str(exc), next_step="the files are made anew"
            )
            return None
        manifest_key = self._publisher.folder.manifest(manifest.generation, manifest.writer)
        if record is None or (record.manifest, record.rows) != (manifest_key, manifest.rows):
            return None
        return record if sum(file.rows for file in record.files) == manifest.rows else None

    def _is_whole(self, record: EventRecord) -> bool:
        def holds(file: File) -> bool:
            head = self._storage.head(file.key)
            return head is not None and head.size == file.bytes

        return all(in_parallel(holds, record.files))

    def _addresses(self, record: EventRecord) -> dict[str, int]:
        return {self._publisher.address(file.key): file.rows for file in record.files}

    def _tidy(self, listed: Sequence[ListedObject]) -> None:
        """Delete old files that no record names, left by killed runs."""
        before_ms = self._work.clock.now_ms() - GRACE_MS
        old = {row.key for row in listed if row.last_modified_ms < before_ms and not row.key.endswith(_RECORD)}
        if not old:
            return
        for row in listed:
            if row.key.endswith(_RECORD):
                stored = self._storage.get(row.key)
                try:
                    record = None if stored is None else decode_document(stored.body, EventRecord, row.key)
                except FormatError:
                    return
                old -= set() if record is None else {file.key for file in record.files}
        self._storage.delete(sorted(old))


def _number(key: str) -> int:
    """Return the number in a record's name; -1: it has none."""
    text = key.removesuffix(_RECORD).rpartition(".")[2]
    return int(text) if text.isdecimal() else -1


def files_by_event(publisher: Publisher, columns: Columns | None, work: EventWork) -> EventFiles | None:
    """Return the files by event day; None without `--event-time`."""
    event = None if columns is None else columns.event
    return None if event is None else EventFiles(publisher, work, event.window_days)
