"""Lease tables of the embedded DynamoDB, and a row for them."""

import random
from typing import TYPE_CHECKING

from consumer.leases.rows import Lease
from consumer.leases.table import DynamoDBLeaseTable
from minutebook.clock import SystemClock, new_id
from minutebook.format.position import Position

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LEASE = Lease(
    "shardId-000000000001",
    Position(10**55, 7),
    3,
    None,
    frozenset({"shardId-000000000000"}),
    frozenset({"shardId-000000000002"}),
    "0",
    "1",
)


def dynamodb_table(client: "DynamoDBClient") -> DynamoDBLeaseTable:
    """Return a table with a fresh name."""
    name = f"leases-{new_id()[:10]}"
    return DynamoDBLeaseTable(
        client, name, f"{name}-CoordinatorState", SystemClock(), random.Random(1), budget_seconds=10
    )


def make_table(client: "DynamoDBClient", name: str, key: str) -> None:
    """Make a table with a text key."""
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
