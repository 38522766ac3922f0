"""Single changes of an archive, each about one of its days: what may make a fresh audit say something else."""

import json
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from compaction.inventory.segments import make_row
from minutebook.format.coverage_markers import (
    AdoptedMarker,
    SkippedMarker,
    UndeliveredRecord,
    encode_coverage_marker,
    skipped_key,
    undelivered_key,
)
from minutebook.format.day import Day
from minutebook.format.keys import DUPLICATES, segment_key
from minutebook.format.markers import EndMarker, StartMarker, decode_marker, encode_marker
from minutebook.format.metadata import Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark, encode_read_mark, read_mark_key
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter, read_records
from tests.corpus.model import PREFIX
from tests.fakes.archive_scene import end_marker
from tests.lives.memory import MemoryDirectory
from tests.lives.world import GZIP, HOUR

Change = Callable[["Archive", Day], bool]
"""Changes something about a day; False: there is nothing of the kind."""
CHANGES: Final[dict[str, Change]] = {}


class Segment(NamedTuple):
    """A segment that is stored."""

    key: str
    metadata: SegmentMetadata
    body: bytes


class Archive:
    """The objects of an archive, to be changed behind everybody's back."""

    def __init__(self, store: MemoryDirectory) -> None:
        self.store = store

    def keys(self, folder: str) -> list[str]:
        """Return the keys of a folder below the prefix."""
        return [row.key for row in self.store.list_objects(f"{PREFIX}{folder}")]

    def segments(self, day: Day, shard: str = "") -> list[Segment]:
        """Return a day's segments, by shard and position."""
        found = []
        for row in self.store.list_objects(day.path(PREFIX)):
            parsed = make_row(PREFIX, row).parsed
            if parsed is None or not parsed.shard_id.endswith(shard):
                continue
            stored = self.store.get(row.key)
            assert stored is not None
            found.append(Segment(row.key, SegmentMetadata.decode(stored.metadata), stored.body))
        return sorted(found, key=lambda one: (one.metadata.shard_id, one.metadata.first))

    def put(self, key: str, body: bytes, fields: dict[str, str] | None = None) -> None:
        """Put an object there, whatever was there."""
        self.store.delete([key])
        self.store.put_if_absent(key, body, fields or {}, GZIP)

    def write(
        self, shard: str, minute: int, records: list[Record], after: Predecessor, writer: str = "other-1"
    ) -> None:
        """Write a segment."""
        made = SegmentWriter(shard, minute)
        made.extend(records)
        metadata = made.metadata(after=after, writer=writer)
        self.put(segment_key(PREFIX, shard, minute, metadata.first), made.body(), metadata.encode())

    def now_ms(self) -> int:
        """Return the time."""
        return self.store.clock.now_ms()


def change(made: Change) -> Change:
    """Add to the table."""
    CHANGES[made.__name__.strip("_").replace("_", " ")] = made
    return made


def _records(segment: Segment) -> list[Record]:
    return [record for _, record in read_records(segment.body, segment.metadata.shard_id)]


def _pick(archive: Archive, day: Day, at: int, shard: str = "") -> Segment | None:
    segments = archive.segments(day, shard)
    return segments[at] if len(segments) > 2 else None


@change
def nothing(_archive: Archive, _day: Day) -> bool:
    """Change nothing."""
    return True


def _deleted(archive: Archive, day: Day, at: int) -> bool:
    segment = _pick(archive, day, at)
    if segment is not None:
        archive.store.delete([segment.key])
    return segment is not None


@change
def first_segment_deleted(archive: Archive, day: Day) -> bool:
    """Delete it."""
    return _deleted(archive, day, 0)


@change
def middle_segment_deleted(archive: Archive, day: Day) -> bool:
    """Delete it."""
    return _deleted(archive, day, 2)


@change
def last_segment_deleted(archive: Archive, day: Day) -> bool:
    """Delete it."""
    return _deleted(archive, day, -1)


@change
def segment_restored(archive: Archive, day: Day) -> bool:
    """Put the same bytes again: only the time is another one."""
    segment = _pick(archive, day, 2)
    if segment is not None:
        archive.put(segment.key, segment.body, segment.metadata.encode())
    return segment is not None


@change
def segment_cut(archive: Archive, day: Day) -> bool:
    """Cut the body."""
    segment = _pick(archive, day, 2)
    if segment is not None:
        archive.put(segment.key, segment.body[:40], segment.metadata.encode())
    return segment is not None


