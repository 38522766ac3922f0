"""The archive of a life in memory: a dictionary of objects, with what LIST, HEAD and a reading of each would tell.

Nothing is read or parsed again: each object carries its row, its metadata, its facts and its link, made once when it
is written. As on S3, LastModified is of whole seconds, and an ETag is one of the bytes alone.
"""

import bisect
import functools
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from compaction.inventory.segments import ListedSegment, SegmentFacts, make_row
from compaction.inventory.shard_markers import ArchiveMarkers, ShardMarkers
from compaction.verdict.basis import FolderBasis, digest_of
from minutebook.coverage.evidence import EvidenceLink, segment_link
from minutebook.coverage.shard_coverage import Skip
from minutebook.format.coverage_markers import FirstShards, OpenedMarker, decode_coverage_marker, skipped_key
from minutebook.format.day import MINUTES_A_DAY, MINUTES_AN_HOUR, Day
from minutebook.format.keys import SegmentKey
from minutebook.format.markers import ApplicationRecord, EndMarker, StartMarker, decode_marker
from minutebook.format.metadata import SegmentMetadata
from minutebook.format.position import Position
from minutebook.format.read_mark import ReadMark, mark_days
from minutebook.format.tombstone import Tombstone, tombstone_key
from minutebook.proof.statements import ShardStatements, Statements, StoredMark
from minutebook.store.objects import ListedObject
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import ArchiveScene
from tests.fakes.clock import ManualClock
from tests.lives.world import Sent

SECOND: Final = 1000
_HEADERS: Final = 200
"""Bytes of a body without payloads."""


class _Fields(Mapping[str, str]):
    """The user metadata of a segment, encoded when somebody looks."""

    def __init__(self, metadata: SegmentMetadata) -> None:
        self._metadata = metadata

    @functools.cached_property
    def _fields(self) -> dict[str, str]:
        return self._metadata.encode()

    def __getitem__(self, name: str) -> str:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class Entry(NamedTuple):
    """One object below a day. `records` are its lines; None: nobody can read them. `link`: it is a segment."""

    row: ListedSegment
    metadata: SegmentMetadata | None
    facts: SegmentFacts
    records: tuple[Sent, ...] | None
    link: EvidenceLink | None

    @property
    def key(self) -> str:
        """Its key."""
        return self.row.key


def segment_entry(
    key: str, metadata: SegmentMetadata, records: tuple[Sent, ...] | None, stored_ms: int, tag: str = ""
) -> Entry:
    """Return a segment as it is stored at a time; `tag`: its ETag is not that of one PUT of its bytes."""
    body = b"cut" if records is None else b"".join([sent.data for sent in records])
    fields = _Fields(metadata)
    etag = f"{zlib.crc32(body):08x}{len(body)}"
    size = _HEADERS + len(body)
    parsed = SegmentKey(metadata.minute, metadata.shard_id, metadata.first)
    row = ListedSegment(key, size, f"{etag}{tag}", stored_ms, parsed)
    digest = f"{etag} {metadata.writer} {metadata.last} {metadata.records}"
    if records is None:
        facts = SegmentFacts(key, fields, digest=digest, problem="it is cut")
        return Entry(row, metadata, facts, records, segment_link(metadata, stored_ms))
    facts = SegmentFacts(
        key,
        fields,
        lines=len(records),
        raw_bytes=size,
        payload_bytes=len(body),
        first=records[0].position,
        last=records[-1].position,
        low=records[0].position,
        high=records[-1].position,
        arrival_min_ms=metadata.arrival_min_ms,
        arrival_max_ms=metadata.arrival_max_ms,
        digest=digest,
    )
    return Entry(row, metadata, facts, records, segment_link(metadata, stored_ms))


def foreign_entry(key: str, stored_ms: int) -> Entry:
    """Return an object of nobody."""
    row = make_row(PREFIX, ListedObject(key, 1, "foreign", stored_ms))
    return Entry(row, None, SegmentFacts(key, {}, digest="foreign", problem="it is no segment"), None, None)


