"""Requests to one stream, each sent until it is answered. boto3's shapes end here."""

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from minutebook.aws.clients import KINESIS, ask
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord, ListedShard, StreamSummary
from minutebook.aws.kinesis.service_time import ServiceTime
from minutebook.clock import Clock
from minutebook.retry import Backoff

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import ListShardsOutputTypeDef, RecordTypeDef, ShardTypeDef

T = TypeVar("T")


class StreamClient:
    """One stream, asked by name. Thread-safe, as botocore's clients are.

    `client` makes the client at the first request: a processor that only archives never builds one again after
    its start. Every request raises StreamUnavailable once its `budget_seconds` are spent, or StreamRefused for good.
    """

    def __init__(
        self,
        client: Callable[[], "KinesisClient"],
        stream_name: str,
        clock: Clock,
        rng: random.Random,
        *,
        budget_seconds: float = 60,
    ) -> None:
        self._make_client = functools.cache(client)
        self._name = stream_name
        self._clock = clock
        self._rng = rng
        self._budget_seconds = budget_seconds
        self._time = ServiceTime(clock)

    def within(self, budget_seconds: float) -> Self:
        """Return the same stream, with the same client and time, asked with another budget; 0 means once."""
        other = copy(self)
        other._budget_seconds = budget_seconds  # noqa: SLF001 - of this class
        return other

    def service_ms(self) -> int | None:
        """Return the service's time by the Date of its last answer, rather late than early; None: it named none."""
        return self._time.now_ms()

    def summary(self) -> StreamSummary:
        """Return what DescribeStreamSummary says."""
        answer, _ = self._ask(
            lambda client: client.describe_stream_summary(StreamName=self._name), "DescribeStreamSummary"
        )
        summary = answer["StreamDescriptionSummary"]
        return StreamSummary(
            summary["StreamARN"],
            int(summary["StreamCreationTimestamp"].timestamp() * 1000),
            summary["RetentionPeriodHours"] * 3_600_000,
        )

    def shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> Iterator[ListedShard]:
        """Yield the shards that ListShards names: all, those open at a time, or those open since a time.

        Without a time closed ones within retention are named, too. A server that knows no ShardFilter names them
        always.
        """
        request: dict[str, Any] = {"StreamName": self._name}
        if at_ms is not None:
            request["ShardFilter"] = {"Type": "AT_TIMESTAMP", "Timestamp": at_ms / 1000}
        elif since_ms is not None:
            request["ShardFilter"] = {"Type": "FROM_TIMESTAMP", "Timestamp": since_ms / 1000}
        while True:
            answer, _ = self._ask(partial(_list_shards, request), "ListShards")
            yield from map(_listed_shard, answer["Shards"])
            token = answer.get("NextToken")
            if not token:
                return
            request = {"NextToken": token}

    def begin(self, shard_id: str, beginning: Beginning) -> Answer:
        """Ask for the iterator at which reading begins."""
        request: dict[str, Any] = {"StreamName": self._name, "ShardId": shard_id, "ShardIteratorType": "TRIM_HORIZON"}
        if beginning.sequence is not None:
            sequence = str(beginning.sequence)
            request |= {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence}
        elif beginning.since_ms is not None:
            request |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": beginning.since_ms / 1000}
        answer, date_ms = self._ask(
            lambda client: client.get_shard_iterator(**request), f"GetShardIterator of {shard_id}"
        )
        return Answer(answer["ShardIterator"], date_ms)

    def read(self, shard_id: str, iterator: str, *, most: int = 100) -> Answer:
        """Read up to `most` Kinesis records on from an iterator. An answer may be empty although there are some."""
        answer, date_ms = self._ask(
            lambda client: client.get_records(ShardIterator=iterator, Limit=most), f"GetRecords of {shard_id}"
        )
        records = tuple(map(_held_record, answer["Records"]))
        return Answer(answer.get("NextShardIterator"), date_ms, records, answer.get("MillisBehindLatest"))

    def _ask(self, request: Callable[["KinesisClient"], T], what: str) -> tuple[T, int | None]:
        """Return the answer, and the service's time by its Date header."""

        def timed() -> tuple[T, int | None]:
            sent_at = self._clock.monotonic()
            answer = request(self._make_client())
            return answer, self._time.note(_date(answer), sent_at)

        backoff = Backoff(self._clock, self._rng, budget_seconds=self._budget_seconds, first_seconds=0.25)
        return ask(timed, f"{what} of stream {self._name!r}", backoff, KINESIS)


def _list_shards(request: Mapping[str, Any], client: "KinesisClient") -> "ListShardsOutputTypeDef":
    return client.list_shards(**request)


def _listed_shard(row: "ShardTypeDef") -> ListedShard:
    parents = (row.get("ParentShardId"), row.get("AdjacentParentShardId"))
    return ListedShard(
        row["ShardId"],
        row["HashKeyRange"]["StartingHashKey"],
        row["HashKeyRange"]["EndingHashKey"],
        tuple(sorted(parent for parent in parents if parent)),
        bool(row["SequenceNumberRange"].get("EndingSequenceNumber")),
    )


def _held_record(record: "RecordTypeDef") -> HeldRecord:
    return HeldRecord(
        int(record["SequenceNumber"]),
        round(record["ApproximateArrivalTimestamp"].timestamp() * 1000),
        record["PartitionKey"],
        record["Data"],
    )


def _date(answer: object) -> str | None:
    """Return the Date header of an answer of boto3's."""
    metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    date = metadata.get("HTTPHeaders", {}).get("date")
    return date if isinstance(date, str) else None