@change
def line_removed(archive: Archive, day: Day) -> bool:
    """Leave a line out, and let the metadata count as before."""
    segment = _pick(archive, day, 2)
    if segment is not None:
        made = SegmentWriter(segment.metadata.shard_id, segment.metadata.minute)
        made.extend(_records(segment)[:1])
        archive.put(segment.key, made.body(), segment.metadata.encode())
    return segment is not None


@change
def metadata_changed(archive: Archive, day: Day) -> bool:
    """Let the metadata name another predecessor."""
    segment = _pick(archive, day, 2)
    if segment is not None:
        wrong = msgspec.structs.replace(segment.metadata, after=Position(5, 0))
        archive.put(segment.key, segment.body, wrong.encode())
    return segment is not None


@change
def doubling_segment(archive: Archive, day: Day) -> bool:
    """Write the rest of a segment again."""
    segment = next((one for one in archive.segments(day)[2:] if one.metadata.records > 1), None)
    if segment is not None:
        first, *rest = _records(segment)
        archive.write(segment.metadata.shard_id, segment.metadata.minute, rest, first.position)
    return segment is not None


@change
def forking_segment(archive: Archive, day: Day) -> bool:
    """Write new records behind a position that has a successor."""
    segment = _pick(archive, day, 2)
    if segment is not None:
        _append(archive, segment, day, segment.metadata.minute + 1, 9)
    return segment is not None


def _append(archive: Archive, segment: Segment, _day: Day, minute: int, further: int) -> None:
    last = segment.metadata.last
    record = Record(str(last.sequence + further), 0, "k", minute * MINUTE_MS + 5, b'{"n":-1}')
    archive.write(segment.metadata.shard_id, minute, [record], last)


@change
def late_segment_at_the_days_end(archive: Archive, day: Day) -> bool:
    """Write new records behind the shard's last segment of the day, in the day's last minute."""
    segment = _pick(archive, day, -1, "0")
    if segment is not None:
        _append(archive, segment, day, day.first_minute + 1438, 1)
    return segment is not None


@change
def late_segment_before_all(archive: Archive, day: Day) -> bool:
    """Write new records between the last segment of the day before and the first one."""
    segment = _pick(archive, day.shift(-1), -1, "0")
    if segment is not None:
        _append(archive, segment, day, day.first_minute, 1)
    return segment is not None


@change
def segment_behind_the_tail(archive: Archive, day: Day) -> bool:
    """Write new records behind all others of the shard, stamped in the middle of the day."""
    every = [one for number in range(5) for one in archive.segments(day.shift(number), "0")]
    if every:
        _append(archive, max(every, key=lambda one: one.metadata.last), day, day.first_minute + 700, 9)
    return bool(every)


@change
def stranger_at_the_edge(archive: Archive, day: Day) -> bool:
    """Write a segment of a shard that nothing names, in the day's first minute."""
    record = Record("77", 0, "k", day.first_minute * MINUTE_MS + 5, b"x")
    archive.write("shardId-000000000077", day.first_minute, [record], Position(3, 0))
    return True


@change
def segment_copied_to_another_minute(archive: Archive, day: Day) -> bool:
    """Copy a segment to a key that is not its own."""
    segment = _pick(archive, day, 2)
    if segment is not None:
        metadata = segment.metadata
        key = segment_key(PREFIX, metadata.shard_id, metadata.minute + 3, metadata.first)
        archive.put(key, segment.body, metadata.encode())
    return segment is not None


@change
def foreign_object_in_an_hour(archive: Archive, day: Day) -> bool:
    """Put an object there."""
    archive.put(f"{day.path(PREFIX)}05/stray", b"x")
    return True


@change
def foreign_object_below_the_day(archive: Archive, day: Day) -> bool:
    """Put an object there."""
    archive.put(f"{day.path(PREFIX)}stray", b"x")
    return True


@change
def undelivered_record(archive: Archive, day: Day) -> bool:
    """Keep a record that KCL does not deliver."""
    arrival = day.begin_ms + 5 * HOUR
    record = UndeliveredRecord(
        format=1, shard="shardId-000000000000", sequence_number="5", first_sub=0, partition_key="k",
        arrival_ms=arrival, reason="empty", data_base64="", writer="w", written_at="t",
    )  # fmt: skip
    archive.put(undelivered_key(PREFIX, record.shard, arrival, 5), encode_coverage_marker(record))
    return True


