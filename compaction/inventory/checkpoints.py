"""KCL's checkpoints: what proves the end of shards whose day has no successor yet.

A checkpoint is always at the end of a committed segment, so one that equals the tail proves that the chain ends
there. The table is only read.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from archive.format.position import Position, is_sequence_number

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Checkpoints(NamedTuple):
    """Checkpoints by shard (only those that are positions); `error` says why the table could not be read."""

    by_shard: Mapping[str, Position]
    error: str = ""


def read_checkpoints(client: "DynamoDBClient", table: str) -> Checkpoints:
    """Scan the lease table.

    A table that is missing or refused is not an error: the audit goes on without it and says so.
    """
    found: dict[str, Position] = {}
    request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
    try:
        while True:
            answer = client.scan(**request)
            for row in answer["Items"]:
                found |= _checkpoint(row)
            if "LastEvaluatedKey" not in answer:
                return Checkpoints(found)
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
    except (ClientError, BotoCoreError) as exc:
        return Checkpoints({}, f"the lease table {table} cannot be read: {exc}")


def _checkpoint(row: Mapping[str, Any]) -> dict[str, Position]:
    """Read one row; KCL 3.5 and later keeps other kinds of rows in the same table."""
    if row.get("entityType", {}).get("S", "LEASE") != "LEASE":
        return {}
    text = row.get("checkpoint", {}).get("S", "")
    if "leaseKey" not in row or not is_sequence_number(text):
        return {}
    sub = int(row.get("checkpointSubSequenceNumber", {}).get("N", "0"))
    return {row["leaseKey"]["S"]: Position(int(text), sub)}
