"""Dedupe tables on a real server, and the faults that a client can be given there."""

import random
from typing import TYPE_CHECKING

from botocore.exceptions import ConnectionClosedError, EndpointConnectionError

from consumer.dedupe.table import DynamoDedupeTable
from minutebook.clock import SystemClock
from minutebook.retry import Backoff, until_known

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def ready(client: "DynamoDBClient", name: str, *, sweeps: bool = False) -> DynamoDedupeTable:
    """Make the table and wait until it is usable; unless it `sweeps`, what has run out stays in it.

    The tests count time from 1970. DynamoDB deletes nothing that ran out more than five years ago; the embedded
    server does, once a minute.
    """
    table = DynamoDedupeTable(client, name)
    clock = SystemClock()
    waits = Backoff(clock, random.Random(1), budget_seconds=30)
    while not until_known(table.ensure, waits, "the table"):
        clock.sleep(0.05)
    if not sweeps:
        off = {"Enabled": False, "AttributeName": "expires"}
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=off)  # type: ignore[arg-type]
    return table


class ClientFaults:
    """Faults of one client, under the names of `MemoryDedupeTable`: on either side of a request's application."""

    def __init__(self, client: "DynamoDBClient") -> None:
        self.lose_answers = 0
        self.refuse_before = 0
        client.meta.events.register("before-send.dynamodb", self._before)
        client.meta.events.register("after-call.dynamodb", self._after)

    def _before(self, **_: object) -> None:
        if self.refuse_before:
            self.refuse_before -= 1
            raise EndpointConnectionError(endpoint_url="dynamodb")

    def _after(self, **_: object) -> None:
        if self.lose_answers:
            self.lose_answers -= 1
            raise ConnectionClosedError(endpoint_url="dynamodb")
