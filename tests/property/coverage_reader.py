"""One processor run in the histories of coverage: it reads, cuts, commits and marks by the rules of `continuity`.

A run is a generator: it yields how long its next step takes, and is resumed with the time at which that is over. The
host may sleep in any of these pauses, and whoever drives it may never resume it again.
"""

import random
from collections.abc import Generator
from typing import TYPE_CHECKING

from minutebook.coverage.continuity import (
    AFTER_HOUR_MS,
    RETRY_MS,
    Base,
    Held,
    OldestHeld,
    is_mark_due,
    judge_birth,
    judge_continuity,
    must_state,
    read_until,
    spread_of,
    unborn_at,
)
from minutebook.coverage.evidence import EvidenceLink, Kind
from minutebook.format.metadata import ChainStart, Continuity
from minutebook.format.read_mark import BIRTH, MarkKind, ReadMark
from tests.property.coverage_archive import ShardArchive
from tests.property.coverage_stream import HOUR, MINUTE, Stream, StreamRecord, StreamShard

if TYPE_CHECKING:
    from minutebook.format.position import Position

Step = Generator[int, int, int]
_SIGNED = 15 * MINUTE


class Crash(Exception):  # noqa: N818 - as the product's own doubt
    """The run gives up; another one goes on from the archive."""


