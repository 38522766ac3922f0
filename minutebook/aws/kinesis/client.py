"""Requests to one stream, with retries; boto3's answers become values here."""

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from minutebook.aws.answers import date_of, epoch_ms
from minutebook.aws.clients import KINESIS, ask
from minutebook.aws.kinesis.answers import Answer, Beginning, HeldRecord, ListedShard, StreamSummary
from minutebook.clock import Clock
from minutebook.retry import Backoff

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import ListShardsOutputTypeDef, RecordTypeDef, ShardTypeDef

T = TypeVar("T")
_SECOND_MS = 1000


class ServiceTime:
    """The service's clock: the Date of its last answer, advanced by a monotonic clock that includes suspend.

    A host's wall clock may be wrong by hours and proves nothing. The Date header carries whole seconds of the clock
    that stamps the records, within the difference between two of the service's hosts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: tuple[int, float, int] | None = None

    def note(self, date: str | None, sent_at: float) -> int | None:
        """Record the Date of an answer to a request sent at `sent_at` (monotonic); return it in epoch ms."""
        date_ms = epoch_ms(date)
        if date_ms is not None:
            self._known = (date_ms, sent_at, self._clock.now_ms())
        return date_ms

    def now_ms(self) -> int | None:
        """Return an upper bound of the service's current time in epoch ms; None before its first Date.

        An upper bound, because nothing may look younger than it is. The monotonic clock of a virtual machine may miss
        a pause, but its wall clock steps: the later of the two counts.
        """
        if self._known is None:
            return None
        date_ms, sent_at, wall_ms = self._known
        elapsed_ms = int((self._clock.monotonic() - sent_at) * 1000)
        return date_ms + _SECOND_MS + max(elapsed_ms, self._clock.now_ms() - wall_ms)


class StreamClient:
    """The requests to one stream. Thread-safe, as botocore's clients are.

    `client` is called at the first request: a processor that only archives needs no client after its start. Every
    request raises StreamUnavailable once its `budget_seconds` are spent, or StreamRefused.
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
        """Return the same stream, sharing client and time, with another budget; 0 sends each request once."""
        other = copy(self)
        other._budget_seconds = budget_seconds  # noqa: SLF001 - of this class
        return other

    def service_ms(self) -> int | None:
        """Return an upper bound of the service's current time; see `ServiceTime.now_ms`."""
        return self._time.now_ms()

    def summary(self) -> StreamSummary:
        """Call DescribeStreamSummary."""
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
        """Yield the shards of ListShards: all, those open at `at_ms`, or those open since `since_ms`.

        All includes closed shards within retention; a server that does not know ShardFilter always lists them.
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
        """Call GetShardIterator."""
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
        """Call GetRecords for up to `most` records. The answer may be empty before the tip."""
        answer, date_ms = self._ask(
            lambda client: client.get_records(ShardIterator=iterator, Limit=most), f"GetRecords of {shard_id}"
        )
        records = tuple(map(_held_record, answer["Records"]))
        return Answer(answer.get("NextShardIterator"), date_ms, records, answer.get("MillisBehindLatest"))

    def _ask(self, request: Callable[["KinesisClient"], T], what: str) -> tuple[T, int | None]:
        """Return the answer and its Date header in epoch ms."""

        def timed() -> tuple[T, int | None]:
            sent_at = self._clock.monotonic()
            answer = request(self._make_client())
            return answer, self._time.note(date_of(answer), sent_at)

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