class Archive:
    """The objects, by day and minute, and what is stored beside them. `versions` count changes, by what changed."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.by_day: dict[int, dict[str, Entry]] = defaultdict(dict)
        self.by_minute: dict[int, dict[str, Entry]] = defaultdict(dict)
        self.application: ApplicationRecord | None = None
        self.tombstones: dict[Day, tuple[ListedObject, Tombstone]] = {}
        self.marks: dict[Day, dict[ReadMark, StoredMark]] = defaultdict(dict)
        self.markers: dict[str, tuple[ListedObject, object]] = {}
        self.versions: Counter[object] = Counter()
        """How often something changed: a day's objects (by its number), a day's marks (by the day), the rest ("")."""
        self._skips: dict[str, list[tuple[ListedObject, Skip]]] = defaultdict(list)
        self._by_shard: dict[str, dict[str, Entry]] = defaultdict(dict)
        self._chains: dict[str, tuple[list[tuple[Position, Position]], list[Entry]]] = {}
        self._folders: dict[tuple[int, int | None], tuple[FolderBasis, ...]] = {}
        self._hours: dict[tuple[int, int], FolderBasis] = {}
        self._beside: tuple[dict[str, ShardStatements], FirstShards | None, tuple[ListedObject, ...]] | None = None

    def stamp_ms(self) -> int:
        """Return the service's time."""
        return self.clock.now_ms() // SECOND * SECOND

    # Objects

    def get(self, key: str) -> Entry | None:
        """Return an object."""
        return self.by_day[_day_number(key)].get(key)

    def put(self, entry: Entry) -> None:
        """Store an object, also over another one."""
        number = _day_number(entry.key)
        self.by_day[number][entry.key] = entry
        if entry.metadata is not None and entry.row.parsed is not None:
            self.by_minute[entry.row.parsed.minute][entry.key] = entry
            self._by_shard[entry.metadata.shard_id][entry.key] = entry
        self._forget(number, entry)

    def delete(self, key: str) -> Entry:
        """Delete an object; return it."""
        number = _day_number(key)
        entry = self.by_day[number].pop(key)
        if entry.metadata is not None and entry.row.parsed is not None:
            del self.by_minute[entry.row.parsed.minute][key]
            del self._by_shard[entry.metadata.shard_id][key]
        self._forget(number, entry)
        return entry

    def _forget(self, number: int, entry: Entry) -> None:
        self.versions[number] += 1
        if entry.metadata is not None:
            self._chains.pop(entry.metadata.shard_id, None)
        for known in [known for known in self._folders if known[0] == number]:
            del self._folders[known]
        self._hours.pop((number, _hour_of(entry)), None)

    def listed(self, day: Day, end_minute: int | None) -> list[Entry]:
        """Return the objects of a day, or of its minutes before one, in the order of keys."""
        return [
            entry
            for _, entry in sorted(self.by_day[day.number].items())
            if end_minute is None or entry.row.parsed is None or entry.row.parsed.minute < end_minute
        ]

    def folders(self, day: Day, end_minute: int | None) -> tuple[FolderBasis, ...]:
        """Return what the folders directly below a day hold."""
        known = self._folders.get((day.number, end_minute))
        if known is None:
            hours: dict[int, list[Entry]] = defaultdict(list)
            for entry in self.listed(day, end_minute):
                hours[_hour_of(entry)].append(entry)
            known = tuple(self._folder(day, hour, hours[hour], end_minute) for hour in sorted(hours))
            self._folders[day.number, end_minute] = known
        return known

    def _folder(self, day: Day, hour: int, entries: list[Entry], end_minute: int | None) -> FolderBasis:
        known = self._hours.get((day.number, hour)) if end_minute is None else None
        if known is None:
            listed = [entry.row.listed for entry in entries]
            size = sum(row.size for row in listed)
            name = "" if hour < 0 else f"{hour:02d}"
            known = FolderBasis(folder=name, objects=len(listed), bytes=size, digest=digest_of(listed))
            if end_minute is None:
                self._hours[day.number, hour] = known
        return known

    def chain(self, shard: str) -> list[Entry]:
        """Return a shard's segments in the order of positions."""
        return self._chain(shard)[1]

    def split(self, shard: str, at: Position) -> int:
        """Return how many of a shard's segments begin before a position."""
        return bisect.bisect_left(self._chain(shard)[0], (at, Position(-1)))

    def _chain(self, shard: str) -> tuple[list[tuple[Position, Position]], list[Entry]]:
        known = self._chains.get(shard)
        if known is None:
            entries = sorted(self._by_shard[shard].values(), key=_span)
            known = self._chains[shard] = ([_span(entry) for entry in entries], entries)
        return known

    # Beside them

    def put_mark(self, mark: ReadMark) -> None:
        """Store a mark under its days."""
        for day in mark_days(mark):
            self.set_mark(day, StoredMark(mark, self.stamp_ms()))

    def set_mark(self, day: Day, stored: StoredMark) -> None:
        """Store a mark under a day."""
        self.versions[day] += 1
        self.marks[day][stored.mark] = stored

    def take_mark(self, day: Day, mark: ReadMark) -> StoredMark:
        """Delete a mark of a day; return it."""
        self.versions[day] += 1
        return self.marks[day].pop(mark)

    def put_marker(self, key: str, body: bytes) -> None:
        """Store a marker of a shard, or the application's record."""
        name = key.rpartition("/")[2]
        value: object
        if name == "_application.json":
            self.application = decode_marker(body, ApplicationRecord, key)
            return
        if name == "start.json":
            value = decode_marker(body, StartMarker, key)
        elif name == "end.json":
            value = decode_marker(body, EndMarker, key)
        elif name == "first.json":
            value = decode_coverage_marker(body, FirstShards, key)
        else:
            value = decode_coverage_marker(body, OpenedMarker, key)
        etag = f"{zlib.crc32(body):08x}"
        self.set_marker(ListedObject(key, len(body), etag, self.stamp_ms()), value)

    def set_marker(self, row: ListedObject, value: object) -> None:
        """Store a parsed marker."""
        self.markers[row.key] = (row, value)
        self._forget_beside()

    def take_marker(self, key: str) -> tuple[ListedObject, object]:
        """Delete a marker; return it."""
        self._forget_beside()
        return self.markers.pop(key)

    def put_skip(self, shard: str, logged_ms: int, writer: str) -> None:
        """Store the marker of a skipped batch."""
        row = ListedObject(skipped_key(PREFIX, shard, logged_ms, writer), 1, "skip", self.stamp_ms())
        self._skips[shard].append((row, Skip(logged_ms, row.last_modified_ms)))
        self._forget_beside()

    def put_tombstone(self, day: Day, tombstone: Tombstone) -> None:
        """Store a tombstone."""
        self.tombstones[day] = (ListedObject(tombstone_key(PREFIX, day), 1, "tombstone", self.stamp_ms()), tombstone)
        self._forget_beside()

    def _forget_beside(self) -> None:
        self._beside = None
        self.versions[""] += 1

    def read_markers(self, days: Iterable[Day]) -> ArchiveMarkers:
        """Return what is stored beside the segments, and the marks of some days."""
        if self._beside is None:
            self._beside = self._read_beside()
        shards, first, rows = self._beside
        statements = Statements(
            shards=shards,
            first=first,
            tombstones={day: stone for day, (_, stone) in self.tombstones.items()},
            marks={day: tuple(self.marks[day].values()) for day in days},
            rows=rows,
            problems=(),
        )
        of_shards = {name: ShardMarkers(stated.start, stated.end) for name, stated in shards.items()}
        return ArchiveMarkers(of_shards, self.application, (), statements)

    def _read_beside(self) -> tuple[dict[str, ShardStatements], FirstShards | None, tuple[ListedObject, ...]]:
        first: FirstShards | None = None
        fields: dict[str, dict[str, object]] = defaultdict(dict)
        for row, value in self.markers.values():
            if isinstance(value, FirstShards):
                first = value
            elif isinstance(value, StartMarker):
                fields[value.shard]["start"] = value
            elif isinstance(value, OpenedMarker):
                fields[value.shard] |= {"opened": value, "opened_stored_ms": row.last_modified_ms}
            elif isinstance(value, EndMarker):
                fields[value.shard] |= {"end": value, "end_stored_ms": row.last_modified_ms}
        for shard, skips in self._skips.items():
            fields[shard]["skips"] = tuple(skip for _, skip in skips)
        rows = [row for row, _ in self.markers.values()]
        rows += [row for skips in self._skips.values() for row, _ in skips]
        rows += [row for row, _ in self.tombstones.values()]
        shards = {shard: ShardStatements(**stated) for shard, stated in sorted(fields.items())}  # type: ignore[arg-type]  # by the names of the fields
        return shards, first, tuple(rows)


