"""The runs of one shard in the histories of coverage, in the order of time: crashes, redeploys, sleeping hosts."""

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Final, NamedTuple

from tests.property.coverage_archive import ShardArchive
from tests.property.coverage_reader import Crash, Reader, Step
from tests.property.coverage_stream import MINUTE

_NEVER: Final = 1 << 61
Pauses = list[tuple[int, int]]


class Weather(NamedTuple):
    """What happens to processors: when none runs, when hosts sleep, how often one is replaced."""

    until: int
    down: Pauses
    asleep: Pauses
    redeploys: float
    skips: bool

    def up_at(self, time: int) -> int:
        """Return when processors run again, at `time` or later."""
        for begin, end in sorted(self.down):
            if begin <= time < end:
                time = end
        return time


class _Turn(NamedTuple):
    """When which run goes on, and how often it still may once another has taken over."""

    time: int
    order: int
    step: Step
    reader: Reader
    left: int


class ShardRuns:
    """Drives the runs of one shard. `new_reader` makes the next one."""

    def __init__(
        self, rng: random.Random, weather: Weather, archive: ShardArchive, new_reader: Callable[[], Reader]
    ) -> None:
        self._rng = rng
        self._weather = weather
        self._archive = archive
        self._new_reader = new_reader
        self._order = itertools.count()
        self._turns: list[_Turn] = []
        self._current: Step | None = None
        self.pending: Pauses = []

    def drive(self, opening: int) -> None:
        """Run from the shard's opening to the history's end."""
        self._begin(opening)
        while self._turns:
            turn = heapq.heappop(self._turns)
            if turn.time <= self._weather.until and (turn.left > 0 or turn.step is self._current):
                self._take(turn)

    def _begin(self, time: int) -> None:
        reader = self._new_reader()
        reader.skips = self._weather.skips
        self._current = reader.life()
        self._push(time + next(self._current), self._current, reader, _NEVER)

    def _push(self, time: int, step: Step, reader: Reader, left: int) -> None:
        heapq.heappush(self._turns, _Turn(time, next(self._order), step, reader, left))

    def _take(self, turn: _Turn) -> None:
        up = self._weather.up_at(turn.time)
        is_current = turn.step is self._current
        if up > turn.time or (is_current and self._rng.random() < self._weather.redeploys):
            self._die(turn, up + self._rng.randrange(1000, 20 * MINUTE))
            return
        try:
            wait = turn.step.send(turn.time)
        except StopIteration:
            self._tell_skipped(turn)
            return
        except Crash:
            self._die(turn, turn.time + self._rng.randrange(5000, 10 * MINUTE))
            return
        left, begun = turn.left - 1, turn.time + wait
        sleep = next((end - turn.time for begin, end in self._weather.asleep if turn.time <= begin < begun), 0)
        if sleep and self._rng.random() < 0.8:
            if is_current and self._rng.random() < 0.4:  # another host takes over, and this one becomes a zombie
                left = self._rng.randrange(1, 12)
                self._begin(turn.time + self._rng.randrange(MINUTE, 5 * MINUTE))
            wait = sleep + self._rng.choice([0, wait])
        self._push(turn.time + wait, turn.step, turn.reader, left)

    def _die(self, turn: _Turn, again: int) -> None:
        self._tell_skipped(turn)
        if turn.step is self._current:
            self._begin(again)

    def _tell_skipped(self, turn: _Turn) -> None:
        """Let the supervisor write what the daemon's log told of a run, before the next one begins."""
        for skipped in turn.reader.skipped:
            skew = self._rng.randrange(-14 * MINUTE, 14 * MINUTE)
            self._archive.skips.append((skipped + skew, turn.time))
            self.pending.append((skipped, turn.time))
        turn.reader.skipped = []
