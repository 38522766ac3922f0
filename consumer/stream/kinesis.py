"""The Kinesis side of the stream port: the few requests that prove where a shard begins and ends.

KCL reads the records. Beside it, `status.lag` and the pre-flight read one record at a time.
"""

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from archive.aws import KINESIS, ask, error_code
from archive.clock import Clock
from archive.errors import StreamRefused
from archive.format.position import Position
from archive.retry import Backoff
from consumer.stream.port import Answer, Beginning, HeldRecord, ShardInfo, StreamIdentity
from consumer.stream.service_time import ServiceTime, epoch_ms

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import GetRecordsOutputTypeDef, ShardTypeDef

T = TypeVar("T")

_TRIMMED_CODES = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})
# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS = 0.25


class KinesisStream:
    """One stream, asked by name.

    `client` makes the client at the first request: a processor that only archives never builds one again after
    its start.
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
        """Return the same stream, with the same client and time, asked with another budget; see `StreamReader`."""
        other = copy(self)
        other._budget_seconds = budget_seconds  # noqa: SLF001 - of this class
        return other

    def service_ms(self) -> int | None:
        """Return the service's time by the Date of its last answer; see `StreamReader`."""
        return self._time.now_ms()

    def describe(self) -> StreamIdentity:
        """Return ARN, creation time and retention; see `Stream`."""
        answer = self._ask(
            lambda: self._client.describe_stream_summary(StreamName=self._name), "DescribeStreamSummary"
        )
        summary = answer["StreamDescriptionSummary"]
        return StreamIdentity(
            summary["StreamARN"],
            int(summary["StreamCreationTimestamp"].timestamp() * 1000),
            summary["RetentionPeriodHours"] * 3_600_000,
        )

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Find the shard and its children in ListShards; see `Stream`."""
        return self.all_shards().get(shard_id)

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> dict[str, ShardInfo]:
        """Return the shards that ListShards names, by id; see `StreamFacts`.

        Without a time closed ones within retention are named, too. A server that knows no ShardFilter names them
        always.
        """
        chosen: dict[str, Any] = {}
        if at_ms is not None:
            chosen = {"ShardFilter": {"Type": "AT_TIMESTAMP", "Timestamp": at_ms / 1000}}
        elif since_ms is not None:
            chosen = {"ShardFilter": {"Type": "FROM_TIMESTAMP", "Timestamp": since_ms / 1000}}
        rows = sorted(self.shards(chosen), key=lambda row: row["ShardId"])
        children: dict[str, list[str]] = {}
        for row in rows:
            for parent in _parents(row):
                children.setdefault(parent, []).append(row["ShardId"])
        return {
            row["ShardId"]: ShardInfo(
                shard_id=row["ShardId"],
                starting_hash_key=row["HashKeyRange"]["StartingHashKey"],
                ending_hash_key=row["HashKeyRange"]["EndingHashKey"],
                parents=_parents(row),
                children=tuple(children.get(row["ShardId"], ())),
                closed="EndingSequenceNumber" in row["SequenceNumberRange"],
            )
            for row in rows
        }

    def shards(self, chosen: Mapping[str, Any] | None = None) -> Iterator["ShardTypeDef"]:
        """Yield every row of ListShards, closed shards within retention included unless a filter is chosen."""
        request: dict[str, Any] = {"StreamName": self._name, **(chosen or {})}
        while True:
            answer = self._ask(partial(self._client.list_shards, **request), "ListShards")
            yield from answer["Shards"]
            token = answer.get("NextToken")
            if not token:
                return
            request = {"NextToken": token}

    def holds(self, shard_id: str, position: Position) -> bool:
        """Read AT the position until a record comes or the reader has caught up; see `Stream`.

        For a trimmed position Kinesis has been seen to refuse the iterator (InvalidArgument; local servers say
        ResourceNotFound) and to begin at the trim horizon: both mean no.
        """
        try:
            for answer in self._read(shard_id, position):
                if answer["Records"]:
                    return int(answer["Records"][0]["SequenceNumber"]) == position.sequence
                if answer["MillisBehindLatest"] == 0:
                    break
        except StreamRefused as exc:
            if error_code(exc.__cause__) not in _TRIMMED_CODES:
                raise
        return False

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:
        """Ask for an iterator; see `StreamReader`. For a trimmed number see `holds`."""
        request = _iterator_request(self._name, shard_id, beginning)
        try:
            answer = self._ask(lambda: self._client.get_shard_iterator(**request), f"GetShardIterator of {shard_id}")
        except StreamRefused as exc:
            if beginning.sequence is None or error_code(exc.__cause__) not in _TRIMMED_CODES:
                raise
            return None
        return Answer(answer["ShardIterator"], epoch_ms(_date(answer)))

    def read(self, shard_id: str, iterator: str, *, most: int = 100) -> Answer:
        """Read on from an iterator; see `StreamReader`."""
        answer = self._ask(
            partial(self._client.get_records, ShardIterator=iterator, Limit=most),
            f"GetRecords of {shard_id}",
        )
        records = tuple(
            HeldRecord(
                int(record["SequenceNumber"]),
                round(record["ApproximateArrivalTimestamp"].timestamp() * 1000),
                record["PartitionKey"],
                record["Data"],
            )
            for record in answer["Records"]
        )
        return Answer(
            answer.get("NextShardIterator"), epoch_ms(_date(answer)), records, answer.get("MillisBehindLatest")
        )

    @property
    def _client(self) -> "KinesisClient":
        return self._make_client()

    def _read(self, shard_id: str, position: Position) -> Iterator["GetRecordsOutputTypeDef"]:
        request = _iterator_request(self._name, shard_id, Beginning(position.sequence))
        found = self._ask(lambda: self._client.get_shard_iterator(**request), f"GetShardIterator of {shard_id}")
        iterator: str | None = found["ShardIterator"]
        while iterator:
            answer = self._ask(
                partial(self._client.get_records, ShardIterator=iterator, Limit=1), f"GetRecords of {shard_id}"
            )
            yield answer
            iterator = answer.get("NextShardIterator")
            self._clock.sleep(_PAUSE_SECONDS)

    def _ask(self, request: Callable[[], T], what: str) -> T:
        backoff = Backoff(self._clock, self._rng, budget_seconds=self._budget_seconds, first_seconds=0.25)
        return ask(lambda: self._timed(request), f"{what} of stream {self._name!r}", backoff, KINESIS)

    def _timed(self, request: Callable[[], T]) -> T:
        """Send a request, and learn the service's time from its answer."""
        sent_at = self._clock.monotonic()
        answer = request()
        self._time.note(_date(answer), sent_at)
        return answer


def _iterator_request(stream_name: str, shard_id: str, beginning: Beginning) -> dict[str, Any]:
    request: dict[str, Any] = {"StreamName": stream_name, "ShardId": shard_id}
    if beginning.sequence is not None:
        sequence = str(beginning.sequence)
        return request | {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence}
    if beginning.since_ms is not None:
        return request | {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": beginning.since_ms / 1000}
    return request | {"ShardIteratorType": "TRIM_HORIZON"}


def _date(answer: object) -> str | None:
    """Return the Date header of an answer of boto3's."""
    metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    found = metadata.get("HTTPHeaders", {}).get("date")
    return found if isinstance(found, str) else None


def _parents(row: "ShardTypeDef") -> tuple[str, ...]:
    named = (row.get("ParentShardId"), row.get("AdjacentParentShardId"))
    return tuple(sorted(parent for parent in named if parent))