@change
def skip_marker(archive: Archive, day: Day) -> bool:
    """Tell of skipped records, logged on the day."""
    logged = min(day.begin_ms + 12 * HOUR, archive.now_ms())
    shard = "shardId-000000000000"
    marker = SkippedMarker(format=1, shard=shard, logged_at_ms=logged, message="m", writer="w", written_at="t")
    archive.put(skipped_key(PREFIX, shard, logged, "w"), encode_coverage_marker(marker))
    return True


@change
def skip_marker_before_the_day(archive: Archive, day: Day) -> bool:
    """Tell of skipped records, logged in the last minutes of the day before."""
    logged = min(day.begin_ms - MINUTE_MS, archive.now_ms())
    shard = "shardId-000000000000"
    marker = SkippedMarker(format=1, shard=shard, logged_at_ms=logged, message="m", writer="w", written_at="t")
    key = skipped_key(PREFIX, shard, logged, "w")
    archive.put(key, encode_coverage_marker(marker))
    archive.store.stamp(key, logged + MINUTE_MS)
    return True


def _duplicates(archive: Archive, day: Day) -> list[str]:
    return archive.keys(day.path(DUPLICATES))


@change
def duplicates_deleted(archive: Archive, day: Day) -> bool:
    """Delete dropped lines."""
    keys = _duplicates(archive, day)
    archive.store.delete(keys[:1])
    return bool(keys)


@change
def duplicates_cut(archive: Archive, day: Day) -> bool:
    """Damage dropped lines."""
    keys = _duplicates(archive, day)
    if keys:
        archive.put(keys[0], b"x")
    return bool(keys)


@change
def duplicates_added(archive: Archive, day: Day) -> bool:
    """Put dropped lines beside a segment that dropped none."""
    segment = _pick(archive, day, 1)
    if segment is not None:
        archive.put(segment.key.replace(PREFIX, f"{PREFIX}{DUPLICATES}").replace(".jsonl", "-zz.jsonl"), segment.body)
    return segment is not None


def _marks(archive: Archive, day: Day) -> list[str]:
    return archive.keys(f"_read/{day}/")


@change
def first_mark_deleted(archive: Archive, day: Day) -> bool:
    """Delete it."""
    keys = _marks(archive, day)
    archive.store.delete(keys[:1])
    return bool(keys)


@change
def last_mark_deleted(archive: Archive, day: Day) -> bool:
    """Delete it."""
    keys = _marks(archive, day)
    archive.store.delete(keys[-1:])
    return bool(keys)


@change
def all_marks_deleted(archive: Archive, day: Day) -> bool:
    """Delete them."""
    keys = _marks(archive, day)
    archive.store.delete(keys)
    return bool(keys)


@change
def marks_restored(archive: Archive, day: Day) -> bool:
    """Put the same bytes again: only the time is another one."""
    keys = _marks(archive, day)
    for key in keys:
        stored = archive.store.get(key)
        assert stored is not None
        archive.put(key, stored.body)
    return bool(keys)


def _mark(archive: Archive, day: Day, continuity: Continuity, position: Position | None) -> None:
    shard = "shardId-000000000001"
    begin, until = day.begin_ms + 9 * HOUR, day.begin_ms + 10 * HOUR
    mark = ReadMark(shard, MarkKind.READ, continuity, begin, until, position, "other-1")
    archive.put(read_mark_key(PREFIX, day, mark), encode_read_mark(mark))


@change
def proven_mark_added(archive: Archive, day: Day) -> bool:
    """Add a mark that stands on the shard's last segment before it."""
    before = [one for one in archive.segments(day, "1") if one.metadata.minute < day.first_minute + 540]
    if before:
        _mark(archive, day, Continuity.PROVEN, before[-1].metadata.last)
    return bool(before)


@change
def lost_mark_added(archive: Archive, day: Day) -> bool:
    """Add a mark that says that records are lost before it."""
    _mark(archive, day, Continuity.LOST, None)
    return True


@change
def mark_of_a_missing_segment_added(archive: Archive, day: Day) -> bool:
    """Add a mark that stands on a position that no segment has."""
    _mark(archive, day, Continuity.PROVEN, Position(10**25, 0))
    return True


@change
def foreign_mark_added(archive: Archive, day: Day) -> bool:
    """Put an object there that is no mark."""
    archive.put(f"{PREFIX}_read/{day}/stray", b"x")
    return True


def _expired(archive: Archive, day: Day, body: bytes) -> bool:
    archive.put(f"{PREFIX}_expired/{day}.json", body)
    return True


@change
def tombstone_damaged(archive: Archive, day: Day) -> bool:
    """Put a tombstone there that nobody can read."""
    return _expired(archive, day, b"{}")


