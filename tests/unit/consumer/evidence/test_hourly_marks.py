"""A thousand quiet shards of one worker: at twenty past, each is covered up to the hour.

A call of a shard comes once a second. An attempt takes 100 ms a request, and holds the worker's lock meanwhile: whose
call falls into that time goes without, and waits for its next one.
"""

import heapq
import itertools
import random

import pytest

from consumer.evidence.birth import ShardOrigin
from consumer.evidence.read_marks import ReadMarks
from consumer.evidence.shard_evidence import ShardEvidence
from consumer.services import Services
from minutebook.coverage.continuity import AFTER_HOUR_MS, spread_of
from minutebook.errors import StreamUnavailable
from minutebook.format.document import FORMAT
from minutebook.format.markers import ApplicationRecord
from minutebook.format.metadata import ChainStart
from minutebook.format.minute import HOUR_MS, MINUTE_MS
from tests.fakes.clock import START_MS, ManualClock
from tests.fakes.memory_store import MemoryBucket, MemoryStore
from tests.fakes.shard import FakeShard
from tests.fakes.stream import DAY_MS, FakeStream
from tests.fakes.world import settings

SHARDS = [f"shardId-{number:012d}" for number in range(1000)]
MIDNIGHT_MS = (START_MS // DAY_MS + 1) * DAY_MS
ANSWER_SECONDS = 0.1


class Worker:
    """Reads all shards, from the tip on: nothing arrives. `failing` is the share of attempts that fail."""

    def __init__(self, begin_ms: int, *, failing: float) -> None:
        self.clock = ManualClock(begin_ms)
        self.is_locked = False
        self._failing = failing
        self._rng = random.Random(1)
        self._stream = FakeStream(*(FakeShard(shard) for shard in SHARDS), clock=self.clock)
        self._stream.on_request = self._answer
        store = MemoryStore(MemoryBucket(self.clock))
        store.before = lambda _verb, _key: self.clock.advance(ANSWER_SECONDS)
        ids = map(str, itertools.count())
        services = Services(settings(), store, self._stream, self.clock, self._rng, lambda: next(ids))
        application = ApplicationRecord(
            format=FORMAT,
            stream_arn=self._stream.arn,
            stream_created_ms=self._stream.created_ms,
            application="app",
            start="oldest",
            start_at_ms=None,
            writer="w",
            written_at_ms=begin_ms,
        )
        self.evidence = {
            shard: ShardEvidence(services, ShardOrigin(shard, self._stream.shard(shard), application))
            for shard in SHARDS
        }
        self._marks = {shard: ReadMarks(services, self.evidence[shard], self) for shard in SHARDS}

    def covers(self, shard: str, hour_ms: int) -> bool:
        """Tell whether a shard's evidence reaches a time."""
        until_ms = self.evidence[shard].until_ms
        return until_ms is not None and until_ms >= hour_ms

    def take(self) -> bool:
        """Take the worker's lock."""
        return not self.is_locked

    def release(self) -> None:
        """Give it back."""

    def run(self, hour_ms: int, until_ms: int, first_ms: dict[str, int]) -> None:
        """Call each shard once a second, from its own first time on, until it is covered up to the hour."""
        calls = [(first_ms[shard] + self._rng.randrange(1000), shard) for shard in SHARDS]
        heapq.heapify(calls)
        while calls and calls[0][0] < until_ms:
            at_ms, shard = heapq.heappop(calls)
            self.is_locked = at_ms < self.clock.now_ms()
            self.clock.advance(max(0, at_ms - self.clock.now_ms()) / 1000)
            self._marks[shard].tick(ChainStart("TRIM_HORIZON"))
            if not self.covers(shard, hour_ms):
                heapq.heappush(calls, ((at_ms if self.is_locked else self.clock.now_ms()) + 1000, shard))
        self.clock.advance(max(0, until_ms - self.clock.now_ms()) / 1000)

    def _answer(self) -> None:
        self.clock.advance(ANSWER_SECONDS)
        if self._stream.requests[-1] == "open" and self._rng.random() < self._failing:
            raise StreamUnavailable("no answer", next_step="none")


@pytest.mark.parametrize("failing", [0, 0.05, 0.2])
def test_at_twenty_past_every_shard_is_covered_up_to_the_hour(failing: float) -> None:
    """Midnight is one of these hours. Before its own time no shard asks: the spread takes ten minutes."""
    begin_ms = MIDNIGHT_MS - 2 * HOUR_MS + 30 * MINUTE_MS
    worker = Worker(begin_ms, failing=failing)
    worker.run(begin_ms - MINUTE_MS, begin_ms + 20 * MINUTE_MS, dict.fromkeys(SHARDS, begin_ms))
    for hour_ms in (MIDNIGHT_MS - HOUR_MS, MIDNIGHT_MS):
        due_ms = {shard: hour_ms + AFTER_HOUR_MS + spread_of(shard) for shard in SHARDS}
        worker.run(hour_ms, hour_ms + 20 * MINUTE_MS, due_ms)
        assert [shard for shard in SHARDS if not worker.covers(shard, hour_ms)] == []