class Scene(ArchiveScene[object]):  # type: ignore[type-var]  # nothing is put into a store
    """Writes markers and marks into an archive in memory."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive, PREFIX)
        self._archive = archive

    def mark(self, mark: ReadMark) -> None:
        """Write a read mark, under each of its days."""
        self._archive.put_mark(mark)

    def _put(self, key: str, body: bytes, content_type: str, fields: Mapping[str, str] | None = None) -> None:
        del content_type, fields
        self._archive.put_marker(key, body)


def _span(entry: Entry) -> tuple[Position, Position]:
    assert entry.metadata is not None
    return entry.metadata.first, entry.metadata.last


def _hour_of(entry: Entry) -> int:
    """Return the hour whose folder holds an object; -1: it lies beside the hours."""
    if entry.row.parsed is not None:
        return entry.row.parsed.minute % MINUTES_A_DAY // MINUTES_AN_HOUR
    folder, _, rest = entry.key.removeprefix(PREFIX)[len("yyyy/mm/dd/") :].partition("/")
    return int(folder) if rest else -1


def _day_number(key: str) -> int:
    known = _DAYS.get(key[: len(PREFIX) + 10])
    if known is None:
        text = key.removeprefix(PREFIX)[:10].replace("/", "-")
        known = _DAYS[key[: len(PREFIX) + 10]] = Day.parse(text).number
    return known


_DAYS: Final[dict[str, int]] = {}
