"""The Kinesis side of the stream port: the few requests that prove where a shard begins and ends.

KCL reads the records. Beside it, `status.facts` and the pre-flight read one record at a time.
"""

from collections import defaultdict
from typing import Final

from consumer.stream.port import ShardInfo, StreamIdentity
from minutebook.aws.clients import error_code
from minutebook.aws.kinesis.answers import Answer, Beginning
from minutebook.aws.kinesis.client import StreamClient
from minutebook.errors import StreamRefused
from minutebook.format.position import Position

_TRIMMED_CODES: Final = frozenset({"InvalidArgumentException", "ResourceNotFoundException"})
# GetRecords may be called five times a second per shard, KCL's own calls included.
_PAUSE_SECONDS: Final = 0.25


class KinesisStream(StreamClient):
    """Implements `StreamPort`; `read`, `within` and `service_ms` are inherited."""

    def describe(self) -> StreamIdentity:
        """Return ARN, creation time and retention."""
        return StreamIdentity(*self.summary())

    def shard(self, shard_id: str) -> ShardInfo | None:
        """Return the shard's row of ListShards, with its children."""
        return self.all_shards().get(shard_id)

    def all_shards(self, *, at_ms: int | None = None, since_ms: int | None = None) -> dict[str, ShardInfo]:
        """Return the rows of ListShards by shard id."""
        rows = sorted(self.shards(at_ms=at_ms, since_ms=since_ms), key=lambda row: row.shard_id)
        children = defaultdict[str, list[str]](list)
        for row in rows:
            for parent in row.parents:
                children[parent].append(row.shard_id)
        return {
            shard_id: ShardInfo(shard_id, first_key, last_key, parents, tuple(children[shard_id]), closed)
            for shard_id, first_key, last_key, parents, closed in rows
        }

    def holds(self, shard_id: str, position: Position) -> bool:
        """Read AT the position until a record comes or the reader has caught up.

        For a trimmed position Kinesis either refuses the iterator (InvalidArgument; local servers: ResourceNotFound)
        or begins at the trim horizon: both have been observed, and both mean False.
        """
        try:
            answer = self.begin(shard_id, Beginning(position.sequence))
            while answer.iterator:
                answer = self.read(shard_id, answer.iterator, most=1)
                if answer.records or answer.is_tip:
                    break
                self._clock.sleep(_PAUSE_SECONDS)
        except StreamRefused as exc:
            if error_code(exc.__cause__) not in _TRIMMED_CODES:
                raise
            return False
        return bool(answer.records) and answer.records[0].sequence == position.sequence

    def open(self, shard_id: str, beginning: Beginning) -> Answer | None:
        """Return an iterator; None for a trimmed sequence number (errors as in `holds`)."""
        try:
            return self.begin(shard_id, beginning)
        except StreamRefused as exc:
            if beginning.sequence is None or error_code(exc.__cause__) not in _TRIMMED_CODES:
                raise
            return None
