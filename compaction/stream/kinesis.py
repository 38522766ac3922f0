"""The stream itself, read again from Kinesis."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from archive.aws import KINESIS, ask
from archive.clock import Clock
from archive.coverage.topology import ShardRow, hash_range_of
from archive.errors import StreamUnavailable
from archive.format.position import Position
from archive.retry import Backoff
from compaction.stream.kpl import user_records
from compaction.stream.pace import SHARE, Pace

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import GetRecordsOutputTypeDef, RecordTypeDef, ShardTypeDef

T = TypeVar("T")

_BUDGET_SECONDS: Final = 120
_MARGIN_MS: Final = 5 * 60_000
"""Arrival times may step back inside a shard; reading begins and ends this much outside the day."""
_EMPTY_AT_TIP: Final = 3
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

    def read(self, shard_id: str, reach: Reach, log: ReadLog) -> Iterator[Sent]:
        """Return the user records of a shard within a reach, in the shard's order; the iterator is asked for at once.

        Reading ends at the reach's stop, at a record that arrived well after its end, or after it was asked for, at
        the shard's end, or at its tip. `log` is filled in: `since_ms` when this returns, the rest as it is read.

        Raises:
            StreamRefused, StreamUnavailable: Kinesis; also while it is read.
        """
        request: dict[str, Any] = {"StreamName": self._name, "ShardId": shard_id}
        if reach.at is None:
            at_seconds = max(0, reach.begin_ms - _MARGIN_MS) / 1000
            request |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": at_seconds}
        else:
            request |= {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": str(reach.at)}
        answer = self._ask(lambda: self._client.get_shard_iterator(**request), f"GetShardIterator of {shard_id}")
        log.asked_ms = _date_ms(answer)
        now_ms = max(self._clock.now_ms(), log.asked_ms or 0)
        # A host's clock may be slow, and a busy shard never comes to its tip.
        log.until_ms = min(reach.end_ms, now_ms)
        log.since_ms = reach.begin_ms
        edge_ms = now_ms - reach.retention_ms
        if reach.at is None and edge_ms > max(reach.begin_ms, reach.created_ms):
            log.is_trimmed, log.since_ms = True, edge_ms + 60_000
        return self._records(shard_id, answer["ShardIterator"], reach, log)

    def _records(self, shard_id: str, iterator: str, reach: Reach, log: ReadLog) -> Iterator[Sent]:
        """Yield records until something ends the reading.

        An iterator whose next record has left the stream goes on at the oldest one that has not, and says nothing. So
        the place where a page was to begin (the last record that came) must still be held when it is answered, and a
        slice must begin with the very record at which the one before it ended; when that arrived, it tells itself.
        """
        stood_ms = max(log.since_ms, reach.created_ms) if reach.at is None else None
        for page in self._pages(shard_id, iterator):
            log.answered_ms = _date_ms(page)
            now_ms = self._clock.now_ms() if log.answered_ms is None else log.answered_ms
            if stood_ms is not None and stood_ms <= now_ms - reach.retention_ms:
                log.is_broken = True
                return
            if not page["Records"]:
                stood_ms = max(stood_ms or 0, now_ms - page["MillisBehindLatest"])
            for record in page["Records"]:
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
        if reach.at is not None and log.oldest_ms is None:
            log.is_broken = True  # the record at which the slice before it ended is gone

    def _pages(self, shard_id: str, first: str) -> Iterator["GetRecordsOutputTypeDef"]:
        """Yield what GetRecords answers until the shard's end, or until its tip has given nothing three times."""
        pace = Pace(self._clock, self._share, self._page_records)
        iterator: str | None = first
        empty_at_tip = 0
        while iterator and empty_at_tip < _EMPTY_AT_TIP:
            pace.wait()
            page = self._page(shard_id, iterator, pace.page_records)
            pace.note(len(page["Records"]), sum(len(record["Data"]) for record in page["Records"]))
            yield page
            at_tip = not page["Records"] and page["MillisBehindLatest"] == 0
            empty_at_tip = empty_at_tip + 1 if at_tip else 0
            iterator = page.get("NextShardIterator")

    def _page(self, shard_id: str, iterator: str, limit: int) -> "GetRecordsOutputTypeDef":
        return self._ask(
            lambda: self._client.get_records(ShardIterator=iterator, Limit=limit),
            f"GetRecords of {shard_id}",
        )

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

    def _ask(self, request: Callable[[], T], what: str) -> T:
        backoff = Backoff(self._clock, self._rng, budget_seconds=self._budget_seconds, first_seconds=0.25)
        return ask(request, f"{what} of stream {self._name!r}", backoff, KINESIS)


def _within(record: "RecordTypeDef", sequence: int, arrival_ms: int, reach: Reach, log: ReadLog) -> Iterator[Sent]:
    """Yield the user records of a Kinesis record that lie within a reach."""
    if not log.since_ms <= arrival_ms < log.until_ms:
        return
    for sub, partition_key, data in user_records(record["PartitionKey"], record["Data"]):
        position = Position(sequence, sub)
        if (reach.start is None or position >= reach.start) and (reach.stop is None or position < reach.stop):
            yield Sent(position, arrival_ms, partition_key, data)


def _date_ms(answer: Mapping[str, Any]) -> int | None:
    """Return the Date of an answer; None where it has none that can be read."""
    text = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    try:
        return int(parsedate_to_datetime(text).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


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
