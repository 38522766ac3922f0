"""The world of one life: a stream, the processors that archive it, and what happens to the archive.

It knows every record, and what each object of the archive holds now: so it can tell of any day what is missing,
doubled or altered. Time is the clock's; whatever is due happens when time passes.
"""

import heapq
import itertools
import random
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from compaction.inventory.checkpoints import Checkpoints
from consumer.stream.port import StreamIdentity
from minutebook.coverage.evidence import SURELY_HELD_MS
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.coverage_markers import SkippedMarker, encode_coverage_marker, skipped_key
from minutebook.format.day import Day, day_of_ms
from minutebook.format.keys import duplicates_key, segment_key
from minutebook.format.markers import JSON_TYPE
from minutebook.format.metadata import ChainStart, Continuity, Predecessor, SegmentMetadata
from minutebook.format.minute import MINUTE_MS, iso_time
from minutebook.format.position import Position
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark
from minutebook.format.record import Record
from minutebook.format.segment import SegmentWriter
from tests.corpus.model import PREFIX, STREAM_ARN
from tests.fakes.archive_scene import ArchiveScene, end_marker
from tests.fakes.clock import ManualClock
from tests.fakes.stream import DAY_MS
from tests.lives.memory import MemoryDirectory
from tests.lives.store import IndexedDirectory

FIRST_DAY: Final = Day.parse("2027-01-04")
HOUR: Final = 60 * MINUTE_MS
MARK_HOURS: Final = (0, 6, 12, 18)
GZIP: Final = "application/gzip"


class Sent(NamedTuple):
    """A record of the stream."""

    shard: str
    position: Position
    arrival_ms: int
    data: bytes


class Held(NamedTuple):
    """What an object of the archive holds: its records, or None where nobody can read them; and as it was written."""

    shard: str
    minute: int
    records: tuple[Sent, ...] | None
    body: bytes
    fields: dict[str, str]


@dataclass
class Reading:
    """One shard as its processor knows it."""

    shard: str
    keys: tuple[int, int]
    born_ms: int | None
    sequence: int
    tail: Position | None = None
    until_ms: int = 0
    is_behind_mark: bool = False
    run: int = 0
    is_new_run: bool = True
    minute: int = 0
    pending: list[tuple[int, list[Sent]]] = field(default_factory=list)
    paused_until: int = 0
    quiet_until: int = 0
    is_ended: bool = False


class Written(NamedTuple):
    """What a processor writes as one segment: its records in order; it leaves out those that are `dropped`."""

    shard: str
    minute: int
    records: Sequence[Sent]
    after: Predecessor
    writer: str
    continuity: Continuity | None = None
    evidence: int | None = None
    dropped: Sequence[Sent] = ()


