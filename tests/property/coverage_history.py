"""Histories of coverage: a stream, its processors with all that happens to them, and what an audit finds afterwards."""

import heapq
import itertools
import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from archive.coverage.chain import ChainView
from archive.coverage.evidence import Evidence, mark_evidence
from archive.coverage.intervals import Interval
from archive.coverage.shard_coverage import ShardCoverage, ShardFacts, Skip
from archive.coverage.topology import ShardRow, Sources, Topology
from archive.coverage.verdict import State, Verdict, day_scope, judge
from archive.format.continuity import Continuity
from archive.format.day import Day, day_of_ms
from archive.format.position import Position
from archive.format.read_mark import MarkKind, ReadMark, mark_days, parse_read_mark_key, read_mark_key
from tests.property.coverage_archive import ShardArchive
from tests.property.coverage_reader import Crash, Reader, Step
from tests.property.coverage_stream import DAY, FIRST_DAY, HOUR, MINUTE, Stream, StreamShard

_NEVER: Final = 1 << 61


class Faults(NamedTuple):
    """What may happen. All of it, unless a test wants a calm history."""

    outages: bool = True
    freezes: bool = True
    redeploys: bool = True
    skips: bool = True
    unread: bool = True
    old_archive: bool = True
    stream_audits: bool = True


CALM: Final = Faults(*[False] * 7)


class Looked(NamedTuple):
    """One audit of one day, and the truth."""

    verdict: Verdict
    missing: int


