"""Histories of coverage: a stream, and its processors with all that happens to them."""

import itertools
import random
from typing import Final, NamedTuple

from minutebook.format.metadata import Continuity
from minutebook.format.read_mark import MarkKind, ReadMark
from tests.property.coverage_archive import ShardArchive
from tests.property.coverage_reader import Reader
from tests.property.coverage_runs import Pauses, ShardRuns, Weather
from tests.property.coverage_stream import DAY, FIRST_DAY, HOUR, MINUTE, Stream, StreamShard


class Faults(NamedTuple):
    """What may happen. All of it, unless a test wants a calm history."""

    outages: bool = True
    freezes: bool = True
    redeploys: float = 0.002
    skips: bool = True
    unread: float = 0.05
    lists_first: float = 0.8
    lists_now: float = 0.8
    stream_audits: float = 0.3


CALM: Final = Faults(
    outages=False,
    freezes=False,
    redeploys=0.0,
    skips=False,
    unread=0.0,
    lists_first=1.0,
    lists_now=1.0,
    stream_audits=0.0,
)
ALL: Final = Faults()


class History:
    """One history from one seed. `pending` are the times in which records were skipped and nobody has said so yet."""

    def __init__(self, seed: int, faults: Faults = ALL, days: int = 4) -> None:
        self.rng = random.Random(seed)
        self.faults = faults
        self.begin = FIRST_DAY + self.rng.randrange(DAY)
        self.runs_from = self.begin + self.rng.choice([0, self.rng.randrange(22 * HOUR)])
        self.until = FIRST_DAY + days * DAY + 8 * HOUR
        self.weather = Weather(
            self.until,
            self._pauses(self.rng.choice([0, 1, 1, 2])) if faults.outages else [],
            self._pauses(self.rng.choice([0, 1, 1, 2])) if faults.freezes else [],
            faults.redeploys,
            faults.skips,
        )
        self.stream = Stream(self.rng, days, [*self.weather.down, *self.weather.asleep])
        self.first = [
            shard
            for shard in self.stream.shards.values()
            if shard.born <= self.runs_from and (shard.closed is None or shard.closed > self.begin)
        ]
        self.archives: dict[str, ShardArchive] = {}
        self.pending: Pauses = []
        self._numbers = itertools.count()
        for shard in self.stream.shards.values():
            self.archives[shard.shard_id] = ShardArchive(shard.shard_id)
            self._live(shard)
        if self.rng.random() < faults.stream_audits:
            self._compare(self.rng.randrange(self.runs_from, self.until))

    def family(self) -> list[str]:
        """Return the shards that belong to the application."""
        family = [shard.shard_id for shard in self.first]
        for shard in self.stream.shards.values():
            if shard.shard_id not in family and any(parent in family for parent in shard.parents):
                family.append(shard.shard_id)
        return family

    def _pauses(self, count: int) -> Pauses:
        """Return times of nothing. Often they begin or end by a midnight."""
        pauses = []
        for _ in range(count):
            begin = self.rng.randrange(self.runs_from, self.until)
            end = begin + int(self.rng.choice([0.1, 0.5, 10, 23, 24, 25, 40, 60]) * HOUR)
            near = self.rng.choice([30_000, 2 * MINUTE, 10 * MINUTE])
            if self.rng.random() < 0.5:
                begin = begin // DAY * DAY + self.rng.randrange(-near, near)
            if self.rng.random() < 0.5:
                end = end // DAY * DAY + DAY + self.rng.randrange(-near, near)
            if self.runs_from < begin < end:
                pauses.append((begin, end))
        return pauses

    def _live(self, shard: StreamShard) -> None:
        opening = self._opening(shard)
        if opening is None:
            return
        is_first = shard in self.first and not any(self.stream.shards[one] in self.first for one in shard.parents)
        start = self.begin if is_first else None

        def new_reader() -> Reader:
            run, seed = f"r{next(self._numbers)}", self.rng.randrange(1 << 30)
            return Reader(self.stream, shard, self.archives, start, run, seed)

        runs = ShardRuns(self.rng, self.weather, self.archives[shard.shard_id], new_reader)
        runs.drive(opening)
        self.pending += runs.pending

    def _opening(self, shard: StreamShard) -> int | None:
        """Return when KCL gives the shard to a processor; None: never."""
        is_stranger = shard not in self.first and (
            shard.born < self.runs_from or not any(parent in self.archives for parent in shard.parents)
        )
        if is_stranger or self.rng.random() < self.faults.unread:
            return None
        time = max(shard.born, self.runs_from)
        parents = [self.stream.shards[parent] for parent in shard.parents]
        while time < self.until:
            time = self.weather.up_at(time) + self.rng.randrange(1000, 5 * MINUTE)
            if not shard.is_listed(time):
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
