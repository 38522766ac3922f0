"""KCL's lease table: the shards it knows and their checkpoints. The table is only read.

A checkpoint is always at the end of a committed segment, so a checkpoint after the last segment shows that a segment
is gone. A checkpoint at the last segment proves nothing about later records.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from minutebook.coverage.topology import ShardRow, hash_range_of
from minutebook.errors import FormatError
from minutebook.format.keys import check_shard_id
from minutebook.format.position import Position, is_sequence_number
from minutebook.owner import disbelief

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Checkpoints(NamedTuple):
    """Checkpoints by shard (only those that are positions), and the shards of the table's rows.

    `error` says why the table could not be read or is ignored. `application` is whose checkpoints they are.
    """

    by_shard: Mapping[str, Position]
    error: str = ""
    rows: tuple[ShardRow, ...] = ()
    application: str = ""

    def believed(self, begun_by: str) -> "Checkpoints":
        """Return the checkpoints that count for an archive of the application `begun_by`: only its own.

        Another application's table tells the progress of that application, mostly in another archive.
        """
        why = disbelief(begun_by, self.application) if self.application else ""
        return Checkpoints({}, why) if why else self


def read_checkpoints(client: "DynamoDBClient", table: str, application: str) -> Checkpoints:
    """Scan an application's lease table. Where that fails, the audit goes on without it: `error` says why."""
    by_shard: dict[str, Position] = {}
    rows: list[ShardRow] = []
    request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    try:
        while True:
            answer = client.scan(**request)
            for row in answer["Items"]:
                by_shard |= _checkpoint(row)
                rows += _shard(row)
            if "LastEvaluatedKey" not in answer:
                return Checkpoints(by_shard, rows=tuple(rows), application=application)
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    except (ClientError, BotoCoreError) as exc:
        return Checkpoints({}, f"the lease table {table} cannot be read: {exc}", application=application)


def _is_lease(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a lease: KCL 3.5 and later keeps other kinds of rows in the same table."""
    return bool(row.get("entityType", {}).get("S", "LEASE") == "LEASE" and "leaseKey" in row)


def _shard(row: Mapping[str, Any]) -> list[ShardRow]:
    """Return the shard of a row, in a list; an empty list for other rows."""
    if not _is_lease(row):
        return []
    starting, ending = (row.get(name, {}).get("S", "") for name in ("startingHashKey", "endingHashKey"))
    parents = frozenset(row.get("parentShardId", {}).get("SS", ()))
    children = frozenset(row.get("childShardIds", {}).get("SS", ()))
    try:
        shard_id = check_shard_id(row["leaseKey"]["S"])
        return [ShardRow(shard_id, hash_range_of(starting, ending), parents, children)]
    except FormatError:
        return []


def _checkpoint(row: Mapping[str, Any]) -> dict[str, Position]:
    if not _is_lease(row):
        return {}
    text = row.get("checkpoint", {}).get("S", "")
    if not is_sequence_number(text):
        return {}
    sub = int(row.get("checkpointSubSequenceNumber", {}).get("N", "0"))
    return {row["leaseKey"]["S"]: Position(int(text), sub)}
