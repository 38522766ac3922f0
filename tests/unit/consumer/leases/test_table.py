"""The request that hands a lease over: under which condition, and how often it is sent."""

import random
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from consumer.leases.hand_over import HandOver
from consumer.leases.rows import Lease, hand_over_request
from consumer.leases.table import DynamoDBLeaseTable
from minutebook.errors import TableUnavailable
from minutebook.format.position import Position
from tests.fakes.clock import ManualClock

_LEASE = Lease("shardId-000000000001", Position(10**55, 3), 7, "w1")


def test_each_thing_that_was_seen_is_a_condition() -> None:
    """Owner, counter and checkpoint; and that KCL has not begun a hand-over of its own."""
    request = hand_over_request(_LEASE, None)
    assert request["ConditionExpression"].split(" AND ") == [
        "leaseOwner = :owner",
        "leaseCounter = :counter",
        "checkpoint = :checkpoint",
        "checkpointSubSequenceNumber = :sub",
        "attribute_not_exists(checkpointOwner)",
    ]
    assert request["ExpressionAttributeValues"] == {
        ":owner": {"S": "w1"},
        ":counter": {"N": "7"},
        ":checkpoint": {"S": f"{10**55}"},
        ":sub": {"N": "3"},
        ":one": {"N": "1"},
    }


@pytest.mark.parametrize("checkpoint", ["TRIM_HORIZON", "AT_TIMESTAMP"])
def test_a_shard_without_a_checkpoint_is_handed_over_too(checkpoint: Any) -> None:  # noqa: ANN401 - a literal
    """Nothing was delivered yet."""
    values = hand_over_request(_LEASE._replace(checkpoint=checkpoint), "w2")["ExpressionAttributeValues"]
    assert (values[":checkpoint"], values[":sub"]) == ({"S": checkpoint}, {"N": "0"})


class _Failing:
    """A client whose answers are lost."""

    def __init__(self) -> None:
        self.sent = 0

    def update_item(self, **_: object) -> None:
        self.sent += 1
        raise ClientError(
            {"Error": {"Code": "InternalServerError"}, "ResponseMetadata": {"HTTPStatusCode": 500}},  # type: ignore[typeddict-item] # the part that is read
            "UpdateItem",
        )


def test_it_is_sent_once() -> None:
    """Nobody can tell whether it was applied, nothing depends on it, and nobody asks again."""
    client = _Failing()
    table = DynamoDBLeaseTable(cast("Any", client), "t", "c", ManualClock(), random.Random(1))
    with pytest.raises(TableUnavailable):
        table.hand_over(HandOver(_LEASE, "w2"))
    assert client.sent == 1
