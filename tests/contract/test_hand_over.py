"""One suite for giving leases away: the fake and the embedded DynamoDB answer alike."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any, Final

import pytest
from botocore.exceptions import ClientError

from consumer.leases.hand_over import HandedTable, HandOver
from consumer.leases.rows import Lease, LeaseRows
from demo.embedded import REGION, EmbeddedAws
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import error_code, make_dynamodb_client
from minutebook.errors import TableRefused, TableUnavailable
from minutebook.format.position import Position
from tests.contract.lease_tables import LEASE, dynamodb_table, make_table
from tests.fakes.lease_table import MemoryLeaseTable

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

HELD: Final = LEASE._replace(owner="w1")
_RACES: Final = 30


@pytest.fixture(params=["fake", "dynamodb"])
def handed_table(request: pytest.FixtureRequest) -> HandedTable:
    """Return a table that does not exist yet."""
    if request.param == "fake":
        return MemoryLeaseTable()
    return dynamodb_table(request.getfixturevalue("dynamodb_client"))


@pytest.mark.parametrize("next_owner", ["w2", None])
def test_a_lease_is_handed_over_as_it_was_seen(handed_table: HandedTable, next_owner: str | None) -> None:
    """Its counter moves, and all else stays."""
    handed_table.create()
    handed_table.put(HELD, None)
    assert handed_table.hand_over(HandOver(HELD, next_owner))
    assert handed_table.read() == LeaseRows({LEASE.shard_id: HELD._replace(owner=next_owner, counter=4)})


def test_a_free_lease_is_given_to_one(handed_table: HandedTable) -> None:
    """Whoever read it as free comes too late when it has an owner."""
    free = HELD._replace(owner=None)
    handed_table.create()
    handed_table.put(free, None)
    assert [handed_table.hand_over(HandOver(free, owner)) for owner in ("w1", "w2")] == [True, False]
    assert handed_table.read() == LeaseRows({LEASE.shard_id: HELD._replace(counter=4)})


@pytest.mark.parametrize(
    "theirs",
    [
        HELD._replace(owner="w3"),
        HELD._replace(counter=4),
        HELD._replace(checkpoint=Position(10**55, 8)),
        HELD._replace(checkpoint=Position(10**55 + 1, 7)),
        HELD._replace(checkpoint="SHARD_END"),
        HELD._replace(owner=None),
    ],
)
def test_a_hand_over_that_comes_late_changes_nothing(handed_table: HandedTable, theirs: Lease) -> None:
    """The leader gave the lease away, a daemon of the same name renewed it, or somebody checkpointed."""
    handed_table.create()
    handed_table.put(theirs, None)
    assert not handed_table.hand_over(HandOver(HELD, "w2"))
    assert handed_table.read() == LeaseRows({LEASE.shard_id: theirs})


def test_a_hand_over_of_a_row_that_is_gone_makes_none(handed_table: HandedTable) -> None:
    """An UpdateItem without a condition would make one of three attributes, which KCL cannot read."""
    handed_table.create()
    assert not handed_table.hand_over(HandOver(HELD, "w2"))
    assert handed_table.read() == LeaseRows({})


def test_a_second_hand_over_changes_nothing(handed_table: HandedTable) -> None:
    """As one whose answer was lost, if it were sent again."""
    handed_table.create()
    handed_table.put(HELD, None)
    assert handed_table.hand_over(HandOver(HELD, "w2"))
    assert not handed_table.hand_over(HandOver(HELD, "w3"))


def test_a_hand_over_of_kcls_own_goes_on(dynamodb_client: "DynamoDBClient") -> None:
    """The old owner is asked to leave (isGracefulLeaseHandoffEnabled): the row names two workers."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    table.put(HELD, None)
    dynamodb_client.update_item(
        TableName=table.name,
        Key={"leaseKey": {"S": LEASE.shard_id}},
        UpdateExpression="SET checkpointOwner = :other",
        ExpressionAttributeValues={":other": {"S": "w9"}},
    )
    assert not table.hand_over(HandOver(HELD, "w2"))


