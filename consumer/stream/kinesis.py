"""The Kinesis side of the stream port: the few requests that prove where a shard begins and ends.

KCL reads the records. Beside it, `status.lag` and the pre-flight read one record at a time.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from archive.aws import KINESIS, ask, error_code
from archive.clock import Clock
from archive.errors import StreamRefused
from archive.format.position import Position
from archive.retry import Backoff
from consumer.stream.aggregates import count_user_records
from consumer.stream.port import ShardInfo, StreamIdentity

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import GetRecordsOutputTypeDef, RecordTypeDef, ShardTypeDef

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
        self._make_client = client
        self._made: KinesisClient | None = None
        self._name = stream_name
        self._clock = clock
        self._rng = rng
        self._budget_seconds = budget_seconds

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

    def all_shards(self) -> dict[str, ShardInfo]:
        """Return every shard that ListShards names, closed ones within retention included, by id."""
        rows = sorted(self.shards(), key=lambda row: row["ShardId"])
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

    def shards(self) -> Iterator["ShardTypeDef"]:
        """Yield every row of ListShards, closed shards within retention included."""
        request: dict[str, Any] = {"StreamName": self._name}
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

    def ends_after(self, shard_id: str, position: Position | None, since_ms: int | None = None) -> bool:
        """Read on until a record or the null iterator; see `Stream`.

        Where Kinesis refuses an iterator at a position that is trimmed, whatever is left lies behind it.
        """
        try:
            return self._reaches_end(shard_id, position, since_ms)
        except StreamRefused as exc:
            if position is None or error_code(exc.__cause__) not in _TRIMMED_CODES:
                raise
            return self._reaches_end(shard_id, None, None)

    def _reaches_end(self, shard_id: str, position: Position | None, since_ms: int | None) -> bool:
        """Read on from the record at `position`: it may be an aggregate with user records behind the position.

        An answer without records and with an iterator proves nothing: Kinesis gives such on the way. A shard that is
        caught up with and still has an iterator is open.
        """
        empty_at_tip = 0
        for answer in self._read(shard_id, position, since_ms):
            if any(not _lies_within(record, position) for record in answer["Records"]):
                return False
            if not answer.get("NextShardIterator"):
                return True
            empty_at_tip = empty_at_tip + 1 if answer["MillisBehindLatest"] == 0 else 0
            if empty_at_tip > 40:  # noqa: PLR2004 - ten seconds at the tip of a shard that ListShards calls closed
                return False
        return True

    @property
    def _client(self) -> "KinesisClient":
        if self._made is None:
            self._made = self._make_client()
        return self._made

    def _read(
        self, shard_id: str, position: Position | None, since_ms: int | None = None
    ) -> Iterator["GetRecordsOutputTypeDef"]:
        request: dict[str, Any] = {"StreamName": self._name, "ShardId": shard_id}
        if position is not None:
            request |= {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": str(position.sequence)}
        elif since_ms is not None:
            request |= {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": since_ms / 1000}
        else:
            request |= {"ShardIteratorType": "TRIM_HORIZON"}
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
        return ask(request, f"{what} of stream {self._name!r}", backoff, KINESIS)


def _lies_within(record: "RecordTypeDef", position: Position | None) -> bool:
    """Tell whether a Kinesis record holds nothing behind `position`."""
    return (
        position is not None
        and int(record["SequenceNumber"]) == position.sequence
        and count_user_records(record["Data"]) <= position.sub + 1
    )


def _parents(row: "ShardTypeDef") -> tuple[str, ...]:
    named = (row.get("ParentShardId"), row.get("AdjacentParentShardId"))
    return tuple(sorted(parent for parent in named if parent))
