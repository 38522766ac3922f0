"""List a day in tasks: the rows stay in shard groups, and the driver keeps counts.

One task lists each folder below the day, so that objects that are no segments are found and reported too. The rows
also pass through the driver into a spooled file in the order of keys: it is published beside the manifest, and its
hash of keys, ETags and sizes names the generation, so that one object more gives another name.
"""

import gzip
import itertools
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from compaction.inventory.segments import ListedSegment, make_row
from compaction.shard_groups import port
from compaction.shard_groups.grouping import ShardGrouping
from compaction.shard_groups.opened import open_in_task
from compaction.verdict.basis import FolderBasis, folder_basis
from minutebook.compression import Compression
from minutebook.errors import ObjectVanished
from minutebook.format.day import Day
from minutebook.format.minute import MINUTE_MS
from minutebook.published.inventory import PublishedRow, inventory_digest
from minutebook.store.objects import ListedObject
from minutebook.store.retrying import RetryingStorage
from minutebook.store.storage import Address

_MEMORY_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20


class ListingPiece(NamedTuple):
    """What one task lists: a folder, or objects beside the folders that are listed already."""

    folder: str
    objects: tuple[ListedObject, ...] = ()


class ListArgument(NamedTuple):
    """Where a task lists, and which objects count: before minute `end` (None: all), of one shard (None: of all).

    `storage` None: the task runs in another process and opens its own. `lines` is the group of the encoded rows.
    """

    address: Address
    storage: RetryingStorage | None
    prefix: str
    grouping: ShardGrouping
    end: int | None
    shard: str | None
    lines: int


class ListedPiece(NamedTuple):
    """What a piece holds in the scope: its folder, marks by group, and objects whose key is not a segment's."""

    folder: FolderBasis
    marks: dict[int, int]
    foreign: tuple[ListedSegment, ...]
    is_more: bool


class Spool:
    """The compressed rows of a day in a local file; up to 1 MiB stays in memory."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 - lives as long as this object
        weakref.finalize(self, self._file.close)

    def add(self, member: bytes) -> None:
        """Append rows that `_lines` has encoded."""
        self._file.write(member)

    def rows(self) -> Iterator[PublishedRow]:
        """Yield the rows in the order of keys."""
        self._file.seek(0)
        decoder = msgspec.json.Decoder(PublishedRow)
        with gzip.open(self._file) as lines:
            for line in lines:
                yield decoder.decode(line)

    def chunks(self) -> Iterator[bytes]:
        """Yield the file's bytes, as they are published."""
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK_BYTES):
            yield chunk


class DayObjects(NamedTuple):
    """What is stored of one day. `rows` are in the groups of their shards, as lists.

    `storage` None: tasks run in other processes and open their own.
    `until_ms` ends the scope within the day (None: the whole day); `has_later`: `rows` include later minutes, which
    are not counted.
    `compression` is the prefix's, by its application record; None: unknown. `groups`: how many there are of `rows`.
    """

    day: Day
    prefix: str
    rows: port.ShardGroups
    grouping: ShardGrouping
    spool: Spool
    storage: RetryingStorage | None
    folders: tuple[FolderBasis, ...]
    marks: dict[int, int]
    foreign: tuple[ListedSegment, ...]
    until_ms: int | None = None
    has_later: bool = False
    shard: str | None = None
    compression: Compression | None = None
    groups: int = 0

    @property
    def objects(self) -> int:
        """How many objects there are."""
        return sum(folder.objects for folder in self.folders)

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(folder.bytes for folder in self.folders)

    @property
    def end_ms(self) -> int:
        """The first millisecond after it."""
        return self.day.end_ms if self.until_ms is None else self.until_ms

    @property
    def end_minute(self) -> int | None:
        """The first minute after it; None: the whole day."""
        return _end_minute(self.until_ms)

    def digest(self, *salt: str) -> str:
        """Return the hash of keys, ETags and sizes, and of `salt`: 64 hex digits."""
        return inventory_digest((row[:3] for row in self.spool.rows()), *salt)

    def holds(self, row: ListedSegment) -> bool:
        """Return whether the scope includes an object of this key."""
        if not row.key.startswith(self.day.path(self.prefix)) or (self.shard and f"/{self.shard}/" not in row.key):
            return False
        end = self.end_minute
        return row.parsed is None or end is None or row.parsed.minute < end


def _end_minute(until_ms: int | None) -> int | None:
    return None if until_ms is None else until_ms // MINUTE_MS


class DayListing(NamedTuple):
    """The storage to list, and how the work is spread."""

    storage: RetryingStorage
    address: Address
    source: port.GroupSource
    grouping: ShardGrouping


