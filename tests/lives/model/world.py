"""A stream and its archive in memory, and the oracle: which records are wrong in the archive, and since when.

A record is wrong while the archive does not hold it once, with the content that it has. What nobody can know is not
wrong: a batch that KCL skipped without a marker, and an edit before the day was published. `since` counts events, so
that a night answers only for what was wrong when it began and has been since.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from minutebook.format.day import MINUTES_A_DAY, Day
from minutebook.format.keys import segment_key
from minutebook.format.metadata import Continuity, SegmentMetadata
from minutebook.format.position import Position
from minutebook.format.read_mark import MarkKind, ReadMark
from minutebook.store.objects import ListedObject
from tests.corpus.model import PREFIX
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS
from tests.lives.model.archive import Archive, Entry, Scene, foreign_entry, segment_entry
from tests.lives.world import Reading, ReadStream, Sent, Written

Name = tuple[str, Position]
EDITED: Final = b"edited"


class World(ReadStream):
    """A stream, its archive, and what is wrong with it."""

    def __init__(self, seed: int, begin_ms: int, shards: int) -> None:
        clock = ManualClock(begin_ms)
        self.archive = Archive(clock)
        self.events = 0
        """How many changes there were so far."""
        self.truth: dict[int, dict[Name, Sent]] = defaultdict(dict)
        """The records by day, with the content that readers must see."""
        self.since: dict[int, dict[Name, int]] = defaultdict(dict)
        """The wrong records by day, and since which change they are."""
        self.changed: dict[Name, int] = {}
        self.published: set[Name] = set()
        """Records that readers have seen: from now on an edit of them can be noticed."""
        self.removed: dict[str, Entry] = {}
        """Objects that are gone or damaged, as they were."""
        self.expired: list[Entry] = []
        """Segments that `expire` has deleted."""
        self.late: dict[Day, int] = {}
        """Expired days to which something was written since, and when it was."""
        self._holders: dict[Name, dict[str, bytes]] = defaultdict(dict)
        self._day_of: dict[Name, int] = {}
        self._edited_out: set[Name] = set()
        super().__init__(Scene(self.archive), clock, seed, shards=shards)
        self.mark_hours = (0, 8, 16)

    # What the processors write

    def put_segment(self, written: Written) -> str:
        """Write a segment; return its key."""
        assert not written.dropped, "the model has no dropped records"
        metadata = metadata_of(written)
        key = segment_key(PREFIX, written.shard, written.minute, metadata.first)
        self._put(segment_entry(key, metadata, tuple(written.records), self.archive.stamp_ms()))
        return key

    def tell_skip(self, name: str, logged_ms: int) -> None:
        """Write the marker of a batch that KCL skipped."""
        self.archive.put_skip(name, logged_ms, f"w{self.events}")
        self.events += 1

    def skip(self, name: str, later_ms: int) -> bool:
        """Let KCL skip what is being delivered; its marker comes later, and then the records are wrong."""
        pending = [sent for _, records in self.readings[name].pending for sent in records]
        is_done = super().skip(name, later_ms)
        if is_done:
            names = [name_of(sent) for sent in pending]
            self._settle(names)
            self.at(self.clock.now_ms() + later_ms, lambda: self._settle(names))
        return is_done

    def lose(self, name: str, later_ms: int) -> bool:
        """Let KCL skip what is being delivered, without a marker; a comparison with the stream tells it later."""
        pending = [sent for _, records in self.readings[name].pending for sent in records]
        if not pending or self.clock.now_ms() < self.readings[name].paused_until:
            return False
        self.readings[name].pending = []
        self.unseen |= (gone := {name_of(sent) for sent in pending})
        self._settle(gone)
        times = [sent.arrival_ms for sent in pending]

        def tell() -> None:
            mark = ReadMark(name, MarkKind.STREAM, Continuity.LOST, min(times) - 1, max(times), None, "audit-1")
            self.archive.put_mark(mark)
            self.unseen -= gone
            self._settle(gone)

        self.at(self.clock.now_ms() + later_ms, tell)
        return True

    def _records(self, reading: Reading, minute: int, count: int, at: int = 0) -> list[Sent]:
        made = super()._records(reading, minute, count, at)
        for sent in made:
            self._day_of[name_of(sent)] = number = sent.arrival_ms // DAY_MS
            self.truth[number][name_of(sent)] = sent
        self._settle(map(name_of, made))
        return made

    # What happens to the archive

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.removed.setdefault(key, self._take(key))

    def restore(self, key: str, tag: str = "") -> None:
        """Put a deleted, damaged or edited object back as it was; `tag`: as a copy with another ETag."""
        entry = self.removed.pop(key, None) or self.archive.get(key)
        if entry is None or entry.metadata is None:
            return
        if self.archive.get(key) is not None:
            self._take(key)
        self._put(segment_entry(key, entry.metadata, entry.records, self.archive.stamp_ms(), tag))

    def launder(self, key: str, *, drops: bool) -> None:
        """Put a deleted object back with other lines."""
        if key in self.removed and self.archive.get(key) is None:
            self.restore(key)
            self.edit(key, drops=drops)

    def damage(self, key: str) -> None:
        """Let an object be cut in place."""
        self._rewrite(key, None)

    def edit(self, key: str, *, drops: bool) -> None:
        """Let somebody put other lines into an object, with metadata that fit them."""
        entry = self.archive.get(key)
        if entry is None or not entry.records:
            return
        first, *rest = entry.records
        records = (first,) if drops and rest else (first._replace(data=EDITED + first.data), *rest)
        hidden = {name_of(sent) for sent in entry.records[len(records) :]} - self.published
        self._edited_out |= hidden
        self._rewrite(key, records)

    def double(self, key: str) -> str | None:
        """Let a zombie write a segment again, cut otherwise; return its key."""
        entry = self.archive.get(key)
        if entry is None or entry.records is None or len(entry.records) < 2 or entry.metadata is None:
            return None
        first, *rest = entry.records
        zombie = Written(entry.metadata.shard_id, entry.metadata.minute, rest, first.position, "zombie-1")
        return self.put_segment(zombie)

    def foreign(self, key: str) -> None:
        """Put an object there that is nobody's."""
        self.archive.put(foreign_entry(key, self.archive.stamp_ms()))
        self.events += 1

    def remove(self, key: str) -> None:
        """Delete an object that does not belong there."""
        if self.archive.get(key) is not None:
            self._take(key)

    def take_mark(self, day: Day, mark: ReadMark) -> Callable[[], None]:
        """Delete a mark of a day; return what puts it back."""
        self.events += 1
        stored = self.archive.take_mark(day, mark)

        def put_back() -> None:
            self.events += 1
            self.archive.set_mark(day, stored._replace(stored_ms=self.archive.stamp_ms()))

        return put_back

    def take_marker(self, key: str) -> Callable[[], None]:
        """Delete a marker; return what puts it back."""
        self.events += 1
        row, value = self.archive.take_marker(key)

        def put_back() -> None:
            self.events += 1
            now = ListedObject(row.key, row.size, row.etag, self.archive.stamp_ms())
            self.archive.set_marker(now, value)

        return put_back

    def segments(self, day: Day) -> list[str]:
        """Return the keys of a day's segments that are there and can be read."""
        return sorted(key for key, entry in self.archive.by_day[day.number].items() if entry.records)

    def expire(self, keys: Iterable[str]) -> None:
        """Delete segments for ever."""
        for key in keys:
            entry = self._take(key)
            self.expired.append(entry)
            if entry.metadata is not None:
                self.late.pop(Day(entry.metadata.minute // MINUTES_A_DAY), None)

    def write_late(self, entry: Entry) -> str:
        """Let a zombie write a segment of an expired day again."""
        if self.archive.get(entry.key) is None and entry.metadata is not None:
            again = segment_entry(entry.key, entry.metadata, entry.records, self.archive.stamp_ms())
            self._put(again)
            self.late.setdefault(Day(entry.metadata.minute // MINUTES_A_DAY), self.events)
        return entry.key

    def _rewrite(self, key: str, records: tuple[Sent, ...] | None) -> None:
        before = self._take(key)
        self.removed.setdefault(key, before)
        assert before.metadata is not None
        metadata = before.metadata
        if records is not None:
            size, times = sum(len(sent.data) for sent in records), [sent.arrival_ms for sent in records]
            metadata = msgspec.structs.replace(
                metadata,
                records=len(records),
                last=records[-1].position if len(records) < metadata.records else metadata.last,
                payload_bytes=size,
                arrival_min_ms=min(times),
                arrival_max_ms=max(times),
            )
        self._put(segment_entry(key, metadata, records, self.archive.stamp_ms()))

    def _put(self, entry: Entry) -> None:
        self.archive.put(entry)
        names = []
        for sent in entry.records or ():
            name = name_of(sent)
            self._holders[name][entry.key] = sent.data
            names.append(name)
        self._edited_out.difference_update(names)
        self._settle(names)

    def _take(self, key: str) -> Entry:
        entry = self.archive.delete(key)
        names = [name_of(sent) for sent in entry.records or ()]
        for name in names:
            del self._holders[name][key]
        self._settle(names)
        return entry

    # The oracle

    def see_rows(self, rows: Mapping[Name, bytes]) -> None:
        """Take note of rows that readers see now: what was edited before that, nobody can know."""
        for name in rows.keys() - self.published:
            self.published.add(name)
            self._edited_out.discard(name)
            truth = self.truth[self._day_of[name]]
            truth[name] = truth[name]._replace(data=rows[name])
            self._settle([name])

    def _settle(self, names: Iterable[Name]) -> None:
        """Find out whether records are wrong now."""
        self.events += 1
        for name in names:
            self.changed[name] = self.events
            number = self._day_of[name]
            holders, wrong = self._holders[name].values(), self.since[number]
            is_right = len(holders) == 1
            if is_right and name in self.published:
                is_right = self.truth[number][name].data in holders
            if is_right or name in self.unseen or name in self._edited_out:
                wrong.pop(name, None)
            else:
                wrong.setdefault(name, self.events)

    def wrong(self, day: Day, since: int, from_ms: int, until_ms: int) -> list[Name]:
        """Return the records of a time that have been wrong since a change or longer."""
        return [
            name
            for name, event in self.since[day.number].items()
            if event <= since and from_ms <= self.truth[day.number][name].arrival_ms < until_ms
        ]

    def rows_differ(
        self, day: Day, rows: Mapping[Name, bytes], since: int, from_ms: int, until_ms: int
    ) -> list[Name]:
        """Return the records of a time that differ from the rows of a day, and did not change after `since`."""
        truth = self.truth[day.number]
        differing = {name for name, data in rows.items() if name not in truth or truth[name].data != data}
        differing |= truth.keys() - rows.keys()
        return [
            name
            for name in differing
            if self.changed.get(name, 0) <= since
            and name not in self.unseen
            and name not in self._edited_out
            and (name not in truth or from_ms <= truth[name].arrival_ms < until_ms)
        ]


def name_of(sent: Sent) -> Name:
    """Return what names a record."""
    return sent.shard, sent.position


def metadata_of(written: Written) -> SegmentMetadata:
    """Return the metadata that a processor writes."""
    records = written.records
    times = [sent.arrival_ms for sent in records]
    return SegmentMetadata(
        shard_id=written.shard,
        minute=written.minute,
        first=records[0].position,
        last=records[-1].position,
        after=written.after,
        records=len(records),
        dropped=0,
        payload_bytes=sum(len(sent.data) for sent in records),
        arrival_min_ms=min(times),
        arrival_max_ms=max(times),
        writer=written.writer,
        continuity=written.continuity,
        evidence_ms=written.evidence,
    )
