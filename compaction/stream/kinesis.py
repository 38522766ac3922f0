"""The stream itself, read again from Kinesis."""

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from archive.aws import KINESIS, ask
from archive.clock import Clock
from archive.coverage.topology import ShardRow, hash_range_of
from archive.errors import StreamUnavailable
from archive.format.position import Position
from archive.retry import Backoff
from compaction.stream.fan_out import Subscriber
from compaction.stream.kpl import user_records
from compaction.stream.pace import SHARE, Pace
from compaction.stream.pages import Page, Reading, date_ms, polled, up_to_the_tip

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import RecordTypeDef, ShardTypeDef

T = TypeVar("T")

_BUDGET_SECONDS: Final = 120
_MARGIN_MS: Final = 5 * 60_000
"""Arrival times may step back inside a shard; reading begins and ends this much outside the day."""
DAY_MS: Final = 86_400_000
"""The least retention there is."""


class Sent(NamedTuple):
    """One user record as the stream holds it."""

    position: Position
    arrival_ms: int
    partition_key: str
    data: bytes


class StreamFacts(NamedTuple):
    """Which stream this is, how far back it reaches (epoch ms, and by its retention), and its shards."""

    arn: str
    created_ms: int
    oldest_ms: int
    shards: tuple[str, ...]
    retention_ms: int = DAY_MS


class ListedShards(NamedTuple):
    """The stream's shards as ListShards names them; `closed` are those that take no records any more."""

    arn: str
    created_ms: int
    rows: tuple[ShardRow, ...]
    closed: frozenset[str]


class Reach(NamedTuple):
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


