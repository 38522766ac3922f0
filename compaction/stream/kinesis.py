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

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import GetRecordsOutputTypeDef, ShardTypeDef

T = TypeVar("T")

_BUDGET_SECONDS: Final = 120
_PAUSE_SECONDS: Final = 0.25
"""GetRecords may be called five times a second per shard, the consumers' calls included."""
_MARGIN_MS: Final = 5 * 60_000
"""Arrival times may step back inside a shard; reading begins and ends this much outside the day."""
_EMPTY_AT_TIP: Final = 3


class Sent(NamedTuple):
    """One user record as the stream holds it."""

    position: Position
    arrival_ms: int
    partition_key: str
    data: bytes


class StreamFacts(NamedTuple):
    """Which stream this is, how far back it reaches (epoch ms), and its shards."""

    arn: str
    created_ms: int
    oldest_ms: int
    shards: tuple[str, ...]


class ListedShards(NamedTuple):
    """The stream's shards as ListShards names them; `closed` are those that take no records any more."""

    arn: str
    created_ms: int
    rows: tuple[ShardRow, ...]
    closed: frozenset[str]


@dataclass
class ReadLog:
    """What is known of one reading: of which time it began, and the service's times (Date), None where it named none.

    `asked_ms` is from before the first record was asked for, `answered_ms` from the last answer; `oldest_ms` is when
    the first record that came had arrived, whether or not it was asked for.
    """

    since_ms: int = 0
    until_ms: int = 0
    asked_ms: int | None = None
    answered_ms: int | None = None
    oldest_ms: int | None = None


class StreamReader:
    """One stream, read by name. Thread-safe, as botocore's clients are."""

    def __init__(
        self,
        client: "KinesisClient",
        stream_name: str,
        clock: Clock,
        rng: random.Random,
        *,
        page_records: int = 1000,
        budget_seconds: float = _BUDGET_SECONDS,
    ) -> None:
        self._client = client
        self._name = stream_name
        self._clock = clock
        self._rng = rng
        self._page_records = page_records
        self._budget_seconds = budget_seconds

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
        return StreamFacts(summary["StreamARN"], created_ms, oldest_ms, tuple(shards))

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

    def read(self, shard_id: str, begin_ms: int, end_ms: int, log: ReadLog | None = None) -> Iterator[Sent]:
        """Yield the user records of a shard that arrived in [begin, end), in the shard's order.

        Reading ends at a record that arrived well after `end`, or after it was asked for, at the shard's end, or at
        its tip. `log` is filled in.
        """
        log = log or ReadLog()
        log.since_ms = begin_ms
        request = {"StreamName": self._name, "ShardId": shard_id, "ShardIteratorType": "AT_TIMESTAMP"}
        at_seconds = max(0, begin_ms - _MARGIN_MS) / 1000
        found = self._ask(
            lambda: self._client.get_shard_iterator(**request, Timestamp=at_seconds),  # type: ignore[arg-type]
            f"GetShardIterator of {shard_id}",
        )
        log.asked_ms = _date_ms(found)
        # A host's clock may be slow, and a busy shard never comes to its tip.
        end_ms = log.until_ms = min(end_ms, max(self._clock.now_ms(), log.asked_ms or 0))
        iterator: str | None = found["ShardIterator"]
        empty_at_tip = 0
        while iterator and empty_at_tip < _EMPTY_AT_TIP:
            answer = self._page(shard_id, iterator)
            log.answered_ms = _date_ms(answer)
            for record in answer["Records"]:
                arrival_ms = round(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
                log.oldest_ms = arrival_ms if log.oldest_ms is None else log.oldest_ms
                if arrival_ms >= end_ms + _MARGIN_MS:
                    return
                if begin_ms <= arrival_ms < end_ms:
                    sequence = int(record["SequenceNumber"])
                    for sub, partition_key, data in user_records(record["PartitionKey"], record["Data"]):
                        yield Sent(Position(sequence, sub), arrival_ms, partition_key, data)
            at_tip = not answer["Records"] and answer["MillisBehindLatest"] == 0
            empty_at_tip = empty_at_tip + 1 if at_tip else 0
            iterator = answer.get("NextShardIterator")
            if iterator:
                self._clock.sleep(_PAUSE_SECONDS)

    def _page(self, shard_id: str, iterator: str) -> "GetRecordsOutputTypeDef":
        return self._ask(
            lambda: self._client.get_records(ShardIterator=iterator, Limit=self._page_records),
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
