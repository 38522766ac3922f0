"""The stream itself, read again from Kinesis."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from compaction.stream.pace import MOST_RECORDS, SHARE, Pace
from minutebook.aws.access import Access
from minutebook.aws.clients import client_config, make_kinesis_client
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord
from minutebook.aws.kinesis.client import StreamClient
from minutebook.clock import Clock, SystemClock, new_random
from minutebook.coverage.topology import ShardRow, hash_range_of
from minutebook.errors import StreamUnavailable
from minutebook.format.aggregate import UserRecord, deaggregate
from minutebook.format.arrival import STREAM_MARGIN_MS
from minutebook.format.position import Position

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

T = TypeVar("T")

_BUDGET_SECONDS: Final = 120
_EMPTY_AT_TIP: Final = 3
DAY_MS: Final = 86_400_000
"""The least retention there is."""


class Sent(NamedTuple):
    """One user record as the stream holds it."""

    position: Position
    arrival_ms: int
    partition_key: str
    data: bytes


class ListedShards(NamedTuple):
    """A stream, and its shards as ListShards names them; `closed` are those that take no records any more.

    `created_ms` is since when there is the stream (epoch ms), `retention_ms` how long it keeps a record.
    """

    arn: str
    created_ms: int
    rows: tuple[ShardRow, ...]
    closed: frozenset[str]
    retention_ms: int = DAY_MS


class ReadSpan(NamedTuple):
    """What of a shard is read: what arrived in [begin, end), at `start` or behind it, and before `stop`.

    The first slice of a shard is looked for by time. Each further one begins `at` the sequence number at which the
    one before it ended. `retention_ms` is how long the stream keeps a record, `created_ms` since when it keeps any.
    """

    begin_ms: int
    end_ms: int
    start: Position | None = None
    stop: Position | None = None
    at: int | None = None
    created_ms: int = 0
    retention_ms: int = DAY_MS


@dataclass
class ReadLog:
    """What is known of one reading: of which time it began, and the service's times (Date), None where it named none.

    `asked_ms` is from before the first record was asked for, `answered_ms` from the last answer; `oldest_ms` is when
    the first record that came had arrived, whether or not it was asked for. `next_sequence` is that of the first
    record at `stop` or behind it: there the next slice begins; None: the shard was read as far as there is anything.
    `is_trimmed`: what was asked for had left the stream in part, before it was asked for. `is_broken`: records left
    it in front of the reader, or may have: what was read is not whole.
    """

    since_ms: int = 0
    until_ms: int = 0
    asked_ms: int | None = None
    answered_ms: int | None = None
    oldest_ms: int | None = None
    next_sequence: int | None = None
    is_trimmed: bool = False
    is_broken: bool = False


class ArchivedStream:
    """One stream, read by name. Thread-safe, as botocore's clients are.

    Every method raises StreamRefused or StreamUnavailable where Kinesis does not answer.
    """

    def __init__(
        self,
        client: "KinesisClient",
        stream_name: str,
        clock: Clock,
        rng: random.Random,
        *,
        page_records: int = MOST_RECORDS,
        budget_seconds: float = _BUDGET_SECONDS,
        share: float = SHARE,
    ) -> None:
        self._stream = StreamClient(lambda: client, stream_name, clock, rng, budget_seconds=budget_seconds)
        self._clock = clock
        self._page_records = page_records
        self._share = share

    def listed(self) -> ListedShards:
        """Return the stream and its shards, with their hash keys and parents."""
        arn, created_ms, retention_ms = self._stream.summary()
        shards = list(self._stream.shards())
        rows = tuple(
            ShardRow(shard_id, hash_range_of(first_key, last_key), frozenset(parents))
            for shard_id, first_key, last_key, parents, _ in shards
        )
        closed = frozenset(shard.shard_id for shard in shards if shard.closed)
        return ListedShards(arn, created_ms, rows, closed, retention_ms)

    def read(self, shard_id: str, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Return the user records of a shard within a reach, in the shard's order; the iterator is asked for at once.

        Reading ends at the reach's stop, at a record that arrived well after its end, or after it was asked for, at
        the shard's end, or at its tip. `log` is filled in: `since_ms` when this returns, the rest as it is read.
        """
        beginning = Beginning(reach.at, max(0, reach.begin_ms - STREAM_MARGIN_MS))
        opened = self._stream.begin(shard_id, beginning)
        log.asked_ms = opened.date_ms
        now_ms = max(self._clock.now_ms(), log.asked_ms or 0)
        # A host's clock may be slow, and a busy shard never comes to its tip.
        log.until_ms = min(reach.end_ms, now_ms)
        log.since_ms = reach.begin_ms
        edge_ms = now_ms - reach.retention_ms
        if reach.at is None and edge_ms > max(reach.begin_ms, reach.created_ms):
            log.is_trimmed, log.since_ms = True, edge_ms + 60_000
        return self._records(self._pages(shard_id, opened), reach, log)

    def _records(self, pages: Iterator[Answer], reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Yield records until something ends the reading.

        An iterator whose next record has left the stream goes on at the oldest one that has not, and says nothing. So
        the place where a page was to begin (the last record that came) must still be held when it is answered, and a
        slice must begin with the very record at which the one before it ended; when that arrived, it tells itself.
        """
        stood_ms = max(log.since_ms, reach.created_ms) if reach.at is None else None
        for page in pages:
            log.answered_ms = page.date_ms
            now_ms = self._clock.now_ms() if page.date_ms is None else page.date_ms
            if stood_ms is not None and stood_ms <= now_ms - reach.retention_ms:
                log.is_broken = True
                return
            if not page.records:
                assert page.behind_ms is not None  # noqa: S101 - GetRecords always names it
                stood_ms = max(stood_ms or 0, now_ms - page.behind_ms)
            for record in page.records:
                if log.oldest_ms is None:
                    log.oldest_ms = record.arrival_ms
                    log.is_broken = reach.at is not None and record.sequence != reach.at
                if log.is_broken or record.arrival_ms >= log.until_ms + STREAM_MARGIN_MS:
                    return
                if reach.stop is None or record.sequence <= reach.stop.sequence:
                    stood_ms = max(stood_ms or 0, record.arrival_ms)
                    yield from _within(record, reach, log)
                if reach.stop is not None and record.sequence >= reach.stop.sequence:
                    log.next_sequence = record.sequence
                    return
        if reach.at is not None and log.oldest_ms is None:
            log.is_broken = True  # the record at which the slice before it ended is gone

    def _pages(self, shard_id: str, page: Answer) -> Iterator[Answer]:
        """Yield what GetRecords answers until the shard's end, or until its tip has given nothing three times."""
        pace = Pace(self._clock, self._share, self._page_records)
        empty_at_tip = 0
        while page.iterator and empty_at_tip < _EMPTY_AT_TIP:
            pace.wait()
            page = self._stream.read(shard_id, page.iterator, most=pace.page_records)
            pace.note(len(page.records), sum(len(record.data) for record in page.records))
            yield page
            empty_at_tip = empty_at_tip + 1 if page.is_tip else 0


class StreamAddress(NamedTuple):
    """Where a stream is, as a plain value: tasks take it along and open the stream themselves.

    `share` is what of each shard's reads may be taken.
    """

    name: str
    region: str
    endpoint: str | None
    access: Access
    share: float = SHARE

    def here(self) -> ArchivedStream:
        """Return the stream, to be read in this process."""
        return self.open(SystemClock())

    def open(self, clock: Clock, *, budget_seconds: float = _BUDGET_SECONDS) -> ArchivedStream:
        """Return the stream with a clock, and how long each request is repeated."""
        client = make_kinesis_client(self.region, self.endpoint, self.access, client_config(connections=32))
        return ArchivedStream(client, self.name, clock, new_random(), budget_seconds=budget_seconds, share=self.share)


def user_records(partition_key: str, data: bytes) -> list[UserRecord]:
    """Take a Kinesis record apart: what its producer put in, not only what KCL delivers of it.

    KCL delivers nothing of an aggregate when one of its records hashes outside the shard, says nothing about it, and
    drops what follows a malformed user record. Here those records are counted too, under the numbers that KCL would
    have given them, so that such a loss is seen as `missing_in_archive`. What is not an aggregate, or only begins
    like one, is a plain record.
    """
    delivery = deaggregate(partition_key, data)
    return [*delivery.delivered, *delivery.withheld]


def _within(record: HeldRecord, reach: ReadSpan, log: ReadLog) -> Iterator[Sent]:
    """Yield the user records of a Kinesis record that lie within a reach."""
    if not log.since_ms <= record.arrival_ms < log.until_ms:
        return
    for sub, partition_key, data in user_records(record.partition_key, record.data):
        position = Position(record.sequence, sub)
        if (reach.start is None or position >= reach.start) and (reach.stop is None or position < reach.stop):
            yield Sent(position, record.arrival_ms, partition_key, data)


def once_in_vain(ask: Callable[[], T]) -> Callable[[], T]:
    """Return `ask` for one run: a stream that could not be reached is not waited for again on every day of it."""
    failed: list[StreamUnavailable] = []

    def asked() -> T:
        if failed:
            raise failed[0]
        try:
            return ask()
        except StreamUnavailable as exc:
            failed.append(exc)
            raise

    return asked
