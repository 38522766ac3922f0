"""A stream double: identity, retention, and shards that a test opens, closes and forgets."""

from email.utils import formatdate
from itertools import groupby
from typing import TYPE_CHECKING, Self

from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord
from minutebook.aws.kinesis.client import ServiceTime
from minutebook.clock import Clock
from minutebook.errors import StreamRefused, StreamUnavailable
from minutebook.format.position import Position
from tests.fakes.clock import START_MS
from tests.fakes.shard import FakeShard
from tests.witness.aggregate import aggregate

if TYPE_CHECKING:
    from collections.abc import Callable

ARN = "arn:aws:kinesis:eu-central-1:000000000000:stream/flights"
DAY_MS = 24 * 3600 * 1000


class FakeStream:
    """Implements `consumer.stream.port.Stream` over `FakeShard`s.

    `requests` names the calls in order; `on_request` is called before each is answered. `unavailable` and `refused`
    make every call fail in that way. With `false_ends` reading an open shard meets a null iterator, as KCL believes
    after a ResourceNotFoundException.

    `clock` is the service's, which the host's may differ from; without one answers carry no Date. `page` is how many
    records an answer brings; `empty_answers` is how many of the next answers are empty on the way; `limits` what each
    reader asked for at most. A server that
    `ignores_filters` knows no ShardFilter.
    """

    def __init__(
        self,
        *shards: FakeShard,
        arn: str = ARN,
        created_ms: int = START_MS - DAY_MS // 2,
        retention_ms: int = DAY_MS,
        clock: Clock | None = None,
    ) -> None:
        self.shards = {shard.shard_id: shard for shard in shards}
        self.arn = arn
        self.created_ms = created_ms
        self.retention_ms = retention_ms
        self.requests: list[str] = []
        self.on_request: Callable[[], None] = lambda: None
        self.unavailable = False
        self.refused = False
        self.false_ends = False
        self.clock = clock
        self.page = 100
        self.empty_answers = 0
        self.limits: list[int] = []
        self.ignores_filters = False
        self._time = None if clock is None else ServiceTime(clock)

    def describe(self) -> StreamIdentity:
        """Return the identity; creation time changes when a test re-creates the stream."""
        self._ask("describe")
        return StreamIdentity(self.arn, self.created_ms, self.retention_ms)

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row, or None for a shard that is no longer listed."""
        self._ask("shard")
        shard = self.shards.get(shard_id)
        return None if shard is None else _row(shard)

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> dict[str, ShardInfo]:
        """Return the listed shards; with a time those that were open then, or at any time since."""
        self._ask("all_shards")
        return {
            shard.shard_id: _row(shard)
            for shard in self.shards.values()
            if self.ignores_filters
            or (
                (at_ms is None or shard.born_ms <= at_ms)
                and not (shard.closed_ms is not None and shard.closed_ms < max(at_ms or 0, since_ms or 0))
            )
        }

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:
        """Return an iterator: the sequence number that is read next."""
        self._ask("open")
        held = self._held(shard_id)
        if beginning.sequence is not None:
            if all(record.sequence != beginning.sequence for record in held):
                return None
            return Answer(str(beginning.sequence), self._date())
        since_ms = beginning.since_ms or 0
        begin = next(
            (record.sequence for record in held if record.arrival_ms >= since_ms), self.shards[shard_id].next
        )
        return Answer(str(begin), self._date())

    def read(self, shard_id: str, iterator: str, *, most: int = 100) -> Answer:
        """Return the next page behind an iterator; at the end of a closed shard there is none to follow."""
        self.limits.append(most)
        self._ask("read")
        shard = self.shards[shard_id]
        left = [record for record in self._held(shard_id) if record.sequence >= int(iterator)]
        if self.empty_answers:
            self.empty_answers -= 1
            return Answer(iterator, self._date(), (), 1000)
        page = left[: min(self.page, most)]
        is_last = len(page) == len(left)
        following = str(page[-1].sequence + 1) if page else iterator
        return Answer(
            None if is_last and (shard.closed or self.false_ends) else following,
            self._date(),
            tuple(page),
            0 if is_last else 1000,
        )

    def service_ms(self) -> int | None:
        """Return the service's time by the last answer."""
        return None if self.clock is None or self._time is None else self._time.now_ms()

    def within(self, budget_seconds: float) -> Self:  # noqa: ARG002 - the port's shape
        """Return itself: it never retries."""
        return self

    def _held(self, shard_id: str) -> list[HeldRecord]:
        """Return the Kinesis records that retention holds."""
        shard = self.shards[shard_id]
        held = list(shard.undelivered)
        for sequence, group in groupby(shard.records, key=lambda record: record.position.sequence):
            users = list(group)
            first = users[0]
            # What was trimmed of an aggregate is a test's shorthand: an aggregate goes whole.
            data = first.data if len(users) == 1 else aggregate([(user.partition_key, user.data) for user in users])
            held.append(HeldRecord(sequence, first.arrival_ms, first.partition_key, data))
        return sorted(held)

    def _date(self) -> int | None:
        return None if self.clock is None else self.clock.now_ms() // 1000 * 1000

    def holds(self, shard_id: str, position: Position) -> bool:
        """Tell whether retention still holds the record."""
        self._ask("holds")
        return any(record.position == position for record in self.shards[shard_id].records)

    def recreate(self, created_ms: int) -> None:
        """Delete the stream and make it again under the same name: empty shards, another creation time."""
        self.created_ms = created_ms
        self.shards = {shard_id: FakeShard(shard_id, first_sequence=1) for shard_id in self.shards}

    def _ask(self, what: str) -> None:
        self.requests.append(what)
        if self.clock is not None and self._time is not None:
            seconds = self.clock.now_ms() // 1000
            self._time.note(formatdate(seconds, usegmt=True), self.clock.monotonic())
        self.on_request()
        if self.unavailable:
            raise StreamUnavailable("Kinesis stayed unavailable", next_step="wait")
        if self.refused:
            raise StreamRefused("AccessDeniedException", next_step="grant it")


def _row(shard: FakeShard) -> ShardInfo:
    return ShardInfo(shard.shard_id, *map(str, shard.hash_range), shard.parents, shard.children, shard.closed)
