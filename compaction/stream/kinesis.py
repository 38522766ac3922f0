"""Read records of the stream again from Kinesis, at a share of each shard's capacity: its consumers come first.

A shard serves 5 GetRecords and 2 MB a second to all polling readers together (Kinesis Data Streams, quotas). Pages
are bounded, too: after one of 10 MB, calls of all readers fail for five seconds.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from minutebook.aws.access import Access
from minutebook.aws.clients import client_config, make_kinesis_client
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord
from minutebook.aws.kinesis.client import StreamClient
from minutebook.clock import Clock, SystemClock, new_random
from minutebook.coverage.topology import ShardRow, hash_range_of
from minutebook.errors import StreamUnavailable
from minutebook.format.aggregate import UserRecord, deaggregate
from minutebook.format.arrival import STREAM_MARGIN_MS
from minutebook.format.minute import DAY_MS
from minutebook.format.position import Position

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

T = TypeVar("T")

_BUDGET_SECONDS: Final = 120
_EMPTY_AT_TIP: Final = 3
"""The minimum retention of a stream."""


CALLS_A_SECOND: Final = 5
BYTES_A_SECOND: Final = 2_000_000
SHARE: Final = 0.4
"""The default share: 2 calls and 0.8 MB a second."""
_PAGE_BYTES: Final = BYTES_A_SECOND // CALLS_A_SECOND
_FIRST_RECORDS: Final = 25
MOST_RECORDS: Final = 10_000
"""The maximum of one GetRecords."""


class Pace:
    """Paces reads of one shard to `share` of its capacity (above 0, up to 1)."""

    def __init__(self, clock: Clock, share: float, most_records: int = MOST_RECORDS) -> None:
        self._clock = clock
        self._share = share
        self._most = most_records
        self._next: float | None = None
        self.page_records = min(most_records, _FIRST_RECORDS)

    def wait(self) -> None:
        """Sleep until the next page may be requested."""
        if self._next is not None and (left := self._next - self._clock.monotonic()) > 0:
            self._clock.sleep(left)

    def note(self, records: int, size: int) -> None:
        """Note the size of a page, to set the time and the maximum size of the next one."""
        seconds = max(1 / (CALLS_A_SECOND * self._share), size / (BYTES_A_SECOND * self._share))
        self._next = self._clock.monotonic() + seconds
        if records:
            fitting = _PAGE_BYTES * records // max(1, size)
            self.page_records = max(1, min(self._most, fitting, 4 * self.page_records))


class Sent(NamedTuple):
    """One user record in the stream."""

    position: Position
    arrival_ms: int
    partition_key: str
    data: bytes


class ListedShards(NamedTuple):
    """A stream and its shards, from ListShards; `closed` shards accept no more records.

    `created_ms`: creation of the stream (epoch ms); `retention_ms`: how long it keeps a record.
    """

    arn: str
    created_ms: int
    rows: tuple[ShardRow, ...]
    closed: frozenset[str]
    retention_ms: int = DAY_MS


class ReadSpan(NamedTuple):
    """The part of a shard to read: arrivals in [begin, end), positions in [start, stop).

    The first slice of a shard is found by time. Each later one begins `at` the sequence number where the previous one
    ended. `retention_ms`, `created_ms`: as in `ListedShards`.
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
    """Facts about one reading, filled in as it proceeds. Records that arrived in [since, until) are read.

    `asked_ms`, `answered_ms`: the service's time (Date header) before the first and in the last response; None: no
    header. `oldest`, `oldest_ms`: sequence number and arrival of the first record received, even if out of range.
    `next_sequence`: the first record at or after `stop`, where the next slice begins; None: there are no more.
    `is_trimmed`: part of the range had certainly expired before it was requested, by the present retention; a shorter
    one before it shows only in `oldest`. `is_broken`: incomplete, because records (may) have expired while reading.
    """

    since_ms: int = 0
    until_ms: int = 0
    asked_ms: int | None = None
    answered_ms: int | None = None
    oldest: int | None = None
    oldest_ms: int | None = None
    next_sequence: int | None = None
    is_trimmed: bool = False
    is_broken: bool = False