@change
def tombstone_added(archive: Archive, day: Day) -> bool:
    """Put a tombstone there that covers nothing, and leave the objects."""
    stone = {
        "format": 1, "day": str(day), "generation": "g", "segments": 0, "bytes": 0, "shards": {}, "writer": "w",
        "written_at": "t",
    }  # fmt: skip
    return _expired(archive, day, json.dumps(stone).encode())


def _ends(archive: Archive) -> Iterator[tuple[str, EndMarker]]:
    for key in archive.keys("_shards/"):
        if key.endswith("end.json"):
            stored = archive.store.get(key)
            assert stored is not None
            yield key, decode_marker(stored.body, EndMarker, key)


def _once(made: Callable[[Archive], bool]) -> Change:
    """Return a change that has no day: it is made for one day only."""

    def changed(archive: Archive, day: Day) -> bool:
        return day.number % 4 == _ONLY and made(archive)

    changed.__name__ = made.__name__
    return change(changed)


_ONLY: Final = Day.parse("2027-01-06").number % 4


@_once
def child_of_an_ended_shard_opened(archive: Archive) -> bool:
    """Let a further shard name an ended one as its parent."""
    for key, end in _ends(archive):
        sibling = key.replace(end.shard, end.children[0]).replace("end.json", "opened.json")
        stored = archive.store.get(sibling)
        assert stored is not None
        body = stored.body.replace(end.children[0].encode(), b"shardId-000000000088")
        archive.put(f"{PREFIX}_shards/shardId-000000000088/opened.json", body)
        return True
    return False


@_once
def end_marker_deleted(archive: Archive) -> bool:
    """Delete it."""
    ends = list(_ends(archive))
    archive.store.delete([key for key, _ in ends][:1])
    return bool(ends)


@_once
def end_marker_changed(archive: Archive) -> bool:
    """Let it name another last record."""
    for key, end in _ends(archive):
        archive.put(key, encode_marker(msgspec.structs.replace(end, last="99:0")))
        return True
    return False


@_once
def end_marker_without_children(archive: Archive) -> bool:
    """Let it name no children."""
    for key, end in _ends(archive):
        archive.put(key, encode_marker(msgspec.structs.replace(end, children=[])))
        return True
    return False


@_once
def open_shard_ended(archive: Archive) -> bool:
    """Reshard a shard that was open: its end, and a child."""
    shard = "shardId-000000000000"
    marker = end_marker(shard, None, children=["shardId-000000000099"])
    archive.put(f"{PREFIX}_shards/{shard}/end.json", encode_marker(marker))
    return True


@_once
def start_marker_deleted(archive: Archive) -> bool:
    """Delete it."""
    archive.store.delete([f"{PREFIX}_shards/shardId-000000000000/start.json"])
    return True


@_once
def start_marker_changed(archive: Archive) -> bool:
    """Let it name another first record."""
    key = f"{PREFIX}_shards/shardId-000000000000/start.json"
    stored = archive.store.get(key)
    assert stored is not None
    marker = decode_marker(stored.body, StartMarker, key)
    archive.put(key, encode_marker(msgspec.structs.replace(marker, first="7:0")))
    return True


@_once
def opened_marker_deleted(archive: Archive) -> bool:
    """Delete it."""
    archive.store.delete([f"{PREFIX}_shards/shardId-000000000001/opened.json"])
    return True


@_once
def first_shards_deleted(archive: Archive) -> bool:
    """Delete the list."""
    archive.store.delete([f"{PREFIX}_shards/first.json"])
    return True


@_once
def foreign_marker(archive: Archive) -> bool:
    """Put an object there that is no marker."""
    archive.put(f"{PREFIX}_shards/shardId-000000000000/stray", b"x")
    return True


@_once
def adopted_marker(archive: Archive) -> bool:
    """Say that a shard was adopted."""
    shard = "shardId-000000000000"
    marker = AdoptedMarker(format=1, shard=shard, position="7:0", held=True, writer="w", written_at="t")
    archive.put(f"{PREFIX}_shards/{shard}/adopted.json", encode_coverage_marker(marker))
    return True


@_once
def application_record_deleted(archive: Archive) -> bool:
    """Delete it."""
    archive.store.delete([f"{PREFIX}_application.json"])
    return True


@_once
def markers_restored(archive: Archive) -> bool:
    """Put the same bytes again: only the time is another one."""
    for key in archive.keys("_shards/"):
        stored = archive.store.get(key)
        assert stored is not None
        archive.put(key, stored.body)
    return True