class StreamReader:
    """One stream, read by name. Thread-safe, as botocore's clients are."""

    def __init__(
        self,
        client: "KinesisClient",
        stream_name: str,
        clock: Clock,
        rng: random.Random,
        *,
        page_records: int = 10_000,
        budget_seconds: float = _BUDGET_SECONDS,
        share: float = SHARE,
    ) -> None:
        self._client = client
        self._name = stream_name
        self._clock = clock
        self._rng = rng
        self._page_records = page_records
        self._budget_seconds = budget_seconds
        self._share = share

    def describe(self) -> StreamFacts:
        """Return what the stream says about itself.

        Raises:
            StreamRefused, StreamUnavailable: Kinesis.
        """
        answer = self._ask(
            lambda: self._client.describe_stream_summary(StreamName=self._name), "DescribeStreamSummary"
        )
        summary = answer["StreamDescriptionSummary"]
        retention_ms = summary["RetentionPeriodHours"] * 3_600_000
        created_ms = int(summary["StreamCreationTimestamp"].timestamp() * 1000)
        oldest_ms = max(created_ms, self._clock.now_ms() - retention_ms)
        shards = sorted(row["ShardId"] for row in self._shards())
        return StreamFacts(summary["StreamARN"], created_ms, oldest_ms, tuple(shards), retention_ms)

    def listed(self) -> ListedShards:
        """Return the stream's shards, with their hash keys and parents.

        Raises:
            StreamRefused, StreamUnavailable: Kinesis.
        """
        answer = self._ask(
            lambda: self._client.describe_stream_summary(StreamName=self._name), "DescribeStreamSummary"
        )
        summary = answer["StreamDescriptionSummary"]
        created_ms = int(summary["StreamCreationTimestamp"].timestamp() * 1000)
        rows, closed = [], set()
        for shard in self._shards():
            keys = shard["HashKeyRange"]
            parents = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
            rows.append(
                ShardRow(
                    shard["ShardId"],
                    hash_range_of(keys["StartingHashKey"], keys["EndingHashKey"]),
                    frozenset(parent for parent in parents if parent),
                )
            )
            if shard["SequenceNumberRange"].get("EndingSequenceNumber"):
                closed.add(shard["ShardId"])
        return ListedShards(summary["StreamARN"], created_ms, tuple(rows), frozenset(closed))

    def read(self, shard_id: str, reach: Reach, log: ReadLog, consumer: str | None = None) -> Iterator[Sent]:
        """Return the user records of a shard within a reach, in the shard's order; where they begin is asked at once.

        Reading ends at the reach's stop, at a record that arrived well after its end, or after it was asked for, at
        the shard's end, or at its tip. `log` is filled in: `since_ms` when this returns, the rest as it is read.
        With the ARN of a consumer it reads by enhanced fan-out, and takes nothing of what others poll.

        Raises:
            StreamRefused, StreamUnavailable: Kinesis; also while it is read.
        """
        reading = self._polled(shard_id, reach) if consumer is None else self._sent(shard_id, reach, consumer)
        log.asked_ms = reading.asked_ms
        now_ms = max(self._clock.now_ms(), log.asked_ms or 0)
        # A host's clock may be slow, and a busy shard never comes to its tip.
        log.until_ms = min(reach.end_ms, now_ms)
        log.since_ms = reach.begin_ms
        edge_ms = now_ms - reach.retention_ms
        if reach.at is None and edge_ms > max(reach.begin_ms, reach.created_ms):
            log.is_trimmed, log.since_ms = True, edge_ms + 60_000
        return self._records(reading.pages, reach, log)

    def _polled(self, shard_id: str, reach: Reach) -> Reading:
        request: dict[str, Any] = {"StreamName": self._name, "ShardId": shard_id}
        if reach.at is None:
            request |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": _first_seconds(reach)}
        else:
            request |= {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": str(reach.at)}
        found = self._ask(lambda: self._client.get_shard_iterator(**request), f"GetShardIterator of {shard_id}")
        pace = Pace(self._clock, self._share, self._page_records)
        return Reading(date_ms(found), polled(self._client, shard_id, found["ShardIterator"], self._ask, pace))

    def _sent(self, shard_id: str, reach: Reach, consumer: str) -> Reading:
        place: dict[str, Any] = {"Type": "AT_TIMESTAMP", "Timestamp": _first_seconds(reach)}
        if reach.at is not None:
            place = {"Type": "AT_SEQUENCE_NUMBER", "SequenceNumber": str(reach.at)}
        subscriber = Subscriber(
            self._client, consumer, shard_id, ask=self._ask, clock=self._clock, waits=self._new_backoff
        )
        return Reading(subscriber.subscribe(place), subscriber.pages())

    def _records(self, pages: Generator[Page], reach: Reach, log: ReadLog) -> Iterator[Sent]:
        """Yield records until something ends the reading.

        A reading whose next record has left the stream goes on at the oldest one that has not, and says nothing. So
        the place where a page was to begin (the last record that came) must still be held when it is answered, and a
        slice must begin with the very record at which the one before it ended; when that arrived, it tells itself.
        """
        with closing(pages):
            yield from self._read(up_to_the_tip(pages), reach, log)
        if reach.at is not None and log.oldest_ms is None:
            log.is_broken = True  # the record at which the slice before it ended is gone

    def _read(self, pages: Iterator[Page], reach: Reach, log: ReadLog) -> Iterator[Sent]:
        stood_ms = max(log.since_ms, reach.created_ms) if reach.at is None else None
        for page in pages:
            log.answered_ms = page.until_ms
            now_ms = self._clock.now_ms() if page.until_ms is None else page.until_ms
            if stood_ms is not None and stood_ms <= now_ms - reach.retention_ms:
                log.is_broken = True
                return
            if not page.records:
                stood_ms = max(stood_ms or 0, (now_ms if page.since_ms is None else page.since_ms) - page.behind_ms)
            for record in page.records:
                arrival_ms = round(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
                sequence = int(record["SequenceNumber"])
                if log.oldest_ms is None:
                    log.oldest_ms = arrival_ms
                    log.is_broken = reach.at is not None and sequence != reach.at
                if log.is_broken or arrival_ms >= log.until_ms + _MARGIN_MS:
                    return
                if reach.stop is None or sequence <= reach.stop.sequence:
                    stood_ms = max(stood_ms or 0, arrival_ms)
                    yield from _within(record, sequence, arrival_ms, reach, log)
                if reach.stop is not None and sequence >= reach.stop.sequence:
                    log.next_sequence = sequence
                    return

    def _shards(self) -> Iterator["ShardTypeDef"]:
        token: str | None = None
        while True:
            answer = self._ask(
                lambda token=token: (  # type: ignore[misc]
                    self._client.list_shards(NextToken=token)
                    if token
                    else self._client.list_shards(StreamName=self._name)
                ),
                "ListShards",
            )
            yield from answer["Shards"]
            token = answer.get("NextToken")
            if not token:
                return

    def _new_backoff(self) -> Backoff:
        return Backoff(self._clock, self._rng, budget_seconds=self._budget_seconds, first_seconds=0.25)

    def _ask(self, request: Callable[[], T], what: str) -> T:
        return ask(request, f"{what} of stream {self._name!r}", self._new_backoff(), KINESIS)


def _first_seconds(reach: Reach) -> float:
    """Return when reading begins that looks for its place by time: a while before the reach does."""
    return max(0, reach.begin_ms - _MARGIN_MS) / 1000


def _within(record: "RecordTypeDef", sequence: int, arrival_ms: int, reach: Reach, log: ReadLog) -> Iterator[Sent]:
    """Yield the user records of a Kinesis record that lie within a reach."""
    if not log.since_ms <= arrival_ms < log.until_ms:
        return
    for sub, partition_key, data in user_records(record["PartitionKey"], record["Data"]):
        position = Position(sequence, sub)
        if (reach.start is None or position >= reach.start) and (reach.stop is None or position < reach.stop):
            yield Sent(position, arrival_ms, partition_key, data)


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