class ReadStream(ABC):
    """A stream of a few shards, and the processors that archive it; `scene` gets their markers and marks."""

    def __init__(self, scene: ArchiveScene[Any], clock: ManualClock, seed: int, *, shards: int) -> None:
        self.rng = random.Random(seed)
        self.clock = clock
        self.begin_ms = clock.now_ms()
        self.scene = scene
        self.sent: dict[str, list[Sent]] = {}
        self.lost: set[tuple[str, Position]] = set()
        """Records that were never archived, and that the archive may show to be missing by now."""
        self.unseen: set[tuple[str, Position]] = set()
        """Lost records of which nothing tells yet."""
        self.touched: set[tuple[str, Position]] = set()
        self.ahead: dict[str, int] = {}
        self.readings: dict[str, Reading] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._writers = itertools.count(1)
        self.events_a_day = 6
        self.minutes: Sequence[int] = range(2, 1439)
        self.has_ids = False
        self.mark_hours: Sequence[int] = MARK_HOURS
        self.is_stepping = False
        self.drops = 0.0
        self._begin(shards)

    # Time

    def at(self, time_ms: int, what: Callable[[], None]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._events, (time_ms, next(self._numbers), what))

    def live_until(self, time_ms: int) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= time_ms:
            when, _, what = heapq.heappop(self._events)
            self._move(when)
            what()
        self._move(time_ms)

    def _move(self, time_ms: int) -> None:
        if time_ms > self.clock.now_ms():
            self.clock.advance((time_ms - self.clock.now_ms()) / 1000)

    # The stream

    def _begin(self, shards: int) -> None:
        self.scene.settle(StreamIdentity(STREAM_ARN, self.begin_ms, DAY_MS))
        names = [f"shardId-{number:012d}" for number in range(shards)]
        self.scene.first(*names)
        for number, name in enumerate(names):
            step = (LAST_HASH_KEY + 1) // shards
            last = LAST_HASH_KEY if number == shards - 1 else (number + 1) * step - 1
            self._open(name, (number * step, last), None)

    def _open(self, name: str, keys: tuple[int, int], born_ms: int | None, *parents: str) -> None:
        self.scene.opened(name, keys, *parents)
        number = int(name.rpartition("-")[2])
        reading = Reading(name, keys, born_ms, 10**24 + number * 10**22, run=next(self._writers))
        reading.until_ms = self.begin_ms if born_ms is None else BIRTH
        self.readings[name] = reading
        self.sent[name] = []

    def plan_day(self, day: Day) -> None:
        """Let the day's records come, and the hours at which quiet shards are read."""
        self.at(max(day.begin_ms, self.begin_ms), lambda: self._plan(day))

    def _plan(self, day: Day) -> None:
        for name, reading in list(self.readings.items()):
            if not reading.is_ended:
                self.plan_shard(name, day)
        for hour in self.mark_hours:
            self.at(day.begin_ms + hour * HOUR + self.rng.randrange(130, 720) * 1000, self.read_on)

    def plan_shard(self, name: str, day: Day) -> None:
        """Let the rest of a day's records come to a shard."""
        reading = self.readings[name]
        now = self.clock.now_ms()
        minutes = {1, *self.rng.sample(self.minutes, self.events_a_day)}
        minutes |= {1439} if self.rng.random() < 0.3 else set()
        for minute in sorted(minutes):
            begin_ms = day.begin_ms + minute * MINUTE_MS
            if begin_ms > max(now, reading.quiet_until, self.begin_ms + MINUTE_MS):
                self.at(begin_ms, lambda minute=minute: self._arrive(name, day.first_minute + minute))  # type: ignore[misc]  # bound at once

    def arrive(self, name: str, minute: int) -> None:
        """Let records come in a minute, now or when it begins."""
        self.at(minute * MINUTE_MS, lambda: self._arrive(name, minute))

    def step_back(self, name: str, minute: int) -> None:
        """Let the stamps of records step back into the minute before one, behind what arrived in it."""
        self.at(minute * MINUTE_MS, lambda: self._step_back(self.readings[name], minute))

    def _arrive(self, name: str, minute: int) -> None:
        reading = self.readings[name]
        if reading.is_ended or self.clock.now_ms() < reading.quiet_until:
            return
        records = self._records(reading, minute, self.rng.randint(2, 3))
        reading.pending.append((minute, records))
        if self.is_stepping and self.rng.random() < 0.2:
            self._step_back(reading, minute)
        self._commit_later(name)

    def _step_back(self, reading: Reading, minute: int) -> None:
        reading.pending.append((minute - 1, self._records(reading, minute - 1, 2, at=59_000)))

    def _records(self, reading: Reading, minute: int, count: int, at: int = 0) -> list[Sent]:
        made = []
        for number in range(count):
            reading.sequence += self.rng.randrange(1, 10**6)
            event = self.rng.randrange(40) if self.has_ids and self.rng.random() < 0.15 else reading.sequence
            data = f'{{"n":{event}}}'.encode()
            arrival = minute * MINUTE_MS + (at or self.rng.randrange(50_000)) + number
            made.append(Sent(reading.shard, Position(reading.sequence, 0), arrival, data))
        if not at:
            # Stamps rise within the minute.
            times = sorted(sent.arrival_ms for sent in made)
            made = [sent._replace(arrival_ms=time) for sent, time in zip(made, times, strict=True)]
        self.sent[reading.shard] += made
        return made

    # The processors

    def _commit_later(self, name: str) -> None:
        lag = self.rng.choice([5, 30, 60, 600, 900]) * 1000
        self.at(self.clock.now_ms() + MINUTE_MS + lag, lambda: self._flush(name))

    def _flush(self, name: str) -> None:
        reading = self.readings[name]
        now = self.clock.now_ms()
        if now < reading.paused_until:
            self.at(reading.paused_until + self.rng.randrange(300) * 1000, lambda: self._flush(name))
            return
        due = list(itertools.takewhile(lambda one: (one[0] + 1) * MINUTE_MS <= now, reading.pending))
        reading.pending = reading.pending[len(due) :]
        for minute, records in due:
            self._commit(reading, minute, records)

    def _commit(self, reading: Reading, minute: int, records: list[Sent]) -> None:
        now = self.clock.now_ms()
        kept = [sent for sent in records if sent.arrival_ms > now - DAY_MS]
        if len(kept) < len(records):
            self.lost |= {(sent.shard, sent.position) for sent in records[: len(records) - len(kept)]}
            reading.is_new_run = True
        if not kept:
            return
        continuity, evidence, after = None, None, self._after(reading, kept)
        is_late = self._is_late(reading)
        if reading.tail is None or reading.is_new_run or reading.is_behind_mark or is_late:
            continuity = Continuity.UNPROVEN if is_late else Continuity.PROVEN
            evidence = None if is_late else reading.until_ms
        dropped = kept[1:2] if self.rng.random() < self.drops else []
        writer = self._writer(reading)
        self.put_segment(Written(reading.shard, minute, kept, after, writer, continuity, evidence, dropped))
        reading.is_new_run = reading.is_behind_mark = False
        link_until = minute * MINUTE_MS - MINUTE_MS
        if is_late:
            reading.until_ms = max(link_until, minute * MINUTE_MS + 2 * MINUTE_MS)
        else:
            reading.until_ms = max(reading.until_ms, link_until, 1)
        reading.tail, reading.minute = kept[-1].position, minute

    def _is_late(self, reading: Reading) -> bool:
        """Return whether what came behind the evidence may be trimmed; a child without any begins at its birth."""
        since_ms = reading.born_ms if reading.until_ms == BIRTH else reading.until_ms
        return since_ms is not None and self.clock.now_ms() - since_ms >= SURELY_HELD_MS

    def _after(self, reading: Reading, kept: list[Sent]) -> Predecessor:
        if reading.tail is not None:
            return reading.tail
        self.scene.begin(reading.shard, first=str(kept[0].position))
        return ChainStart("TRIM_HORIZON")

    def _writer(self, reading: Reading) -> str:
        return f"run{reading.run}-{next(self._writers)}"

    @abstractmethod
    def put_segment(self, written: Written) -> str:
        """Write a segment; return its key."""

    @abstractmethod
    def tell_skip(self, name: str, logged_ms: int) -> None:
        """Write the marker of a batch that KCL skipped."""

    def read_on(self) -> None:
        """Let the processors read quiet shards to their tips."""
        for name, reading in list(self.readings.items()):
            now = self.clock.now_ms()
            hour_ms = now // HOUR * HOUR
            if reading.is_ended or reading.pending or now < reading.paused_until or reading.until_ms >= hour_ms:
                continue
            self._mark(name, MarkKind.READ, now - MINUTE_MS)

    def _mark(self, name: str, kind: MarkKind, until_ms: int) -> None:
        reading = self.readings[name]
        is_late = self._is_late(reading)
        continuity = Continuity.UNPROVEN if is_late else Continuity.PROVEN
        until_ms = max(until_ms, reading.until_ms)
        mark = ReadMark(name, kind, continuity, reading.until_ms, until_ms, reading.tail, self._writer(reading))
        self.scene.mark(mark)
        reading.until_ms, reading.is_behind_mark = until_ms, True

    @property
    def checkpoints(self) -> Checkpoints:
        """KCL's table."""
        now = {
            name: Position(reading.tail.sequence + self.ahead.get(name, 0), reading.tail.sub)
            for name, reading in self.readings.items()
            if reading.tail is not None and not reading.is_ended
        }
        return Checkpoints(now)

    # What happens

    def reshard(self, name: str) -> bool:
        """Split a shard; False if it is not read to its end now."""
        reading = self.readings[name]
        now = self.clock.now_ms()
        if reading.is_ended or reading.pending or now < reading.paused_until:
            return False
        self._mark(name, MarkKind.END, now - MINUTE_MS)
        reading.is_ended = True
        number = len(self.readings)
        low, high = reading.keys
        middle = (low + high) // 2
        children = [f"shardId-{number:012d}", f"shardId-{number + 1:012d}"]
        self.scene.put_end(end_marker(name, reading.tail, children=children))
        for child, keys in zip(children, ((low, middle), (middle + 1, high)), strict=True):
            self._open(child, keys, now, name)
            self.plan_shard(child, day_of_ms(now))
        return True

    def pause(self, name: str, until_ms: int) -> None:
        """Let nobody read a shard for a while."""
        reading = self.readings[name]
        reading.paused_until = until_ms
        reading.is_new_run, reading.run = True, next(self._writers)

    def skip(self, name: str, later_ms: int) -> bool:
        """Let KCL skip what is being delivered; its marker comes later."""
        reading = self.readings[name]
        if not reading.pending or self.clock.now_ms() < reading.paused_until:
            return False
        gone = {(sent.shard, sent.position) for _, records in reading.pending for sent in records}
        reading.pending = []
        self.unseen |= gone
        logged = self.clock.now_ms()

        def tell() -> None:
            self.tell_skip(name, logged)
            self.unseen.difference_update(gone)
            self.lost.update(gone)
            self.touched |= gone

        self.at(logged + later_ms, tell)
        return True


