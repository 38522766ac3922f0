"""Published days, the live parts beside them, and the raw segments that neither holds, as one stream of batches.

A segment that the inventory of a day's pointer names, by key and ETag, is read from the day's Parquet files; all
other segments of the day are read as they are. A day is listed **before** its pointer is read, because between the
two a night may publish, and `expire` may delete what is published:

    LIST, publish, pointer               the inventory names listed segments, and maybe later ones: all from Parquet
    publish, LIST, pointer               the same
    publish, delete, LIST, pointer       what is deleted was named by that inventory: from Parquet
    LIST, publish, delete, pointer       the same; the listed names of what is deleted are left out
    LIST, pointer, publish, delete       a segment is gone when it is read: ObjectVanished, open the days again

With the pointer first, `pointer, publish, delete, LIST` would read neither the new files nor the old segments, and
lose them without a word. No order doubles a row: one pointer decides for each segment. Files of a generation that is
replaced later are kept for three days, and then raise ObjectVanished.

Live parts (`minutebook follow`) are read between the LIST and the pointer. A segment is known by its key: what the
inventory names is read from the files, of the rest what a live part holds from that, and all else as it is.

Inventories tell segments apart, not rows. A segment that was stored again under another ETag, or one that was
written into a published day by hand, may repeat rows of the files, and one that follow has left out those of a live
part: raw rows are compared with the positions in the day's files and parts, and left out where they are there.
"""

import datetime as dt
import gzip
import heapq
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from minutebook.cut import Cut, check_cut
from minutebook.errors import DayNotPublished, FormatError, ObjectVanished
from minutebook.format.day import Day, Hour
from minutebook.format.keys import parse_segment_key, slot_folder
from minutebook.index.names import ArchiveIndex
from minutebook.owner import read_application
from minutebook.published.generation import DayFolder, inventory_beside
from minutebook.published.inventory import PublishedRow, decode_inventory
from minutebook.published.schema import SCHEMA
from minutebook.reader.arrow import DAY_NAME, PLACE, OpenedFiles, open_files
from minutebook.reader.complete import Complete, complete_of
from minutebook.reader.days import (
    COMPACT,
    Missing,
    PublishedDay,
    PublishedDays,
    PublishedFile,
    open_output,
    published_file,
    read_current,
)
from minutebook.reader.parts import read_parts
from minutebook.segments.ahead import Ready, request_pool
from minutebook.segments.bodies import FETCHES, fetch_bodies, read_body
from minutebook.segments.listing import SegmentToRead, linked, of_shard, parse_listing, position_order
from minutebook.segments.merging import Problems, SegmentRecord, merge
from minutebook.segments.rows import RecordRows
from minutebook.store.parallel import in_parallel
from minutebook.store.places import StorePrefix
from minutebook.store.retrying import RetryingStorage
from minutebook.store.tombstones import is_expired

_LISTS: Final = 4
"""Hours that are listed at once: each is held in memory until it is packed."""
_GROUP_BYTES: Final = 4 << 20
"""Bytes of raw rows that are made into columns at once."""
_BATCH_ROWS: Final = 1_024
_BATCH_BYTES: Final = 4 << 20
_BUFFER_BYTES: Final = 1 << 20
"""Bytes of a column of a file that are read at once."""
_SEGMENT: Final = "segment"
_AGAIN: Final = "open the days again: what was deleted or replaced meanwhile is published"


class LiveDay(NamedTuple):
    """A day: its published part, and its other segments hour by hour, in the order of positions, packed.

    `parts` are its live parts: the file, the segments that are read from the published files, and those beside which
    others are published of the same minute and shard, whose records they may hold.
    """

    day: Day
    published: PublishedDay | None
    hours: tuple[bytes, ...]
    parts: tuple[tuple[PublishedFile, frozenset[str], frozenset[str]], ...] = ()


