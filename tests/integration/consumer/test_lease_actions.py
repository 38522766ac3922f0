"""The DynamoDB actions of KCL and of deduplication as doctor tries them, before a server that refuses one of them."""

from typing import TYPE_CHECKING

import pytest

from consumer.preflight.check import CheckOutcome
from consumer.preflight.stream import check_actions, check_dedupe_actions
from minutebook.aws.access import PLAIN
from minutebook.aws.clients import make_dynamodb_client
from minutebook.clock import new_id
from tests.fakes.denying_dynamodb import deny

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from demo.embedded import EmbeddedAws

TABLES = {"app": "leaseKey", "app-CoordinatorState": "key", "app-WorkerMetricStats": "wid"}


def make_table(client: "DynamoDBClient", name: str, key: str) -> None:
    """Make a table whose key is a text of this name."""
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )


def test_a_table_of_another_key_is_not_kcls(embedded_aws: "EmbeddedAws", dynamodb_client: "DynamoDBClient") -> None:
    """KCL would try for ever, and say why in its own log alone."""
    name = f"orders-{new_id()[:8]}"
    make_table(dynamodb_client, name, "id")
    client = make_dynamodb_client("us-east-1", embedded_aws.dynamodb_endpoint, PLAIN)
    (check,) = check_actions(client, {name: "leaseKey"}, "nobody")
    assert (check.outcome, check.exit_code, "not KCL's" in check.next_step) == (CheckOutcome.FAIL, 2, True)


@pytest.mark.parametrize("exist", [False, True])
@pytest.mark.parametrize(
    "action", ["DescribeTable", "GetItem", "PutItem", "UpdateItem", "DeleteItem", "Scan", "Query"]
)
def test_a_dynamodb_action_that_is_missing(
    embedded_aws: "EmbeddedAws", dynamodb_client: "DynamoDBClient", action: str, *, exist: bool
) -> None:
    """Each is tried on its own, changes nothing, and is named, whether KCL's tables are there or not."""
    tables = {f"{name}-{new_id()[:8]}": key for name, key in TABLES.items()}
    if exist:
        for name, key in tables.items():
            make_table(dynamodb_client, name, key)
    with deny(embedded_aws.dynamodb_endpoint, action) as endpoint:
        (check,) = check_actions(make_dynamodb_client("us-east-1", endpoint, PLAIN), tables, "nobody")

    assert (check.outcome, check.exit_code) == (CheckOutcome.FAIL, 2)
    assert f"{action} on app-" in check.sentence
    assert f"dynamodb:{action}" in check.next_step
    allowed = check_actions(
        make_dynamodb_client("us-east-1", embedded_aws.dynamodb_endpoint, PLAIN), tables, "nobody"
    )
    assert [check.outcome for check in allowed] == [CheckOutcome.OK] + [CheckOutcome.UNKNOWN] * (not exist)
    assert not exist or all(dynamodb_client.scan(TableName=name)["Count"] == 0 for name in tables)


@pytest.mark.parametrize("exist", [False, True])
@pytest.mark.parametrize("action", ["DescribeTable", "DescribeTimeToLive", "GetItem", "PutItem"])
def test_an_action_on_the_dedupe_table_that_is_missing(
    embedded_aws: "EmbeddedAws", dynamodb_client: "DynamoDBClient", action: str, *, exist: bool
) -> None:
    """Without it the first processor would end, after the daemon has started."""
    name = f"app-dedupe-{new_id()[:8]}"
    if exist:
        make_table(dynamodb_client, name, "id")
    with deny(embedded_aws.dynamodb_endpoint, action) as endpoint:
        check = check_dedupe_actions(make_dynamodb_client("us-east-1", endpoint, PLAIN), name, "nobody")

    assert (check.name, check.outcome, check.exit_code) == ("dedupe table", CheckOutcome.FAIL, 2)
    assert f"{action} on {name}" in check.sentence
    assert f"dynamodb:{action}" in check.next_step
    allowed = check_dedupe_actions(
        make_dynamodb_client("us-east-1", embedded_aws.dynamodb_endpoint, PLAIN), name, "nobody"
    )
    assert (allowed.outcome, "not exist yet" in allowed.sentence) == (CheckOutcome.OK, not exist)
    assert not exist or dynamodb_client.scan(TableName=name)["Count"] == 0


def test_a_dedupe_table_of_another_key_is_not_ours(
    embedded_aws: "EmbeddedAws", dynamodb_client: "DynamoDBClient"
) -> None:
    """As when it is given the name of KCL's lease table."""
    name = f"leases-{new_id()[:8]}"
    make_table(dynamodb_client, name, "leaseKey")
    client = make_dynamodb_client("us-east-1", embedded_aws.dynamodb_endpoint, PLAIN)
    check = check_dedupe_actions(client, name, "nobody")
    assert (check.name, check.outcome, check.exit_code) == ("dedupe table", CheckOutcome.FAIL, 2)
    assert (
        check.next_step == "the table is not of claims, mostly by its key: name another one (minutebook.dedupeTable)"
    )
