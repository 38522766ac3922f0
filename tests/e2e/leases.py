"""KCL's lease table: rows made before the first start, and rows read.

A fresh application waits up to 30 s on an empty table (KCL's random start); with a row for every shard it does not,
and an owner named in a row resumes its lease at once. The rows are those that KCL itself would make.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis.type_defs import ShardTypeDef


class LeaseRow(NamedTuple):
    """One row. `checkpoint` is `<sequence>:<sub>` or KCL's sentinel."""

    owner: str | None
    checkpoint: str
    counter: int


def seed_leases(
    client: "DynamoDBClient",
    table: str,
    shards: Iterable["ShardTypeDef"],
    owners: Mapping[str, str],
    *,
    checkpoint: str = "TRIM_HORIZON",
) -> None:
    """Create the table with a row at `checkpoint` for every shard; `owners` maps shard id to worker id."""
    client.create_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for shard in shards:
        owner = owners.get(shard["ShardId"])
        client.put_item(
            TableName=table,
            Item={
                "leaseKey": {"S": shard["ShardId"]},
                "checkpoint": {"S": checkpoint},
                "checkpointSubSequenceNumber": {"N": "0"},
                "leaseCounter": {"N": "0"},
                "ownerSwitchesSinceCheckpoint": {"N": "0"},
                "startingHashKey": {"S": shard["HashKeyRange"]["StartingHashKey"]},
                "endingHashKey": {"S": shard["HashKeyRange"]["EndingHashKey"]},
                **({} if owner is None else {"leaseOwner": {"S": owner}}),
            },
        )


def assign_lease(client: "DynamoDBClient", table: str, shard_id: str, worker_id: str) -> None:
    """Give a lease to a worker, as KCL's leader does: a new owner, and a moved counter that fences the old one."""
    client.update_item(
        TableName=table,
        Key={"leaseKey": {"S": shard_id}},
        UpdateExpression="SET leaseOwner = :worker ADD leaseCounter :one",
        ExpressionAttributeValues={":worker": {"S": worker_id}, ":one": {"N": "1"}},
    )


def read_leases(client: "DynamoDBClient", table: str) -> dict[str, LeaseRow]:
    """Return the rows by shard id; other kinds of rows (KCL 3.5 and later) are left out."""
    rows = client.scan(TableName=table, ConsistentRead=True)["Items"]
    leases: dict[str, LeaseRow] = {}
    for row in rows:
        if row.get("entityType", {"S": "LEASE"})["S"] != "LEASE":
            continue
        checkpoint = row["checkpoint"]["S"]
        if checkpoint[0].isdigit():
            checkpoint = f"{checkpoint}:{row['checkpointSubSequenceNumber']['N']}"
        owner = row["leaseOwner"]["S"] if "leaseOwner" in row else None
        leases[row["leaseKey"]["S"]] = LeaseRow(owner, checkpoint, int(row["leaseCounter"]["N"]))
    return leases