class LiveDays:
    """Days as they were when they were opened. Each use reads them anew, in batches that are made as they are taken.

    `complete_until` is what the workers' boundaries said before the days were listed: what arrived until then is in
    the rows, but for its gaps; None if none of them has published a boundary.

    Engines take it by the Arrow PyCapsule interface: DuckDB by the name of the variable, pyarrow and Polars as an
    argument. A pyarrow Dataset would be no such stream: its scanner reads up to 1 GiB ahead of a slow reader.
    """

    def __init__(
        self,
        days: Sequence[LiveDay],
        left_out: Sequence[tuple[dt.date, str]],
        archive: tuple[RetryingStorage, str],
        files: OpenedFiles,
        cuts: tuple[Cut | None, Cut | None],
        complete: Complete | None = None,
        parts: OpenedFiles | None = None,
    ) -> None:
        self.complete_until = complete
        self.days = tuple(days)
        self.left_out = tuple(left_out)
        self._storage, self._prefix = archive
        self._files = files
        self._parts = parts
        self._covered = {file.path: (covered, beside) for day in days for file, covered, beside in day.parts}
        self._before, self._after = cuts

    @property
    def published(self) -> tuple[PublishedDay, ...]:
        """The days that are published, or a part of them."""
        return _parts(self.days)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._files.dataset.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream that can be read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows to an engine: a new stream each time."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows by day: the published ones, then the raw ones, each in the order of shards and positions.

        Raises ObjectVanished for an object that is gone or another one, FormatError for a damaged segment: rows
        before it were yielded.
        """
        files: dict[str, list[ds.ParquetFileFragment]] = defaultdict(list)
        opened = [self._files] if self._parts is None else [self._files, self._parts]
        for fragment in chain.from_iterable(each.dataset.get_fragments() for each in opened):
            files[ds.get_partition_keys(fragment.partition_expression)[DAY_NAME]].append(fragment)
        for day in self.days:
            published = [each for each in files[str(day.day)] if each.path not in self._covered]
            for fragment in files[str(day.day)]:
                yield from self._published(fragment, day.day, published)
            for table in self._raw(day):
                rows = _unpublished(table, files[str(day.day)])
                yield from self._in_schema(rows, day.day).to_batches(max_chunksize=_BATCH_ROWS)

    def _published(
        self, fragment: ds.ParquetFileFragment, day: Day, published: Sequence[ds.ParquetFileFragment]
    ) -> Iterator[pa.RecordBatch]:
        """Yield a file's rows, of a live part without those of published segments, nor those at published positions.

        A segment may have been shown that is deleted by now, and whose records the night found in others.

        A live part's typed columns may be of another file than the night's: one of another type is null. Memory is a
        few pages: a scan decodes row groups, and `pre_buffer` holds the file.
        """
        covered, beside = self._covered.get(fragment.path, (frozenset[str](), frozenset[str]()))
        file = pq.ParquetFile(fragment.open(), buffer_size=_BUFFER_BYTES, pre_buffer=False)
        is_part = fragment.path in self._covered
        compared = {*([_SEGMENT] if covered or beside else []), *(PLACE if beside else [])}
        wanted = {*self.schema.names, *compared}
        names = [
            field.name
            for field in file.schema_arrow
            if field.name in wanted
            and (not is_part or field.name in compared or field.type == self.schema.field(field.name).type)
        ]
        for batch in _batches(file, names):
            table = pa.Table.from_batches([batch])
            if covered:
                is_covered = pc.is_in(table[_SEGMENT], value_set=pa.array(sorted(covered), pa.string()))
                table = table.filter(pc.invert(is_covered))
            if beside and table.num_rows:
                is_beside = pc.is_in(
                    table[_SEGMENT], value_set=pa.array(sorted(beside), pa.string())
                ).combine_chunks()
                if is_beside.true_count:
                    is_twice = _is_published(table.filter(is_beside), published)
                    table = table.filter(pc.invert(pc.replace_with_mask(is_beside, is_beside, is_twice)))
            rows = self._in_schema(table, day)
            if self._files.condition is not None:
                rows = rows.filter(self._files.condition)
            yield from rows.to_batches()

    def _raw(self, day: LiveDay) -> Iterator[pa.Table]:
        """Yield the rows of a day's segments, each position once."""
        hours = (map(partial(_segment, self._prefix), unpack(hour)) for hour in day.hours)
        segments = linked(heapq.merge(*hours, key=position_order), of_shard)
        rows = RecordRows(_GROUP_BYTES)
        with request_pool(FETCHES) as pool:
            bodies = fetch_bodies(pool, self._storage, Ready(segments))
            for row in merge(bodies, partial(read_body, self._storage), _Errors()):
                if self._selects(row):
                    rows.add(row)
                if rows.is_full:
                    yield rows.take()
        if rows:
            yield rows.take()

    def _selects(self, row: SegmentRecord) -> bool:
        place = row.segment.parsed.shard_id, row.record.position
        return (self._before is None or self._before.is_before(*place)) and (
            self._after is None or not self._after.is_before(*place)
        )

    def _in_schema(self, rows: pa.Table, day: Day) -> pa.Table:
        """Return rows in the columns of all days, with null in those that they lack, as raw rows lack typed ones."""

        def column(field: pa.Field) -> pa.Array:
            if field.name == DAY_NAME:
                return pa.repeat(pa.scalar(str(day), field.type), rows.num_rows)
            is_there = field.name in rows.column_names
            return rows[field.name].cast(field.type) if is_there else pa.nulls(rows.num_rows, field.type)

        return pa.Table.from_arrays([column(field) for field in self.schema], schema=self.schema)