class History:
    """One history from one seed."""

    def __init__(self, seed: int, faults: Faults = Faults(), days: int = 4) -> None:  # noqa: B008 - a value
        self.rng = random.Random(seed)
        self.faults = faults
        self.stream = Stream(self.rng, days)
        self.begin = FIRST_DAY + self.rng.randrange(DAY)
        self.runs_from = self.begin + self.rng.choice([0, self.rng.randrange(22 * HOUR)])
        self.until = self.stream.end + 8 * HOUR
        self.down = self._outages()
        self.first = [
            shard
            for shard in self.stream.shards.values()
            if shard.born <= self.runs_from and (shard.closed is None or shard.closed > self.begin)
        ]
        self.archives: dict[str, ShardArchive] = {}
        self.pending: list[tuple[int, int]] = []
        self._runs = itertools.count()
        for shard in self.stream.shards.values():
            self.archives[shard.shard_id] = ShardArchive(shard.shard_id)
            self._live(shard)
        if faults.stream_audits and self.rng.random() < 0.3:  # noqa: PLR2004
            self._compare(self.rng.randrange(self.runs_from, self.until))

    def _outages(self) -> list[tuple[int, int]]:
        down = []
        if self.faults.outages:
            for _ in range(self.rng.choice([0, 1, 1, 2])):
                begin = self.rng.randrange(self.runs_from, self.until)
                down.append((begin, begin + int(self.rng.choice([0.5, 10, 23, 24, 25, 40, 60]) * HOUR)))
        return down

    def _up_at(self, time: int) -> int:
        for begin, end in sorted(self.down):
            if begin <= time < end:
                time = end
        return time

    def _opening(self, shard: StreamShard) -> int | None:
        """Return when KCL gives the shard to a processor; None: never."""
        if shard not in self.first and not any(parent in self.archives for parent in shard.parents):
            return None
        if self.faults.unread and self.rng.random() < 0.05:  # noqa: PLR2004
            return None
        time = max(shard.born, self.runs_from)
        parents = [self.stream.shards[parent] for parent in shard.parents]
        while time < self.until:
            time = self._up_at(time) + self.rng.randrange(1000, 5 * MINUTE)
            if not shard.is_listed(time) or (shard not in self.first and shard.born < self.runs_from):
                return None
            if all(self._is_done(parent, time) for parent in parents):
                return time
            time += 10 * MINUTE
        return None

    def _is_done(self, parent: StreamShard, time: int) -> bool:
        archive = self.archives[parent.shard_id]
        if parent not in self.first and archive.opened is None and not parent.is_listed(time):
            return True
        if parent.closed is not None and parent.closed <= self.begin:
            return True
        return archive.ended is not None and archive.ended < time

    def _live(self, shard: StreamShard) -> None:
        """Drive the runs of one shard in the order of time."""
        opening = self._opening(shard)
        if opening is None:
            return
        is_first = shard in self.first and not any(self.stream.shards[one] in self.first for one in shard.parents)
        order = itertools.count()
        events: list[tuple[int, int, Step | None, Reader | None, int]] = []

        def begin(time: int) -> None:
            start = self.begin if is_first else None
            seed = self.rng.randrange(1 << 30)
            reader = Reader(self.stream, shard, self.archives, start, f"r{next(self._runs)}", seed)
            reader.skips = self.faults.skips
            step = reader.life()
            heapq.heappush(events, (time + next(step), next(order), step, reader, _NEVER))
            self._current = step

        begin(opening)
        while events:
            time, _, step, reader, steps_left = heapq.heappop(events)
            assert step is not None
            assert reader is not None
            is_current = step is self._current
            if time > self.until or (steps_left <= 0 and not is_current):
                continue
            up = self._up_at(time)
            if up > time or (self.faults.redeploys and is_current and self.rng.random() < 0.002):  # noqa: PLR2004
                self._record_skips(shard, reader, time)
                if is_current:
                    begin(max(up, time) + self.rng.randrange(1000, 20 * MINUTE))
                continue
            try:
                wait = step.send(time)
            except StopIteration:
                continue
            except Crash:
                self._record_skips(shard, reader, time)
                if is_current:
                    begin(time + self.rng.randrange(5000, 10 * MINUTE))
                continue
            if self.faults.freezes and self.rng.random() < 0.0005:  # noqa: PLR2004
                sleep = int(self.rng.choice([0.05, 0.2, 2, 20, 24, 26, 40]) * HOUR)
                if is_current and self.rng.random() < 0.6:  # noqa: PLR2004 - another host takes over
                    steps_left = self.rng.randrange(1, 12)
                    begin(time + self.rng.randrange(MINUTE, 5 * MINUTE))
                wait += sleep
            heapq.heappush(events, (time + wait, next(order), step, reader, steps_left - 1))

    def _record_skips(self, shard: StreamShard, reader: Reader, time: int) -> None:
        """The supervisor writes what the daemon's log told, before it starts the daemon again."""
        for skipped in reader.skipped:
            skew = self.rng.randrange(-14 * MINUTE, 14 * MINUTE)
            self.archives[shard.shard_id].skips.append((skipped + skew, time))
            self.pending.append((skipped, time))
        reader.skipped = []

    def _compare(self, time: int) -> None:
        """Audit at level `stream`: whatever is held and old enough must be archived."""
        for shard in self.stream.listed(time):
            archive = self.archives[shard.shard_id]
            date = time // 1000 * 1000
            _, held = shard.read(0, time)
            segments = [segment for segment in archive.segments if segment.stored <= time]
            archived = {record.position for segment in segments for record in segment.records}
            due = [record for record in held if self.begin <= record.stamp <= date - MINUTE]
            if not all(record.position in archived for record in due) or not segments:
                continue
            horizon = date - 24 * HOUR + 5 * MINUTE
            begin = min(held[0].stamp + MINUTE, horizon) if held else horizon
            last = segments[-1].link.last
            mark = ReadMark(
                shard.shard_id, MarkKind.STREAM, Continuity.PROVEN, begin, date - MINUTE, last, f"audit{time}"
            )
            archive.marks.append((mark, time))

    # The audit

    def days(self) -> Iterator[Day]:
        """Yield the days that can be judged."""
        for number in range(FIRST_DAY // DAY, self.stream.end // DAY):
            yield Day(number)

    def look(self, day: Day, time: int, *, removed: float = 0.0, narrow: bool = False) -> Looked | None:
        """Audit a day at a time, as the nightly run would; None: not to be judged."""
        scope = day_scope(day, self.begin, time)
        if scope is None or any(skipped <= time < stored for skipped, stored in self.pending):
            return None
        gone = self._removed(removed, time)
        coverages = {
            shard_id: ShardCoverage(self._facts(shard_id, day, time, gone, narrow=narrow))
            for shard_id in self.archives
        }
        topology = Topology(self._sources(time))
        verdict = judge(scope, topology, coverages, begin_ms=self.begin)
        return Looked(verdict, self._missing(scope, time, gone))

    def _removed(self, share: float, time: int) -> set[tuple[str, Position]]:
        """Choose segments that somebody deleted."""
        if not share or self.rng.random() > share:
            return set()
        stored = [
            (shard_id, segment.link.first)
            for shard_id, archive in self.archives.items()
            for segment in archive.segments
            if segment.stored <= time
        ]
        return set(self.rng.sample(stored, min(len(stored), self.rng.choice([1, 1, 2, 5]))))

    def _facts(
        self, shard_id: str, day: Day, time: int, gone: set[tuple[str, Position]], *, narrow: bool
    ) -> ShardFacts:
        archive = self.archives[shard_id]
        stored = [segment for segment in archive.segments if segment.stored <= time]
        links = [segment.link for segment in stored if (shard_id, segment.link.first) not in gone]
        if narrow:
            late = next((number for number, link in enumerate(links) if link.begins_ms > day.begin_ms), len(links))
            links = links[max(0, late - 1) :]
        pieces = tuple(self._pieces(shard_id, day, time))
        skips = tuple(Skip(logged, put) for logged, put in archive.skips if put <= time)
        ended = archive.ended if archive.ended is not None and archive.ended <= time else None
        begun = stored[0].link.first if stored else None
        view = ChainView(tuple(links), begun, to_the_beginning=not narrow, to_the_end=not narrow)
        return ShardFacts(shard_id, view, pieces, skips, ended)

    def _pieces(self, shard_id: str, day: Day, time: int) -> Iterator[Evidence]:
        """Read the marks that lie under the day, or under a later one, by their keys."""
        for mark, stored in self.archives[shard_id].marks:
            if stored > time:
                continue
            days = [one for one in mark_days(mark) if day.number <= one.number <= day_of_ms(time).number]
            if days:
                _, read = parse_read_mark_key("p/", read_mark_key("p/", days[0], mark))
                yield mark_evidence(read, stored)

    def _sources(self, time: int) -> Sources:
        has_first = not self.faults.old_archive or self.rng.random() < 0.8  # noqa: PLR2004
        opened = [
            self.stream.shards[shard_id]
            for shard_id, archive in self.archives.items()
            if archive.opened is not None and archive.opened <= time
        ]
        ended = {
            shard_id: archive
            for shard_id, archive in self.archives.items()
            if archive.ended is not None and archive.ended <= time
        }
        listed = self.stream.listed(time) if self.rng.random() < 0.8 else None  # noqa: PLR2004
        marked = [_row(shard) for shard in opened]
        marked += [ShardRow(one, children=frozenset(archive.end_children)) for one, archive in ended.items()]
        return Sources(
            first=tuple(_row(shard) for shard in self.first) if has_first else None,
            marked=tuple(marked),
            opened=frozenset(shard.shard_id for shard in opened),
            ended=frozenset(ended),
            listed=None if listed is None else tuple(_row(shard) for shard in listed),
            closed=frozenset(
                shard.shard_id for shard in listed or () if shard.closed is not None and shard.closed <= time
            ),
        )

    def _missing(self, scope: Interval, time: int, gone: set[tuple[str, Position]]) -> int:
        """Count the records of the scope that are not archived."""
        missing = 0
        for shard_id in self._family():
            archived = {
                record.position
                for segment in self.archives[shard_id].segments
                if segment.stored <= time and (shard_id, segment.link.first) not in gone
                for record in segment.records
            }
            missing += sum(
                scope.from_ms <= record.stamp < scope.until_ms and record.position not in archived
                for record in self.stream.shards[shard_id].records
            )
        return missing

    def _family(self) -> list[str]:
        family = [shard.shard_id for shard in self.first]
        for shard in self.stream.shards.values():
            if shard.shard_id not in family and any(parent in family for parent in shard.parents):
                family.append(shard.shard_id)
        return family


def _row(shard: StreamShard) -> ShardRow:
    return ShardRow(shard.shard_id, shard.keys, frozenset(shard.parents))


__all__ = ["CALM", "Faults", "History", "Looked", "State"]
