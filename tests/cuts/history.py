"""One history from one seed: a stream that is split and merged, its archive, a cut, and what came afterwards.

    before the cut      records that arrive in order of positions, whose stamps step back; segments cut anywhere
    the cut             at a time up to which every record is archived, and proven to be: a minute ago at the latest
    perhaps             the day before is expired: its tombstone says what it held, and what was published of it stays
    after the cut       the archive grows, shards end, the stream forgets closed shards
    then                `cat --before` and `cat --after` by their own rules, and KCL with the rows of the hand-over

The oracle knows every record. KCL is a model of its rules that a hand-over relies on: it delivers what lies behind a
row's checkpoint, nothing of a shard at SHARD_END, and fills a hole of hash keys from its own initial position.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from consumer.cut.archive_cut import cut_archive
from consumer.cut.lease_rows import plan_handover
from consumer.leases.rows import Lease
from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.cat.request import CatRequest
from minutebook.cut import Cut, decode_cut, encode_cut
from minutebook.format.aggregate import LAST_HASH_KEY
from minutebook.format.arrival import ARRIVAL_STEP_BACK_MS
from minutebook.format.day import day_of_ms
from minutebook.format.document import FORMAT
from minutebook.format.keys import SegmentKey, parse_segment_key
from minutebook.format.minute import MINUTE_MS
from minutebook.format.position import Position
from minutebook.format.record import Record
from minutebook.format.segment import read_records
from minutebook.format.tombstone import ExpiredRun, ExpiredShard, Tombstone, encode_tombstone, tombstone_key
from minutebook.owner import read_application
from tests.fakes.archive_scene import PREFIX, MemoryScene
from tests.fakes.clock import START_MS

_MIDNIGHT_MS: Final = day_of_ms(START_MS).begin_ms
BEGIN_MS: Final = _MIDNIGHT_MS - 15 * MINUTE_MS
IDENTITY: Final = StreamIdentity("arn:aws:kinesis:us-east-1:000000000000:stream/s", BEGIN_MS - 1, 24 * 60 * MINUTE_MS)
Name = tuple[str, Position]


@dataclass
class Shard:
    """One shard: its records in order, and how many of them are archived. `ends`: no more will come."""

    name: str
    keys: tuple[int, int]
    parents: tuple[str, ...]
    records: list[Record] = field(default_factory=list)
    archived: int = 0
    children: tuple[str, ...] = ()
    has_end: bool = False


class Segment(NamedTuple):
    """A stored segment."""

    key: str
    parsed: SegmentKey
    records: dict[Position, Record]

    @property
    def positions(self) -> list[Position]:
        """Its positions, in order."""
        return list(self.records)


class Outcome(NamedTuple):
    """What both sides of the cut hold, and what was wrong."""

    cut: Cut
    rows: list[Lease]
    wrong: list[str]


class History:
    """A history of `seed`; `run` lives it and compares both sides."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shards: dict[str, Shard] = {}
        self.scene = MemoryScene()
        self.now_ms = BEGIN_MS
        self.sequence = 10 ** self.rng.choice([2, 54])
        self.steps_ms = self.rng.choice([0, 5_000, 60_000, 60_000, 20 * MINUTE_MS])
        self.first: list[str] = []
        self.start_ms = BEGIN_MS
        self.published: set[Name] = set()

    def run(self) -> Outcome:
        """Live the history."""
        rng = self.rng
        self._begin()
        for _ in range(rng.randint(2, 12)):
            self._arrive()
            if rng.random() < 0.25:
                self._reshard()
            self._archive(rng.choice([0.3, 0.9, 1]))
        late = [record.arrival_ms for shard in self.shards.values() for record in shard.records[shard.archived :]]
        proven_ms = self.now_ms - ARRIVAL_STEP_BACK_MS
        at_ms = min([proven_ms, *late]) - rng.choice([0, 0, rng.randrange(20 * MINUTE_MS)])
        at_ms = max(at_ms, self.start_ms + 1)
        if self._is_steady and at_ms >= _MIDNIGHT_MS and rng.random() < 0.7:
            at_ms = rng.choice([at_ms, _MIDNIGHT_MS])
            self._expire()
        cut = self._cut(at_ms)
        for _ in range(rng.randint(0, 6)):
            self._arrive()
            if rng.random() < 0.3:
                self._reshard()
            self._archive(rng.choice([0.3, 1]))
        listed = self._listed(cut)
        rows = plan_handover(cut, self.first, listed)
        return Outcome(cut, rows, [*self._judge(cut, rows, listed), *self._judge_time(cut, at_ms)])

    def _begin(self) -> None:
        """Give the stream its shards; some had been split before the application began."""
        rng = self.rng
        count = rng.choice([1, 1, 2, 3])
        step = (LAST_HASH_KEY + 1) // count
        for number in range(count):
            last = LAST_HASH_KEY if number == count - 1 else (number + 1) * step - 1
            self._open((number * step, last))
        if rng.random() < 0.3:
            self._arrive()
            self._reshard()
        is_late = rng.random() < 0.5
        self.first = [name for name, shard in self.shards.items() if not (is_late and shard.children)]
        if is_late:  # what arrived before the start is nobody's
            self.start_ms = self.now_ms
            for shard in self.shards.values():
                shard.records.clear()
        self.scene.settle(IDENTITY, start_at_ms=self.start_ms if is_late else None)

    def _open(self, keys: tuple[int, int], *parents: str) -> str:
        name = f"shardId-{len(self.shards):012d}"
        self.shards[name] = Shard(name, keys, parents)
        return name

    def _arrive(self) -> None:
        """Let records arrive at the open shards."""
        rng = self.rng
        for shard in self.shards.values():
            at_ms = self.now_ms
            for _ in range(0 if shard.children else rng.choice([0, 0, 1, 3, 6])):
                at_ms += rng.choice([10, 1_000, 20_000, MINUTE_MS])
                self.sequence += rng.choice([1, 1, 1000])
                stamp_ms = max(at_ms - rng.randint(0, self.steps_ms), self.start_ms)
                for sub in range(rng.choice([1, 1, 3])):
                    shard.records.append(Record(str(self.sequence), sub, "k", stamp_ms, b"x"))
        self.now_ms += rng.choice([MINUTE_MS, 3 * MINUTE_MS])

    def _reshard(self) -> None:
        """Split a shard, or merge two that are neighbours."""
        open_shards = sorted(
            (shard for shard in self.shards.values() if not shard.children), key=lambda one: one.keys
        )
        at = self.rng.randrange(len(open_shards))
        shard, *others = open_shards[at : at + 2]
        if others and self.rng.random() < 0.5:
            child = self._open((shard.keys[0], others[0].keys[1]), shard.name, others[0].name)
            shard.children = others[0].children = (child,)
        else:
            middle = sum(shard.keys) // 2
            shard.children = (
                self._open((shard.keys[0], middle), shard.name),
                self._open((middle + 1, shard.keys[1]), shard.name),
            )

    def _archive(self, share: float) -> None:
        """Let the readers commit; a child is read once its parents' ends are archived."""
        for shard in self.shards.values():
            parents = [self.shards[name] for name in shard.parents]
            if shard.has_end or (shard.name not in self.first and not all(parent.has_end for parent in parents)):
                continue
            if not self._is_own(shard):
                continue
            for run in self._runs(shard.records[shard.archived :]):
                if self.rng.random() > share:
                    break
                if shard.archived == 0:
                    self.scene.begin(shard.name, first=str(run[0].position))
                self.scene.segment(shard.name, run[0].arrival_ms // MINUTE_MS, run)
                shard.archived += len(run)
            if shard.children and shard.archived == len(shard.records) and self.rng.random() < share:
                last = shard.records[-1].position if shard.records else None
                self.scene.end(shard.name, last, *shard.children)
                shard.has_end = True

    def _expire(self) -> None:
        """Delete the segments of the day that has ended; its tombstone keeps the runs of each chain."""
        runs: dict[str, list[ExpiredRun]] = {}
        segments = sorted(self._segments(), key=lambda one: (one.parsed.shard_id, one.positions))
        midnight = _MIDNIGHT_MS // MINUTE_MS
        for (shard_id, is_old), group in groupby(
            segments, key=lambda one: (one.parsed.shard_id, one.parsed.minute < midnight)
        ):
            run = list(group) if is_old else []
            for segment in run:
                self.published.update((shard_id, position) for position in segment.positions)
                self.scene.bucket.delete(segment.key)
            if run:
                first, last = str(run[0].positions[0]), str(run[-1].positions[-1])
                runs.setdefault(shard_id, []).append(
                    ExpiredRun(after=first, first=first, last=last, segments=len(run))
                )
        day = day_of_ms(BEGIN_MS)
        tombstone = Tombstone(
            format=FORMAT,
            day=str(day),
            generation="g",
            segments=sum(run.segments for parts in runs.values() for run in parts),
            bytes=1,
            shards={shard_id: ExpiredShard(runs=parts, kept=[]) for shard_id, parts in runs.items()},
            writer="w",
            written_at="",
        )
        self.scene.bucket.place(tombstone_key(PREFIX, day), encode_tombstone(tombstone))

    def _segments(self) -> Iterator[Segment]:
        for key in self.scene.retrying.keys(f"{PREFIX}2"):
            parsed, stored = parse_segment_key(PREFIX, key), self.scene.retrying.get(key)
            assert stored is not None
            records = dict(read_records(stored.body, parsed.shard_id, parsed.compression))
            yield Segment(key, parsed, records)

    @property
    def _is_steady(self) -> bool:
        """Whether stamps step back no farther than coverage assumes. Positions divide exactly even so."""
        return self.steps_ms <= ARRIVAL_STEP_BACK_MS

    def _is_own(self, shard: Shard) -> bool:
        return shard.name in self.first or any(self._is_own(self.shards[parent]) for parent in shard.parents)

    def _runs(self, records: list[Record]) -> Iterator[list[Record]]:
        """Cut records into runs of one minute, and at random."""
        run: list[Record] = []
        for record in records:
            if run and (record.arrival_ms // MINUTE_MS != run[0].arrival_ms // MINUTE_MS or self.rng.random() < 0.2):
                yield run
                run = []
            run.append(record)
        if run:
            yield run

    def _cut(self, at_ms: int) -> Cut:
        application = read_application(self.scene.retrying, PREFIX)
        assert application is not None
        cut = cut_archive(self.scene.retrying, PREFIX, application, at_ms)
        return decode_cut(encode_cut(cut), "cut.json")

    def _listed(self, cut: Cut) -> dict[str, ShardInfo]:
        """Return ListShards; it may have forgotten shards that ended before the cut, and all before the archive."""
        forgotten = {
            name
            for name, shard in self.shards.items()
            if (cut.has_ended(name) or (shard.children and not self._is_own(shard))) and self.rng.random() < 0.5
        }
        return {
            shard.name: ShardInfo(
                shard.name,
                str(shard.keys[0]),
                str(shard.keys[1]),
                shard.parents,
                shard.children,
                bool(shard.children),
            )
            for shard in self.shards.values()
            if shard.name not in forgotten
        }

    def _judge(self, cut: Cut, rows: list[Lease], listed: Mapping[str, ShardInfo]) -> Iterator[str]:
        """Say which record is on no side of the cut, or on both."""
        before = self._read(CatRequest(BEGIN_MS, cut.through_ms, before=cut))
        begin_ms, end_ms = cut.at_ms // MINUTE_MS * MINUTE_MS, self.now_ms + 60 * MINUTE_MS
        after = self._read(CatRequest(begin_ms, end_ms, after=cut))
        before |= {name for name in self.published if cut.is_before(*name)}
        after |= {name for name in self.published if not cut.is_before(*name)}
        delivered = self._deliver(rows)
        for shard in filter(self._is_own, self.shards.values()):
            for number, record in enumerate(shard.records):
                name = shard.name, record.position
                if (sides := (name in before) + (name in delivered)) != 1:
                    yield f"{name} is on {sides} sides of the cut"
                if self._is_steady and number < shard.archived and (times := (name in before) + (name in after)) != 1:
                    yield f"cat shows {name} {times} times"
        held = {row.shard_id for row in rows}
        for name, info in listed.items():
            if not info.closed and name not in held:
                yield f"{name} is open and has no row"
        for row in rows:
            if len(row.parents) > len(row.parents & held) > 0 and all(map(cut.has_ended, row.parents)):
                yield f"{row.shard_id} has a row for one of its ended parents"

    def _judge_time(self, cut: Cut, at_ms: int) -> Iterator[str]:
        """Say which record arrived before the time, and lies behind the cut."""
        for shard in self.shards.values() if self._is_steady else ():
            for row in shard.records[: shard.archived] if self._is_own(shard) else ():
                if row.arrival_ms < at_ms // MINUTE_MS * MINUTE_MS and not cut.is_before(shard.name, row.position):
                    yield f"{shard.name} {row.position} arrived before the cut's time"

    def _read(self, request: CatRequest) -> set[Name]:
        """Return what `cat` shows: of the minutes that it lists, the records that it selects."""
        shown: set[Name] = set()
        for segment in self._segments():
            shard_id = segment.parsed.shard_id
            if segment.parsed.minute in request.minutes:
                shown |= {(shard_id, at) for at, row in segment.records.items() if request.selects(shard_id, row)}
        return shown

    def _deliver(self, rows: list[Lease]) -> set[Name]:
        """Return what KCL delivers with these rows; a shard without one that nothing waits for it leaves alone."""
        delivered: set[Name] = set()
        for row in rows:
            for record in () if row.checkpoint == "SHARD_END" else self.shards[row.shard_id].records:
                if isinstance(row.checkpoint, str) or record.position > row.checkpoint:
                    delivered.add((row.shard_id, record.position))
        return delivered