class _Errors(Problems):
    """Raises what `cat` reports: a table with rows missing would not tell."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)

    def defect(self, key: str, what: str) -> None:
        raise FormatError(
            f"{key}: {what}", next_step="run minutebook audit for the day; minutebook cat shows the rest"
        )

    def unproven(self, what: str) -> None:
        raise ObjectVanished(what, next_step=_AGAIN)

    def repeat(self, shown: SegmentRecord, other: SegmentRecord) -> None:
        """Leave a position's second record out, as `compact` does: the audit judges whether they differ."""


def _batches(file: pq.ParquetFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file: so few at once that they are some megabytes, also where each is large."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        most = group.num_rows * _BATCH_BYTES // max(1, group.total_byte_size)
        rows = max(1, min(_BATCH_ROWS, most))
        yield from file.iter_batches(rows, row_groups=[number], columns=names, use_threads=False)


def _unpublished(rows: pa.Table, files: Sequence[ds.ParquetFileFragment]) -> pa.Table:
    """Return the rows whose positions are not in a day's files."""
    return rows.filter(pc.invert(_is_published(rows, files))) if files else rows


def _is_published(rows: pa.Table, files: Sequence[ds.ParquetFileFragment]) -> pa.BooleanArray:
    """Return of each row whether its position is in a day's files.

    The least and the greatest number, as texts, bound the row groups that are read: mostly none, because a shard's
    numbers ascend.
    """
    shard, number, _ = map(pc.field, PLACE)
    numbers = rows["sequence_number"].combine_chunks()
    bounds = pc.min_max(numbers)
    condition = (
        (number >= bounds["min"])
        & (number <= bounds["max"])
        & number.isin(pc.unique(numbers))
        & shard.isin(pc.unique(rows["shard_id"].combine_chunks()))
    )
    places = set[tuple[object, ...]]()
    for fragment in files:
        found = fragment.to_table(schema=SCHEMA, columns=list(PLACE), filter=condition)
        places.update(zip(*(found[name].to_pylist() for name in PLACE), strict=True))
    if not places:
        return pa.repeat(pa.scalar(False), rows.num_rows)
    own = zip(*(rows[name].to_pylist() for name in PLACE), strict=True)
    return pa.array([place in places for place in own], pa.bool_())


def open_live(
    uri: str,
    published: StorePrefix,
    archive: StorePrefix,
    dates: Sequence[Day],
    columns: Sequence[str] | None = None,
    *,
    before: Cut | None = None,
    after: Cut | None = None,
    missing: Missing = "error",
) -> LiveDays:
    """Open days one after the other, each as of its LIST; see `minutebook.reader.read`.

    Memory is one day's listing, packed (6 MB for 144,000 segments), and the segments of all days that are not
    published.
    """
    out, storage = open_output(published), open_output(archive)
    record = read_application(storage, archive.prefix) if before or after else None
    for cut in (before, after):
        if cut is not None:
            check_cut(cut, record)
    complete = complete_of(storage, archive.prefix)
    days, left_out = list[LiveDay](), list[tuple[dt.date, str]]()
    for date in dates:
        day = live_day(storage, archive.prefix, out, DayFolder(published.prefix, date), uri)
        if day.published is None and is_expired(storage, archive.prefix, date):
            left_out.append((date.date, "it was expired, and is not published"))
        else:
            days.append(day)
    if left_out and missing == "error":
        raise DayNotPublished(
            f"{uri}: " + "; ".join(f"{day}: {reason}" for day, reason in left_out),
            next_step='find out who removed the pointers, or leave the days out: missing="skip"',
        )
    parts = PublishedDays(_parts(days), tuple(left_out), published.address)
    files = open_files(parts, columns, before=before, after=after, others=[SCHEMA])
    live = PublishedDays(tuple(map(_live_part_of, days)), (), published.address)
    opened = open_files(live, SCHEMA.names, before=before, after=after) if any(day.parts for day in days) else None
    return LiveDays(days, left_out, (storage, archive.prefix), files, (before, after), complete, opened)


def _live_part_of(day: LiveDay) -> PublishedDay:
    files = tuple(file for file, _, _ in day.parts)
    return PublishedDay(day.day.date, "", "unknown", sum(file.rows for file in files), None, files)


def _parts(days: Iterable[LiveDay]) -> tuple[PublishedDay, ...]:
    return tuple(day.published for day in days if day.published is not None)


def live_day(storage: RetryingStorage, prefix: str, out: RetryingStorage, folder: DayFolder, uri: str) -> LiveDay:
    """List a day, then read its live parts, then its pointer and inventory: in this order (see above).

    Raises FormatError.
    """
    hours = in_parallel(
        partial(_listed, storage, prefix), ArchiveIndex(storage, prefix).hours(folder.day, 1), at_once=_LISTS
    )
    parts = read_parts(out, folder)
    current = read_current(out, folder, uri)
    named = iter(()) if current is None else current.reader.inventory(current.pointer)
    if current is not None and named is None:
        raise FormatError(f"{inventory_beside(current.pointer.manifest)} is missing", next_step=COMPACT)
    in_parts, covered = frozenset(key for part in parts for key in part.segments), set[str]()
    slots = {} if current is None else dict.fromkeys(map(slot_folder, in_parts), False)
    named = _noted(named or iter(()), in_parts, covered, slots)
    segments = (row for row in unnamed(chain.from_iterable(map(unpack, hours)), named) if row[0] not in in_parts)
    hour_path = len(Hour(folder.day, 0).path(prefix))
    packed = (_pack_sorted(prefix, rows) for _, rows in groupby(segments, key=lambda row: row[0][:hour_path]))
    other_hours = tuple(packed)
    deque(named, maxlen=0)  # the rest of the inventory: it may name segments that are not listed any more
    left = tuple(
        (
            published_file(out, uri, part.file),
            part.segments & covered,
            frozenset(key for key in part.segments - covered if slots and slots[slot_folder(key)]),
        )
        for part in parts
        if part.segments - covered
    )
    return LiveDay(folder.day, None if current is None else current.day, other_hours, left)


def _noted(
    named: Iterator[PublishedRow], keys: Collection[str], seen: set[str], slots: dict[str, bool]
) -> Iterator[PublishedRow]:
    """Yield the rows of an inventory, and note which of some keys it names, and of which slots it names any."""
    for row in named:
        if row[0] in keys:
            seen.add(row[0])
        if slots and (slot := slot_folder(row[0])) in slots:
            slots[slot] = True
        yield row


def _listed(storage: RetryingStorage, prefix: str, hour: Hour) -> bytes:
    segments, _ = parse_listing(prefix, storage.list_objects(hour.path(prefix)))
    return _pack((segment.key, segment.etag, segment.size, 0) for segment in segments)


def unnamed(listed: Iterable[PublishedRow], named: Iterator[PublishedRow]) -> Iterator[PublishedRow]:
    """Yield the listed segments that an inventory does not name with their ETags; both are in the order of keys."""
    row = next(named, None)
    for segment in listed:
        while row is not None and row[0].encode() < segment[0].encode():
            row = next(named, None)
        if row is None or row[:2] != segment[:2]:
            yield segment


def _segment(prefix: str, row: PublishedRow) -> SegmentToRead:
    key, etag, size, _ = row
    return SegmentToRead(key, size, etag, parse_segment_key(prefix, key))


def _pack_sorted(prefix: str, rows: Iterable[PublishedRow]) -> bytes:
    return _pack(sorted(rows, key=lambda row: position_order(_segment(prefix, row))))


def _pack(rows: Iterable[PublishedRow]) -> bytes:
    """Return rows as an inventory stores them: 40 bytes a segment instead of 400."""
    return gzip.compress(msgspec.json.Encoder().encode_lines(list(rows)), 1, mtime=0)


def unpack(packed: bytes) -> Iterator[PublishedRow]:
    """Yield packed rows."""
    return decode_inventory(packed, "a packed listing", "")