def test_the_row_of_a_hand_over_is_one_that_kcl_reads(dynamodb_client: "DynamoDBClient") -> None:
    """The attributes that it insists on stay; a change of owners is counted as KCL counts it."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    table.put(HELD, None)
    (before,) = dynamodb_client.scan(TableName=table.name)["Items"]
    table.hand_over(HandOver(HELD, "w2"))
    (after,) = dynamodb_client.scan(TableName=table.name)["Items"]
    changed = {"leaseOwner": {"S": "w2"}, "leaseCounter": {"N": "4"}, "ownerSwitchesSinceCheckpoint": {"N": "1"}}
    assert after == {**before, **changed}


@pytest.mark.parametrize("legacy", [True, False])
def test_reports_are_read_and_withdrawn_in_both_layouts(dynamodb_client: "DynamoDBClient", legacy: bool) -> None:  # noqa: FBT001 - cases
    """KCL 3.1 keeps them in a table of their own, 3.5 among the leases."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    table.put(HELD, None)
    assert table.reports() == {}
    where, key = (f"{table.name}-WorkerMetricStats", "wid") if legacy else (table.name, "leaseKey")
    if legacy:
        make_table(dynamodb_client, f"{table.name}-CoordinatorState", "key")
        assert table.reports() == {}
        table.withdraw("w1")
        make_table(dynamodb_client, where, key)
    mark: dict[str, AttributeValueTypeDef] = {} if legacy else {"entityType": {"S": "WORKER_METRIC_STATS"}}
    for worker, at in (("w1", "100"), ("w2", "200")):
        dynamodb_client.put_item(TableName=where, Item={key: {"S": worker}, "lut": {"N": at}, **mark})
    assert table.reports() == {"w1": 100, "w2": 200}
    table.withdraw("w1")
    table.withdraw("w1")
    assert table.reports() == {"w2": 200}
    assert table.read() == LeaseRows({LEASE.shard_id: HELD})


def test_a_worker_that_is_called_as_a_shard_takes_no_row_along(dynamodb_client: "DynamoDBClient") -> None:
    """Where KCL keeps leases and reports in one table, the row of that name is the lease."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    table.put(HELD, None)
    with pytest.raises(TableRefused):
        table.withdraw(HELD.shard_id)
    assert table.read() == LeaseRows({LEASE.shard_id: HELD})


def test_of_a_hand_over_and_a_theft_one_happens(dynamodb_client: "DynamoDBClient") -> None:
    """KCL's leader gives a lease away in the same moment: whoever comes second changes nothing."""
    table = dynamodb_table(dynamodb_client)
    table.create()
    winners = set()
    with ThreadPoolExecutor(2) as pool:
        for number in range(_RACES):
            lease = HELD._replace(shard_id=f"shardId-{number:012d}")
            table.put(lease, None)
            gate = Barrier(2)
            theft = pool.submit(_steal, dynamodb_client, table.name, lease.shard_id, gate)
            gate.wait()
            given, stolen = table.hand_over(HandOver(lease, "w2")), theft.result()
            rows = table.read()
            assert rows is not None
            assert given != stolen
            next_owner = "w2" if given else "thief"
            assert rows.leases[lease.shard_id] == lease._replace(owner=next_owner, counter=4)
            winners.add(next_owner)
    assert winners


def _steal(client: "DynamoDBClient", table: str, shard_id: str, gate: Barrier) -> bool:
    """Assign a lease as KCL's leader does: on the condition that its owner is the one that it saw."""
    gate.wait()
    try:
        client.update_item(
            TableName=table,
            Key={"leaseKey": {"S": shard_id}},
            UpdateExpression="SET leaseOwner = :thief ADD leaseCounter :one, ownerSwitchesSinceCheckpoint :one",
            ConditionExpression="leaseOwner = :owner AND attribute_not_exists(checkpointOwner)",
            ExpressionAttributeValues={":thief": {"S": "thief"}, ":owner": {"S": "w1"}, ":one": {"N": "1"}},
        )
    except ClientError as exc:
        if error_code(exc) != "ConditionalCheckFailedException":
            raise
        return False
    return True


def test_a_hand_over_without_an_answer_is_not_sent_again(embedded_aws: "EmbeddedAws") -> None:
    """It was applied, and the answer says that DynamoDB failed: nobody can tell, and nobody asks."""
    client = make_dynamodb_client(REGION, embedded_aws.dynamodb_endpoint, PLAIN)
    table = dynamodb_table(client)
    table.create()
    table.put(HELD, None)
    answers: list[int] = []

    def lose(http_response: "AWSResponse", parsed: dict[str, Any], **_: object) -> None:
        answers.append(http_response.status_code)
        http_response.status_code = 500
        parsed["Error"] = {"Code": "InternalServerError"}

    client.meta.events.register("after-call.dynamodb.UpdateItem", lose)
    with pytest.raises(TableUnavailable):
        table.hand_over(HandOver(HELD, "w2"))
    assert answers == [200]
    assert table.read() == LeaseRows({LEASE.shard_id: HELD._replace(owner="w2", counter=4)})