def list_objects(
    listing: DayListing, day: Day, prefix: str, until_ms: int | None = None, shard: str | None = None
) -> DayObjects:
    """List a day: the part before a time, or one shard."""
    grouping = listing.grouping
    pieces = _pieces(listing.storage, day.path(prefix))
    storage = listing.storage if listing.source.is_local else None
    end = _end_minute(until_ms)
    arguments = {
        number: ListArgument(listing.address, storage, prefix, grouping, end, shard, grouping.total + number)
        for number in range(len(pieces))
    }
    rows = listing.source.scatter(pieces).repartition(list_piece, arguments, grouping.total + len(pieces))
    listed: list[ListedPiece] = port.driver_values(rows)
    spool = Spool()
    for argument in arguments.values():
        for member in rows.collect(port.group_values, {argument.lines: None})[argument.lines]:
            spool.add(member)
    marks: dict[int, int] = defaultdict(int)
    for piece in listed:
        for group, mark in piece.marks.items():
            marks[group] += mark
    return DayObjects(
        day,
        prefix,
        rows,
        grouping,
        spool,
        storage,
        folders=_folders(listed),
        marks=dict(marks),
        foreign=tuple(sorted((row for piece in listed for row in piece.foreign), key=lambda row: row.key.encode())),
        until_ms=until_ms,
        has_later=any(piece.is_more for piece in listed),
        shard=shard,
        groups=grouping.total + len(pieces),
    )


def _folders(pieces: Sequence[ListedPiece]) -> tuple[FolderBasis, ...]:
    """Return what the folders hold, in order; objects beside them, in several pieces, count as one."""
    beside = [row.listed for piece in pieces if not piece.folder.folder for row in piece.foreign]
    folders = [piece.folder for piece in pieces if piece.folder.folder]
    return tuple(folder for folder in [folder_basis("", beside), *folders] if folder.objects)


def _pieces(storage: RetryingStorage, folder: str) -> list[ListingPiece]:
    """Return what there is to list, in the order of keys: no folder is a prefix of another folder or object."""
    level = storage.list_level(folder)
    entries: list[tuple[bytes, ListedObject | None, str]] = [(name.encode(), None, name) for name in level.folders]
    entries += [(row.key.encode(), row, "") for row in level.objects]
    entries.sort(key=lambda entry: entry[0])
    pieces = [
        ListingPiece(name, tuple(row for _, row, _ in group if row is not None))
        for name, group in itertools.groupby(entries, key=lambda entry: entry[2])
    ]
    return pieces or [ListingPiece("")]


def list_piece(values: port.Values, argument: ListArgument) -> Iterator[port.GroupValue]:
    """List a piece of the day and send its rows to the groups of their shards. Runs in a task."""
    storage = argument.storage or open_in_task(argument.address)
    by_group: dict[int, list[ListedSegment]] = defaultdict(list)
    marks: dict[int, int] = defaultdict(int)
    foreign: list[ListedSegment] = []
    inside: list[ListedSegment] = []
    is_more = False
    for piece in values:
        objects = storage.list_objects(piece.folder) if piece.folder else piece.objects
        for listed in sorted(objects, key=lambda row: row.key.encode()):
            if argument.shard is not None and f"/{argument.shard}/" not in listed.key:
                continue
            row = make_row(argument.prefix, listed)
            group = port.DRIVER_GROUP if row.parsed is None else argument.grouping.of(row.parsed.shard_id)
            is_later = argument.end is not None and row.parsed is not None and row.parsed.minute >= argument.end
            is_more |= is_later
            if not is_later:
                inside.append(row)
                marks[group] += _mark_of(row)
            if row.parsed is None:
                foreign.append(row)
            else:
                by_group[group].append(row)
    yield from by_group.items()
    yield argument.lines, _lines(inside)
    name = values[0].folder.rstrip("/").rpartition("/")[2] if values else ""
    folder = folder_basis(name, (row.listed for row in inside))
    yield port.DRIVER_GROUP, ListedPiece(folder, dict(marks), tuple(foreign), is_more)


def _mark_of(row: ListedSegment) -> int:
    """Return a hash of a row. Sums of them compare sets of rows in any order."""
    return int.from_bytes(blake2b(f"{row.key}\t{row.etag}\t{row.size}".encode(), digest_size=8).digest())


def check_mark(rows: Iterable[ListedSegment], mark: int) -> None:
    """Raise ObjectVanished unless the marks of the rows add up to `mark`: a retried task listed other objects."""
    if sum(map(_mark_of, rows)) != mark:
        raise ObjectVanished(
            "some of the day's objects were listed again on another machine, and are not the same",
            next_step="run the command again",
        )


def _lines(rows: Iterable[ListedSegment]) -> bytes:
    lines = b"".join(msgspec.json.encode([row.key, row.etag, row.size, row.last_modified_ms]) + b"\n" for row in rows)
    return gzip.compress(lines, 6, mtime=0)