class Reader:
    """One run. `start` is the application's for a first shard, None for a child."""

    def __init__(
        self,
        stream: Stream,
        shard: StreamShard,
        archives: dict[str, ShardArchive],
        start: int | None,
        run: str,
        seed: int,
    ) -> None:
        self._stream = stream
        self._shard = shard
        self._archives = archives
        self._archive = archives[shard.shard_id]
        self._start = start
        self._run = run
        self._rng = random.Random(seed)
        self._tail: Position | None = None
        self._cursor = 0
        self._buffer: list[StreamRecord] = []
        self._since = self._delivered = 0
        self._base: Base | None = None
        self._knows_base = self._is_own = False
        self._asked = 0
        self._last_until: int | None = None
        self._last_attempt: int | None = None
        self._commits = 0
        self._flushes = self._rng.choice([0.0, 0.2, 0.8])
        self.skipped: list[int] = []
        self.skips = False
        self.doomed: int | None = None

    def life(self) -> Step:
        """Run until the shard's end is recorded."""
        time = yield self._moment()
        self._asked = time
        if self._archive.opened is None:
            self._archive.opened = time
        self._resume()
        while True:
            self._cursor, batch = self._shard.read(self._cursor, time)
            time = yield self._moment()
            time = yield from self._take(batch, time)
            closed = self._shard.closed
            if closed is not None and time > closed and self._cursor >= len(self._shard.records):
                time = yield from self._commit(time)
                return (yield from self._end(time))
            if not self._buffer and is_mark_due(self._shard.shard_id, self._last_until, time, self._last_attempt):
                time = yield from self._mark(time)
            if self.doomed is not None and time >= self.doomed:
                raise Crash
            time = yield self._until_next_poll(time)

    def _moment(self) -> int:
        return self._rng.randrange(50, 3000)

    def _until_next_poll(self, time: int) -> int:
        after_hour = (AFTER_HOUR_MS + spread_of(self._shard.shard_id) - time) % HOUR
        index = self._shard.arrived(time)
        wait = self._rng.randrange(10_000, 40 * MINUTE)
        if self._buffer:
            wait = self._rng.randrange(5_000, 2 * MINUTE)
        elif index < len(self._shard.records) and self._rng.random() < 0.8:
            near = self._rng.choice([2000, 20_000, 2 * MINUTE])
            wait = min(wait, self._shard.records[index].at - time + self._rng.randrange(100, near))
        if is_mark_due(self._shard.shard_id, self._last_until, time, None):
            wait = min(wait, self._rng.randrange(20_000, RETRY_MS))
        return max(100, min(wait, after_hour)) + self._moment()

    def _resume(self) -> None:
        """Go on from a checkpoint: the end of a segment, not always the last one's."""
        ends = [segment.link.last for segment in self._archive.segments]
        if ends:
            self._tail = ends[-1]
            checkpoint = ends[max(0, len(ends) - self._rng.choice([1, 1, 1, 2, 4]))]
            self._cursor = checkpoint.sequence
        elif self._start is not None:
            start = self._start
            records = self._shard.records
            self._cursor = next((n for n, record in enumerate(records) if record.stamp >= start), len(records))
        self._last_until = self._archive.base_until(self._tail, 0, finds_marks=True)

    def _take(self, batch: list[StreamRecord], time: int) -> Step:
        if self.skips and batch and self.doomed is None and self._rng.random() < 0.003:
            self.skipped.append(time)
            self.doomed = time + self._rng.choice([0, 2 * MINUTE, 10 * MINUTE])
            return time
        for record in batch:
            if self._tail is not None and record.position <= self._tail:
                continue
            if self._buffer and self._buffer[-1].stamp // MINUTE != record.stamp // MINUTE:
                time = yield from self._commit(time)
                if self._tail is not None and record.position <= self._tail:
                    continue
            if not self._buffer:
                self._since = time
            self._buffer.append(record)
            self._delivered = time
        flushes = self._rng.random() < self._flushes  # where a segment is cut never matters
        if self._buffer and (flushes or time > self._over()):
            time = yield from self._commit(time)
        return time

    def _over(self) -> int:
        return (self._buffer[0].stamp // MINUTE + 1) * MINUTE + 5000

    def _look_up(self, time: int) -> None:
        """Find what the next piece of evidence stands on."""
        if self._knows_base:
            return
        found = self._archive.base_until(self._tail, time, finds_marks=self._rng.random() < 0.95)
        until = self._start if found is None else found
        self._base = None if until is None else Base(until, self._tail)
        self._knows_base, self._is_own = True, False

    def _judge(self, answered: int, time: int) -> Continuity:
        if self._base is not None:
            return judge_continuity(self._base, answered, self._held(time))
        parents = [self._archives[parent] for parent in self._shard.parents if parent in self._archives]
        opened = [segment.link.until_ms for one in parents for segment in one.segments]
        opened += [mark.until_ms for one in parents for mark, _ in one.marks if mark.kind is MarkKind.READ]
        asked = self._rng.choice([self._asked, time])
        unborn = unborn_at(asked)
        knows = self._rng.choice([True, False])
        return judge_birth(
            answered,
            parents_open_ms=max(opened, default=None) if knows else None,
            unborn_ms=unborn if self._shard.born > unborn and self._shard.is_listed(asked) else None,
        )

    def _held(self, time: int) -> Held:
        horizon = self._shard.horizon(time)
        records = self._shard.records
        oldest = None
        if horizon < self._shard.arrived(time):
            oldest = OldestHeld(records[horizon].position, records[horizon].stamp)
        return Held(self._tail is not None and self._tail.sequence - 1 >= horizon, oldest)

    def _commit(self, time: int) -> Step:
        while self._buffer:
            if time - self._since > _SIGNED:
                raise Crash
            self._look_up(time)
            link = self._link(time)
            put = yield self._moment()
            if put - time > _SIGNED:
                raise Crash
            time = put
            other = self._archive.next_stored(self._tail)
            if other is not None:
                self._tail = other.link.last
                self._buffer = [record for record in self._buffer if record.position > self._tail]
                self._knows_base = False
                continue
            self._archive.put(link, self._buffer, time)
            self._buffer, self._tail = [], link.last
            is_begun = link.claim not in {None, Continuity.PROVEN}
            until = link.begins_ms if is_begun else max(link.until_ms, self._base.until_ms if self._base else 0)
            self._base, self._last_until, self._is_own = Base(until, self._tail), until, True
        return time

    def _link(self, time: int) -> EvidenceLink:
        claim, begin = None, None
        if self._base is None or must_state(self._base, self._delivered, follows_own_segment=self._is_own):
            claim = self._judge(self._delivered, time)
            begin = BIRTH if self._base is None else self._base.until_ms
        self._commits += 1
        first, minute = self._buffer[0], self._buffer[0].stamp // MINUTE * MINUTE
        return EvidenceLink(
            Kind.SEGMENT,
            first.position,
            self._buffer[-1].position,
            ChainStart("TRIM_HORIZON") if self._tail is None else self._tail,
            until_ms=minute - MINUTE,
            begins_ms=minute + 2 * MINUTE,
            arrival_min_ms=min(record.stamp for record in self._buffer),
            run=self._run,
            claim=claim,
            from_ms=begin,
        )

    def _mark(self, time: int) -> Step:
        self._last_attempt, date = time, time // 1000 * 1000
        time = yield self._moment()
        self._look_up(time)
        is_closed = self._shard.closed is not None and time > self._shard.closed
        if is_closed or self._finds_more(time):
            return time
        time = yield self._moment()
        mark = self._piece(MarkKind.READ, date, time)
        is_late = time - self._last_attempt > 4 * MINUTE
        if is_late or (self._tail is None and self._archive.segments):
            return time
        put = yield self._moment()
        if put - time <= _SIGNED:
            self._archive.marks.append((mark, put))
            self._base, self._last_until, self._is_own = Base(mark.until_ms, self._tail), mark.until_ms, False
        return put

    def _finds_more(self, time: int) -> bool:
        """Read to the tip from a minute before the base, or from the tail; tell whether a record lies behind it."""
        _, held = self._shard.read(0, time)
        since = -HOUR if self._base is None else self._base.until_ms - MINUTE
        at = next((number for number, record in enumerate(held) if record.stamp >= since), len(held))
        return any(self._tail is None or record.position > self._tail for record in held[at:]) and (
            self._tail is not None or any(self._start is None or record.stamp >= self._start for record in held[at:])
        )

    def _piece(self, kind: MarkKind, date: int, time: int, *, is_listed: bool = True) -> ReadMark:
        continuity = self._judge(time, time) if is_listed else Continuity.UNPROVEN
        begin = BIRTH if self._base is None else self._base.until_ms
        until = read_until(date, begin)
        return ReadMark(self._shard.shard_id, kind, continuity, begin, until, self._tail, f"w{self._run}")

    def _end(self, time: int) -> Step:
        date = time // 1000 * 1000
        time = yield self._moment()
        self._look_up(time)
        is_listed = self._shard.is_listed(time)
        if is_listed and self._finds_more(time):
            raise Crash
        time = yield self._moment()
        piece = self._piece(MarkKind.END, date, time, is_listed=is_listed)
        time = yield self._moment()
        self._archive.marks.append((piece, time))
        time = yield self._moment()
        if self._archive.ended is None:
            self._archive.ended = time
            listed = self._stream.children(self._shard.shard_id) if is_listed else []
            self._archive.end_children = tuple(shard.shard_id for shard in listed if shard.is_listed(time))
        return time