class ArchivedStream:
    """One stream, read by name. Thread-safe, like botocore's clients.

    Every method raises StreamRefused or StreamUnavailable if requests to Kinesis fail.
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
        """Return the stream and its shards, with hash ranges and parents."""
        arn, created_ms, retention_ms = self._stream.summary()
        shards = list(self._stream.shards())
        rows = tuple(
            ShardRow(shard_id, hash_range_of(first_key, last_key), frozenset(parents))
            for shard_id, first_key, last_key, parents, _ in shards
        )
        closed = frozenset(shard.shard_id for shard in shards if shard.closed)
        return ListedShards(arn, created_ms, rows, closed, retention_ms)

    def read(self, shard_id: str, span: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Return the user records of a span, in the shard's order; the shard iterator is requested at once.

        Reading ends at the span's `stop`, at a record that arrived well after its end or after the request, at the
        shard's end, or at its tip. `log.since_ms` is set when this returns, the rest while records are read.
        """
        beginning = Beginning(span.at, max(0, span.begin_ms - STREAM_MARGIN_MS))
        opened = self._stream.begin(shard_id, beginning)
        log.asked_ms = opened.date_ms
        now_ms = max(self._clock.now_ms(), log.asked_ms or 0)
        # The host's clock may be slow, and a reader of a busy shard never reaches its tip.
        log.until_ms = min(span.end_ms, now_ms)
        log.since_ms = span.begin_ms
        edge_ms = now_ms - span.retention_ms
        if span.at is None and edge_ms > max(span.begin_ms, span.created_ms):
            log.is_trimmed, log.since_ms = True, edge_ms + 60_000
        return self._records(self._pages(shard_id, opened), span, log)

    def _records(self, pages: Iterator[Answer], span: ReadSpan, log: ReadLog) -> Iterator[Sent]:
        """Yield records until something ends the reading.

        If its next record has expired, a shard iterator silently continues at the oldest one. So the record before a
        page must not have expired when the page is returned, and a slice must begin with the very record at which the
        previous one ended.
        """
        reached_ms = max(log.since_ms, span.created_ms) if span.at is None else None
        for page in pages:
            log.answered_ms = page.date_ms
            now_ms = self._clock.now_ms() if page.date_ms is None else page.date_ms
            if reached_ms is not None and reached_ms <= now_ms - span.retention_ms:
                log.is_broken = True
                return
            if not page.records:
                assert page.behind_ms is not None  # noqa: S101 - GetRecords always returns it
                reached_ms = max(reached_ms or 0, now_ms - page.behind_ms)
            for record in page.records:
                if log.oldest_ms is None:
                    log.oldest, log.oldest_ms = record.sequence, record.arrival_ms
                    log.is_broken = span.at is not None and record.sequence != span.at
                if log.is_broken or record.arrival_ms >= log.until_ms + STREAM_MARGIN_MS:
                    return
                if span.stop is None or record.sequence <= span.stop.sequence:
                    reached_ms = max(reached_ms or 0, record.arrival_ms)
                    yield from _within(record, span, log)
                if span.stop is not None and record.sequence >= span.stop.sequence:
                    log.next_sequence = record.sequence
                    return
        if span.at is not None and log.oldest_ms is None:
            log.is_broken = True  # the record at which the previous slice ended has expired

    def _pages(self, shard_id: str, page: Answer) -> Iterator[Answer]:
        """Yield the responses of GetRecords until the shard's end, or three empty ones at its tip."""
        pace = Pace(self._clock, self._share, self._page_records)
        empty_at_tip = 0
        while page.iterator and empty_at_tip < _EMPTY_AT_TIP:
            pace.wait()
            page = self._stream.read(shard_id, page.iterator, most=pace.page_records)
            pace.note(len(page.records), sum(len(record.data) for record in page.records))
            yield page
            empty_at_tip = empty_at_tip + 1 if page.is_tip else 0


class StreamAddress(NamedTuple):
    """The address of a stream, as a plain value that tasks carry. `share`: usable part of each shard's reads."""

    name: str
    region: str
    endpoint: str | None
    access: Access
    share: float = SHARE

    def here(self) -> ArchivedStream:
        """Open the stream in this process."""
        return self.open(SystemClock())

    def open(self, clock: Clock, *, budget_seconds: float = _BUDGET_SECONDS) -> ArchivedStream:
        """Open the stream; each request is retried for `budget_seconds`."""
        client = make_kinesis_client(self.region, self.endpoint, self.access, client_config(connections=32))
        return ArchivedStream(client, self.name, clock, new_random(), budget_seconds=budget_seconds, share=self.share)


def user_records(partition_key: str, data: bytes) -> list[UserRecord]:
    """Return all user records of a Kinesis record, also those that KCL does not deliver.

    KCL silently drops an aggregate if one of its records hashes outside the shard, and the records after a malformed
    one. Here they count under the sub-sequence numbers that KCL would assign, so that such a loss is reported as
    `missing_in_archive`. A record that is no valid aggregate is a plain record.
    """
    delivery = deaggregate(partition_key, data)
    return [*delivery.delivered, *delivery.withheld]


def _within(record: HeldRecord, span: ReadSpan, log: ReadLog) -> Iterator[Sent]:
    """Yield the user records of a Kinesis record that lie within a span."""
    if not log.since_ms <= record.arrival_ms < log.until_ms:
        return
    for sub, partition_key, data in user_records(record.partition_key, record.data):
        position = Position(record.sequence, sub)
        if (span.start is None or position >= span.start) and (span.stop is None or position < span.stop):
            yield Sent(position, record.arrival_ms, partition_key, data)


def once_in_vain(request: Callable[[], T]) -> Callable[[], T]:
    """Return `request` for one run, which fails at once after StreamUnavailable: later days do not wait again."""
    errors: list[StreamUnavailable] = []

    def attempt() -> T:
        if errors:
            raise errors[0]
        try:
            return request()
        except StreamUnavailable as exc:
            errors.append(exc)
            raise

    return attempt
