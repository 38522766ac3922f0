"""One suite for the lease table port: the fake and the embedded DynamoDB answer alike."""

from typing import TYPE_CHECKING

import pytest

from consumer.leases.rows import LeaderLock, Lease, LeaseRows, LeaseTable
from tests.contract.lease_tables import LEASE, dynamodb_table, make_table
from tests.fakes.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture(params=["fake", "dynamodb"])
def table(request: pytest.FixtureRequest) -> LeaseTable:
    """Return a table that does not exist yet."""
    if request.param == "fake":
        return MemoryLeaseTable()
    return dynamodb_table(request.getfixturevalue("dynamodb_client"))


def test_a_missing_table_is_none(table: LeaseTable) -> None:
    """Not an empty one, and no error."""
    assert table.read() is None


def test_a_table_may_be_made_twice(table: LeaseTable) -> None:
    """The second time changes nothing."""
    table.create()
    table.put(LEASE, None)
    table.create()
    assert table.read() == LeaseRows({LEASE.shard_id: LEASE})


@pytest.mark.parametrize("protected", [True, False])
def test_a_table_has_kcls_index_from_the_beginning(dynamodb_client: "DynamoDBClient", protected: bool) -> None:  # noqa: FBT001 - cases
    """KCL finds it, and adds none: that takes minutes."""
    table = dynamodb_table(dynamodb_client)
    table.create(protected=protected)
    found = dynamodb_client.describe_table(TableName=table.name)["Table"]
    (index,) = found["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["Projection"]) == ("LeaseOwnerToLeaseKeyIndex", {"ProjectionType": "KEYS_ONLY"})
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["leaseOwner", "leaseKey"]
    assert found.get("DeletionProtectionEnabled", False) == protected


def test_a_row_reads_back(table: LeaseTable) -> None:
    """With every attribute, numbers of 56 digits included."""
    table.create()
    assert table.put(LEASE, None)
    assert table.read() == LeaseRows({LEASE.shard_id: LEASE})


def test_a_first_put_never_replaces(table: LeaseTable) -> None:
    """A row that came meanwhile stays."""
    table.create()
    table.put(LEASE, None)
    assert not table.put(LEASE._replace(checkpoint="TRIM_HORIZON"), None)
    assert table.read() == LeaseRows({LEASE.shard_id: LEASE})


def test_a_put_that_was_applied_already_succeeds(table: LeaseTable) -> None:
    """Its answer was lost, and it was sent again."""
    table.create()
    table.put(LEASE, None)
    assert table.put(LEASE, None)


def test_a_row_is_replaced_as_it_was_seen(table: LeaseTable) -> None:
    """Whole: what the new row does not say is gone."""
    table.create()
    table.put(LEASE._replace(owner="w1"), None)
    lease = Lease(LEASE.shard_id, "TRIM_HORIZON", 4)
    assert table.put(lease, LEASE)
    assert table.read() == LeaseRows({LEASE.shard_id: lease})


def test_a_row_that_was_renewed_is_not_replaced(table: LeaseTable) -> None:
    """The counter moved."""
    table.create()
    table.put(LEASE._replace(counter=4), None)
    assert not table.put(LEASE._replace(counter=4, checkpoint="TRIM_HORIZON"), LEASE)


def test_a_row_that_went_away_is_not_replaced(table: LeaseTable) -> None:
    """Whoever deleted it is alive."""
    table.create()
    assert not table.put(LEASE, LEASE)


def test_releasing_a_leader_that_is_not_there_is_fine(table: LeaseTable) -> None:
    """No leader, nothing to do."""
    table.create()
    table.release_leader()
    assert table.read() == LeaseRows({})


@pytest.mark.parametrize("legacy", [True, False])
def test_the_leader_is_released_in_both_layouts(dynamodb_client: "DynamoDBClient", legacy: bool) -> None:  # noqa: FBT001 - cases
    """KCL 3.1 keeps it in a table of its own, 3.5 among the leases."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    where, key = (f"{table.name}-CoordinatorState", "key") if legacy else (table.name, "leaseKey")
    if legacy:
        make_table(dynamodb_client, where, key)
    dynamodb_client.put_item(TableName=where, Item={key: {"S": "Leader"}, "entityType": {"S": "LEADER"}})
    table.release_leader()
    assert dynamodb_client.scan(TableName=where)["Items"] == []


@pytest.mark.parametrize(("owner", "released"), [("w1", True), ("w2", False)])
def test_only_the_own_leader_is_released(dynamodb_client: "DynamoDBClient", owner: str, released: bool) -> None:  # noqa: FBT001 - cases
    """Another worker may be leading by now."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    row = {"leaseKey": {"S": "Leader"}, "entityType": {"S": "LEADER"}, "ownerName": {"S": "w1"}}
    dynamodb_client.put_item(TableName=table.name, Item=row)
    assert table.release_leader(owner) == released
    assert len(dynamodb_client.scan(TableName=table.name)["Items"]) == (0 if released else 1)


@pytest.mark.parametrize("legacy", [True, False])
def test_a_lock_is_removed_under_the_version_that_was_seen(dynamodb_client: "DynamoDBClient", legacy: bool) -> None:  # noqa: FBT001 - cases
    """Its holder may live, and have moved it since; the second table may be made after our first look."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    assert table.leader() is None
    where, key = (f"{table.name}-CoordinatorState", "key") if legacy else (table.name, "leaseKey")
    if legacy:
        make_table(dynamodb_client, where, key)
    row = {"entityType": {"S": "LEADER"}, "ownerName": {"S": "w1"}, "recordVersionNumber": {"S": "v-1"}}
    dynamodb_client.put_item(TableName=where, Item={key: {"S": "Leader"}, **row})
    assert table.leader() == LeaderLock("w1", "v-1")
    assert not table.release_leader("w1", "v-0")
    assert table.release_leader("w1", "v-1")
    assert table.leader() is None


def test_the_leader_is_found_where_kcl_moved_it(dynamodb_client: "DynamoDBClient") -> None:
    """`migrateAllEntitiesToLeaseTable` of KCL 3.5 moves it among the leases, and leaves the other table as it is."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    left = f"{table.name}-CoordinatorState"
    make_table(dynamodb_client, left, "key")
    for where, key, owner in ((left, "key", "w1"), (table.name, "leaseKey", "w2")):
        row = {"entityType": {"S": "LEADER"}, "ownerName": {"S": owner}, "recordVersionNumber": {"S": "v-1"}}
        dynamodb_client.put_item(TableName=where, Item={key: {"S": "Leader"}, **row})
    assert table.leader() == LeaderLock("w2", "v-1")
    assert not table.release_leader("w1")
    assert table.release_leader("w2", "v-1")
    assert len(dynamodb_client.scan(TableName=left)["Items"]) == 1


@pytest.mark.parametrize("owner", [None, "w1"])
def test_releasing_says_that_there_was_nothing(table: LeaseTable, owner: str | None) -> None:
    """Neither a row nor, perhaps, a table."""
    assert not table.release_leader(owner)


@pytest.mark.parametrize(("legacy", "marked"), [(True, False), (False, True)])
def test_rows_follow_the_layout(
    dynamodb_client: "DynamoDBClient",
    legacy: bool,  # noqa: FBT001 - cases
    marked: bool,  # noqa: FBT001 - cases
) -> None:
    """`entityType` only where KCL 3.5 may read it."""
    table = dynamodb_table(dynamodb_client)
    if legacy:
        make_table(dynamodb_client, f"{table.name}-CoordinatorState", "key")
    table.create()
    table.put(LEASE, None)
    (item,) = dynamodb_client.scan(TableName=table.name)["Items"]
    assert ("entityType" in item) == marked


def test_a_scan_reads_every_page(dynamodb_client: "DynamoDBClient") -> None:
    """More than 1 MB of rows."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    names = [f"shardId-{number:012d}" for number in range(12)]
    for name in names:
        item = {"leaseKey": {"S": name}, "padding": {"S": "x" * 100_000}}
        counted = {key: {"N": "0"} for key in ("leaseCounter", "ownerSwitchesSinceCheckpoint")}
        dynamodb_client.put_item(
            TableName=table.name,
            Item={**item, **counted, "checkpoint": {"S": "TRIM_HORIZON"}},
        )
    rows = table.read()
    assert rows is not None
    assert list(rows.leases) == names
