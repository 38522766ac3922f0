"""How far the archive of each open shard is behind the stream: one GetRecords of one record after the tail.

The lag is the age of the oldest record that is not archived. The age of the tail would be wrong: an idle shard that
is archived to its last record has no lag, however old that record is. A report costs two requests per shard. A shard
serves five GetRecords a second, KCL's included, so a throttled request is not repeated.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from consumer.archived.application import KclStart
from consumer.status.report import Lag
from minutebook.format.position import Position

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_THREADS: Final = 8
_TRIMMED: Final = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})
_THROTTLED: Final = "ProvisionedThroughputExceededException"


class LagReader(NamedTuple):
    """Reads the lag of the shards of one stream."""

    client: "KinesisClient"
    stream_name: str

    def read(self, tails: Mapping[str, Position | KclStart], now_ms: int) -> dict[str, Lag]:
        """Return the lag of each shard: behind its tail, or behind the start for one without an archive."""
        with ThreadPoolExecutor(_THREADS) as pool:
            lags = pool.map(lambda shard_id: self._lag(shard_id, tails[shard_id], now_ms), tails)
            return dict(zip(tails, lags, strict=True))

    def _lag(self, shard_id: str, tail: Position | KclStart, now_ms: int) -> Lag:
        request: dict[str, Any] = {"StreamName": self.stream_name, "ShardId": shard_id, **_iterator(tail)}
        try:
            iterator = self.client.get_shard_iterator(**request)["ShardIterator"]
            answer = self.client.get_records(ShardIterator=iterator, Limit=1)
        except ClientError as exc:
            return Lag(None, None, _why(exc))
        except BotoCoreError as exc:
            return Lag(None, None, f"lag unknown: the stream could not be asked: {exc}")
        if answer["Records"]:
            arrival_ms = int(answer["Records"][0]["ApproximateArrivalTimestamp"].timestamp() * 1000)
            return Lag(max(0.0, (now_ms - arrival_ms) / 1000), "record")
        return Lag(answer["MillisBehindLatest"] / 1000, "stream")


def _iterator(tail: Position | KclStart) -> dict[str, Any]:
    if isinstance(tail, Position):
        return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": str(tail.sequence)}
    if tail.at_seconds is None:
        return {"ShardIteratorType": "TRIM_HORIZON"}
    return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": tail.at_seconds}


def _why(error: ClientError) -> str:
    code = error.response["Error"]["Code"]
    if code in _TRIMMED:
        return "lag unknown: the end of the archive is older than the stream's retention"
    if code == _THROTTLED:
        return "lag unknown: the shard's readers are throttled"
    return f"lag unknown: {error}"
