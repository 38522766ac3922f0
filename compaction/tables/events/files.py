"""The files of one generation that a table by event day is given: made once, recorded, and found again.

    files      dt=D/_gen-G/_events/<event day>-<id>.parquet     rows of one event day; a name of its own each
    record     dt=D/_gen-G/_events/<writer>.<number>.json       If-None-Match:*   names the files that count

Nothing counts that no record names. A run that is killed before its record leaves files that nobody reads; the next
run makes them anew. Of two runs at once one's record is there first: the other takes its files, and deletes its own.
A record is believed when its rows are those of the manifest, and its files are there with their sizes; one of more
than a day ago only while the table holds its files: a sweep may be about to remove what no table is marked to name.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
import structlog

from compaction.columns.columns import Columns
from compaction.publish.publisher import GRACE_MS, Publisher
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

T = TypeVar("T")
U = TypeVar("U")
_RECORD: Final = ".json"


class SpreadWork(Protocol):
    """Does the same work for each item, in tasks, and returns what it gave, in order."""

    def __call__(self, work: Callable[[T], U], items: Sequence[T]) -> list[U]:
        """Do it."""
        ...


class EventRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of a manifest's rows, by event day."""

    format: int
    manifest: str
    rows: int
    files: tuple[File, ...]


class EventWork(NamedTuple):
    """How the files of a day are made: where they are written, and who runs the tasks."""

    out: Address
    spread: SpreadWork
    clock: Clock
    sizes: EventSizes = SIZES


class EventFiles:
    """The files of one day's generations, by event day. Every step may be repeated, by us or by another run."""

    def __init__(self, publisher: Publisher, work: EventWork, window_days: int) -> None:
        self._publisher = publisher
        self._storage = publisher.storage
        self._work = work
        self._window_days = window_days
        self._log = structlog.get_logger().bind(day=str(publisher.folder.day))

    def rows(self, manifest: Manifest, held: Collection[str]) -> Mapping[str, int]:
        """Return address -> rows of the files of a manifest, which are made where there are none.

        `held` are the addresses that the table holds of the day.

        Raises:
            SafetyRefusal: an event lies outside of the window.
            FormatError: the files do not hold the rows of the manifest.
            StoreUnavailable, StoreRefused: the output.
        """
        if not manifest.rows:
            return {}
        folder = self._publisher.folder.events(manifest.generation)
        listed = list(self._storage.list_objects(folder))
        ours = (row for row in listed if row.key.startswith(f"{folder}{manifest.writer}."))
        records = sorted(ours, key=lambda row: _number(row.key))
        if records:
            found = self._read(records[-1].key, manifest)
            rows = {} if found is None else self._addresses(found)
            is_young = records[-1].last_modified_ms >= self._work.clock.now_ms() - YOUNG_MS
            if found is not None and (is_young or set(rows) == set(held)) and self._is_whole(found):
                return rows
        number = 1 + max((_number(row.key) for row in records), default=-1)
        made = self._make(manifest, folder, f"{folder}{manifest.writer}.{number:03}{_RECORD}")
        self._tidy(listed)
        return self._addresses(made)

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
        theirs = self._storage.put_or_read(key, encode_document(record))
        self._storage.delete(scrap.key for scrap in scraps)
        if theirs is not None:
            self._storage.delete(file.key for file in files)
            return self._agreed(key, manifest)
        days = {file.day for file in files}
        self._log.info("event_files_written", rows=manifest.rows, files=len(files), days=len(days - {None}))
        return record

    def _cut(self, manifest: Manifest, folder: str) -> tuple[list[EventFile], list[EventFile]]:
        """Run the tasks; returns files and scraps."""
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
        joined = work.spread(gather, gather_orders(work.out, folder, scraps, work.sizes))
        made = [file for result in results for file in result.files]
        return [*made, *(file for found in joined for file in found)], scraps

    def _read(self, key: str, manifest: Manifest) -> EventRecord | None:
        """Return a record that agrees with the manifest and with itself; None where it does not."""
        stored = self._storage.get(key)
        try:
            found = None if stored is None else decode_document(stored.body, EventRecord, key)
        except FormatError as exc:
            self._log.warning(
                "event_record_not_trusted", key=key, error=str(exc), next_step="the files are made anew"
            )
            return None
        named = self._publisher.folder.manifest(manifest.generation, manifest.writer)
        if found is None or (found.manifest, found.rows) != (named, manifest.rows):
            return None
        return found if sum(file.rows for file in found.files) == manifest.rows else None

    def _agreed(self, key: str, manifest: Manifest) -> EventRecord:
        """Return the record of the run that was first."""
        found = self._read(key, manifest)
        if found is None:
            raise ForeignObject(
                f"{key} is not what a run writes there", next_step="find out who writes to the output"
            )
        return found

    def _is_whole(self, record: EventRecord) -> bool:
        def holds(file: File) -> bool:
            head = self._storage.head(file.key)
            return head is not None and head.size == file.bytes

        return all(in_parallel(holds, record.files))

    def _addresses(self, record: EventRecord) -> dict[str, int]:
        return {self._publisher.address(file.key): file.rows for file in record.files}

    def _tidy(self, listed: Sequence[ListedObject]) -> None:
        """Delete what runs left that were killed before their record: old files that no record names."""
        before_ms = self._work.clock.now_ms() - GRACE_MS
        old = {row.key for row in listed if row.last_modified_ms < before_ms and not row.key.endswith(_RECORD)}
        if not old:
            return
        for row in listed:
            if row.key.endswith(_RECORD):
                stored = self._storage.get(row.key)
                try:
                    known = None if stored is None else decode_document(stored.body, EventRecord, row.key)
                except FormatError:
                    return
                old -= set() if known is None else {file.key for file in known.files}
        self._storage.delete(sorted(old))


def _number(key: str) -> int:
    """Return the number of a record, by its name; -1: nobody of us gave it."""
    text = key.removesuffix(_RECORD).rpartition(".")[2]
    return int(text) if text.isdecimal() else -1


def files_by_event(publisher: Publisher, columns: Columns | None, work: EventWork) -> EventFiles | None:
    """Return who cuts a day by its events; None where their time was not asked for."""
    event = None if columns is None else columns.event
    return None if event is None else EventFiles(publisher, work, event.window_days)