class World(ReadStream):
    """A stream whose archive lies in a folder; None: in memory."""

    store: IndexedDirectory | MemoryDirectory

    def __init__(self, folder: Path | None, seed: int, *, begin_ms: int | None = None, shards: int = 2) -> None:
        clock = ManualClock(FIRST_DAY.begin_ms - HOUR if begin_ms is None else begin_ms)
        self.store = MemoryDirectory(clock) if folder is None else IndexedDirectory(folder, clock)
        self.archive: dict[str, Held] = {}
        self.dropped: dict[str, tuple[Sent, ...]] = {}
        """Records that are no rows because a segment's writer left them out, by the segment's key."""
        self.gone: dict[str, tuple[bytes, dict[str, str]]] = {}
        super().__init__(ArchiveScene(self.store, PREFIX), clock, seed, shards=shards)

    def put_segment(self, written: Written) -> str:
        """Write a segment; return its key."""
        shard, minute, every = written.shard, written.minute, written.records
        left_out = {sent.position for sent in written.dropped}
        made = SegmentWriter(shard, minute)
        for sent in every:
            record = Record(str(sent.position.sequence), 0, "k", sent.arrival_ms, sent.data)
            if sent.position in left_out:
                made.drop(record, str(every[0].position))
            else:
                made.extend([record])
        metadata = made.metadata(after=written.after, writer=written.writer, continuity=written.continuity)
        metadata = msgspec.structs.replace(metadata, evidence_ms=written.evidence)
        key = segment_key(PREFIX, shard, minute, metadata.first)
        if left_out:
            beside = duplicates_key(PREFIX, shard, minute, metadata.first, written.writer)
            self.store.put_if_absent(beside, made.duplicates_body(), {}, GZIP)
            self.dropped[key] = tuple(sent for sent in every if sent.position in left_out)
        body, fields = made.body(), metadata.encode()
        self.store.put_if_absent(key, body, fields, GZIP)
        self.archive[key] = Held(shard, minute, tuple(s for s in every if s.position not in left_out), body, fields)
        self._touch(key)
        return key

    def tell_skip(self, name: str, logged_ms: int) -> None:
        """Write the marker of a batch that KCL skipped."""
        marker = SkippedMarker(
            format=1, shard=name, logged_at_ms=logged_ms, message="m", writer="w", written_at=iso_time(logged_ms)
        )
        key = skipped_key(PREFIX, name, logged_ms, f"w{next(self._writers)}")
        self.store.put_if_absent(key, encode_coverage_marker(marker), {}, JSON_TYPE)

    def double(self, key: str) -> str | None:
        """Let a zombie write a segment again, cut otherwise; return its key."""
        held = self.archive.get(key)
        if held is None or held.records is None or len(held.records) < 2:
            return None
        first, *rest = held.records
        return self.put_segment(Written(held.shard, held.minute, rest, first.position, "zombie-1"))

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._touch(key)
        stored = self.store.get(key)
        assert stored is not None, key
        self.gone[key] = (stored.body, dict(stored.metadata))
        self.store.delete([key])
        if key in self.archive:
            self.archive[key] = self.archive[key]._replace(records=())

    def restore(self, key: str) -> None:
        """Put a deleted or damaged object back, as it was."""
        held = self.archive.get(key)
        body, fields = (held.body, held.fields) if held is not None else self.gone[key]
        self.store.delete([key])
        self.store.put_if_absent(key, body, fields, GZIP)
        if held is not None:
            metadata = SegmentMetadata.decode(held.fields)
            dropped = {sent.position for sent in self.dropped.get(key, ())}
            records = tuple(
                sent
                for sent in self.sent[held.shard]
                if metadata.first <= sent.position <= metadata.last and sent.position not in dropped
            )
            self.archive[key] = held._replace(records=records)
        self._touch(key)

    def damage(self, key: str) -> None:
        """Let an object be cut in place."""
        held = self.archive[key]
        self._touch(key)
        self.store.replace(key, held.body[: len(held.body) // 2])
        self.archive[key] = held._replace(records=None)

    def foreign(self, key: str) -> None:
        """Put an object there that is nobody's."""
        self.store.put_if_absent(key, b"x", {}, "text/plain")

    def _touch(self, key: str) -> None:
        held = self.archive.get(key)
        for sent in (held.records or ()) if held else ():
            self.touched.add((sent.shard, sent.position))
        if held is not None and held.records is None:
            self.touched |= {
                (sent.shard, sent.position)
                for sent in self.sent[held.shard]
                if sent.arrival_ms // MINUTE_MS == held.minute
            }

    def forget(self, day: Day) -> None:
        """Forget a day that nobody looks at any more, in a folder: its files stay there."""
        assert isinstance(self.store, IndexedDirectory)
        for key in self.store.forget(day.path(PREFIX)):
            self.archive.pop(key, None)
        for name, records in self.sent.items():
            self.sent[name] = [sent for sent in records if sent.arrival_ms >= day.end_ms]
        self.touched.clear()

    def segments(self, day: Day) -> list[str]:
        """Return the keys of a day's segments that are there."""
        return sorted(key for key, held in self.archive.items() if held.minute in day and held.records)

    # The truth

    def due(self, from_ms: int, until_ms: int) -> dict[tuple[str, Position], Sent]:
        """Return the records that arrived between two times."""
        return {
            (sent.shard, sent.position): sent
            for records in self.sent.values()
            for sent in records
            if from_ms <= sent.arrival_ms < until_ms
        }

    def wrong(self) -> dict[Day, set[tuple[str, Position]]]:
        """Return by day the records that are missing, doubled or unreadable in the archive, as far as it tells."""
        dropped = {
            (sent.shard, sent.position)
            for key, records in self.dropped.items()
            if self.archive[key].records
            for sent in records
        }
        counts = Counter([sent[:2] for held in self.archive.values() for sent in held.records or ()])
        wrong: dict[Day, set[tuple[str, Position]]] = defaultdict(set)
        for records in self.sent.values():
            for sent in records:
                name = sent[:2]
                if counts[name] != 1 and name not in dropped and name not in self.unseen:
                    wrong[day_of_ms(sent.arrival_ms)].add(name)
        return wrong

    def rows(self, from_ms: int, until_ms: int) -> dict[tuple[str, Position], bytes]:
        """Return the rows that a whole day has."""
        dropped = {(sent.shard, sent.position) for records in self.dropped.values() for sent in records}
        return {
            name: sent.data
            for name, sent in self.due(from_ms, until_ms).items()
            if name not in dropped and name not in self.unseen
        }
