"""The dedupe table as boto3 shows it: the real `consumer.dedupe.table.DynamoDedupeTable` runs on this client.

The conditions of DynamoDB are read as they are sent, so that a product that sends another one is judged by it. Time
to live deletes what has expired late or at once, at the history's will. The statements of a batch are applied one by
one, in any order and with others between them; each may be refused, or applied without saying so, by itself.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from consumer.dedupe.claim_batches import MOST_STATEMENTS
from consumer.dedupe.deduplicator import ClaimMap
from consumer.dedupe.table import DynamoDedupeTable
from tests.fakes.dedupe_table import ITEM_BYTES
from tests.simulation.services.statements import Flying, Item, holds, put_of
from tests.simulation.world import Host, World

_FAULTS: Final = ("throttled", "refused before", "500 before", "answer lost", "500 after")
_PUT_FAULTS: Final = (*_FAULTS, "delayed")
_STATEMENT_FAULTS: Final = {
    "throttled": "ThrottlingError",
    "500 before": "InternalServerError",
    "500 after": "InternalServerError",
    "delayed": "InternalServerError",
}
A = TypeVar("A")
B = TypeVar("B")


class Table:
    """The items by id, and the puts that are still on their way.

    `on_put` sees every item that is stored, `on_sent` every one that a processor sends.
    """

    def __init__(
        self, world: World, on_put: Callable[[str, Item], None], on_sent: Callable[[Host, Item], None]
    ) -> None:
        self.world = world
        self.exists = False
        self.times_out = False
        self.items: dict[str, Item] = {}
        self.flying: list[Flying] = []
        self.lost_at: list[float] = []
        self._on_put = on_put
        self.on_sent = on_sent

    def apply(self, put: Flying) -> Item | None:
        """Apply a put now; return None when it was stored, else the item as it is, which is empty where none is."""
        key = put.item["id"]["S"]
        held = self.items.get(key)
        if put.condition is not None and not any(
            holds(clause, held, put.values) for clause in put.condition.split(" OR ")
        ):
            return held or {}
        self.items[key] = {**(held or {}), **put.item} if put.is_update else put.item
        self._on_put(key, self.items[key])
        return None

    def land(self, number: int) -> None:
        """Let a put that was on its way arrive."""
        flying = self.flying.pop(number)
        if self.exists and self.apply(flying) is None:
            self.world.happened("DynamoDB: a delayed put arrives", flying.item["id"]["S"])

    def lose(self) -> None:
        """Somebody deletes the table."""
        self.exists = self.times_out = False
        self.items.clear()
        self.flying.clear()
        self.lost_at.append(self.world.now)

    def sweep(self, share: float) -> None:
        """Let time to live delete a share of what has expired."""
        for key, item in list(self.items.items()):
            expires = item.get("expires")
            if self.times_out and expires and int(expires["N"]) < self.world.now and self.world.chance(share):
                del self.items[key]
                self.world.happened("DynamoDB: time to live deletes a claim", key)


class DynamoClient:
    """One machine's client of the table, in the shape of boto3's."""

    def __init__(self, table: Table, host: Host) -> None:
        self._table = table
        self._host = host

    def put_item(
        self,
        *,
        TableName: str,  # noqa: ARG002, N803 - boto3's names
        Item: Item,  # noqa: N803
        ConditionExpression: str | None = None,  # noqa: N803
        ExpressionAttributeNames: Mapping[str, str] | None = None,  # noqa: ARG002, N803
        ExpressionAttributeValues: Mapping[str, Any] | None = None,  # noqa: N803
        ReturnValuesOnConditionCheckFailure: str | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """PutItem; a refusal shows the item as it is when that was asked for."""
        if sum(len(name) + len(str(text)) for name, value in Item.items() for text in value.values()) > ITEM_BYTES:
            raise _error(400, "ValidationException")
        self._table.on_sent(self._host, Item)
        fault = self._begin("PutItem", _PUT_FAULTS)
        put = Flying(Item, ConditionExpression, ExpressionAttributeValues or {})
        if fault == "delayed":
            self._table.flying.append(put)
            self._host.point("while a put to the table is on its way")
            raise ReadTimeoutError(endpoint_url="dynamodb")
        held = self._table.apply(put)
        of = "" if held is None else f": held by {_short(held)}"
        self._host.note(f"PutItem {Item['id']['S']} {_short(Item)}{of}")
        self._end(fault)
        if held is not None:
            self._host.world.tally["DynamoDB: condition failed"] += 1
            shown = {"Item": held} if ReturnValuesOnConditionCheckFailure == "ALL_OLD" else {}
            raise _error(400, "ConditionalCheckFailedException", shown)
        return {}

    def batch_execute_statement(self, *, Statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """BatchExecuteStatement. A connection may end in the middle of it."""
        puts = [put_of(statement) for statement in Statements]
        for put in puts:
            self._table.on_sent(self._host, put.item)
        fault = self._begin("BatchExecuteStatement", _PUT_FAULTS)
        entries: dict[int, Mapping[str, Any]] = {}
        world = self._host.world
        for number in world.rng.sample(range(len(puts)), len(puts)):
            is_late = fault == "delayed" and world.chance(0.5)
            entries[number] = self._run(puts[number], "delayed" if is_late else self._statement_fault())
            self._host.point("between two statements of a batch")
        if fault == "delayed":
            raise ReadTimeoutError(endpoint_url="dynamodb")
        self._end(fault)
        is_one_item_twice = len({put.item["id"]["S"] for put in puts}) < len(puts)
        if is_one_item_twice or not 0 < len(puts) <= MOST_STATEMENTS:
            raise _error(400, "ValidationException")  # and a part was applied: so does Amazon's own DynamoDB Local
        return {"Responses": [entries[number] for number in range(len(puts))]}

    def _statement_fault(self) -> str | None:
        world = self._host.world
        if not world.chance(max(self._host.fault_rate, self._host.table_fault_rate)):
            return None
        fault = world.rng.choice(list(_STATEMENT_FAULTS))
        world.tally[f"DynamoDB: a statement {fault}"] += 1
        return fault

    def _run(self, put: Flying, fault: str | None) -> Mapping[str, Any]:
        """Run one statement; return its entry in the answer."""
        held: Item | None = None
        if fault == "delayed":
            self._table.flying.append(put)
        elif fault in {None, "500 after"}:
            held = self._table.apply(put)
        verb = "UPDATE" if put.is_update else "INSERT"
        said = fault or ("done" if held is None else f"held by {_short(held)}")
        self._host.note(f"{verb} {put.item['id']['S']} {_short(put.item)}: {said}")
        if fault is not None:
            return {"Error": {"Code": _STATEMENT_FAULTS[fault], "Message": ""}, "TableName": "dedupe"}
        if held is None:
            self._host.world.tally[f"DynamoDB: {verb} succeeds"] += 1
            return {"TableName": "dedupe"}
        self._host.world.tally[f"DynamoDB: {verb} finds another item"] += 1
        if verb == "INSERT":
            return {"Error": {"Code": "DuplicateItem", "Message": ""}, "TableName": "dedupe"}
        shown = {"Item": held} if held and put.shows else {}
        return {"Error": {"Code": "ConditionalCheckFailed", "Message": "", **shown}, "TableName": "dedupe"}

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool) -> dict[str, Any]:  # noqa: ARG002, N803
        """GetItem."""
        fault = self._begin("GetItem", _FAULTS)
        item = self._table.items.get(Key["id"]["S"])
        self._end(fault)
        return {} if item is None else {"Item": item}

    def describe_table(self, *, TableName: str) -> dict[str, Any]:  # noqa: ARG002, N803
        """DescribeTable."""
        fault = self._begin("DescribeTable", _FAULTS)
        self._end(fault)
        return {"Table": {"TableStatus": "ACTIVE"}}

    def create_table(self, **_request: object) -> dict[str, Any]:
        """CreateTable; the table is usable at once."""
        fault = self._begin("CreateTable", _FAULTS, needs_table=False)
        existed, self._table.exists = self._table.exists, True
        self._end(fault)
        if existed:
            raise _error(400, "ResourceInUseException")
        return {}

    def describe_time_to_live(self, *, TableName: str) -> dict[str, Any]:  # noqa: ARG002, N803
        """DescribeTimeToLive."""
        fault = self._begin("DescribeTimeToLive", _FAULTS)
        self._end(fault)
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED" if self._table.times_out else "DISABLED"}}

    def update_time_to_live(self, **_request: object) -> dict[str, Any]:
        """UpdateTimeToLive."""
        fault = self._begin("UpdateTimeToLive", _FAULTS)
        self._table.times_out = True
        self._end(fault)
        return {}

    def _begin(self, verb: str, faults: tuple[str, ...], *, needs_table: bool = True) -> str | None:
        host, world = self._host, self._host.world
        host.request(verb)
        host.point("before a request to DynamoDB is applied")
        if needs_table and not self._table.exists:
            raise _error(400, "ResourceNotFoundException")
        if not world.chance(max(host.fault_rate, host.table_fault_rate)):
            return None
        fault = world.rng.choice(faults)
        world.tally[f"DynamoDB: {verb} {fault}"] += 1
        host.note(f"{verb}: {fault}")
        if fault == "throttled":
            raise _error(400, "ProvisionedThroughputExceededException")
        if fault == "refused before":
            raise EndpointConnectionError(endpoint_url="dynamodb")
        if fault == "500 before":
            raise _error(500, "InternalServerError")
        return fault

    def _end(self, fault: str | None) -> None:
        self._host.point("after a request to DynamoDB was applied")
        if fault == "answer lost":
            raise ReadTimeoutError(endpoint_url="dynamodb")
        if fault == "500 after":
            raise _error(500, "InternalServerError")


def open_table(table: Table, host: Host) -> DynamoDedupeTable:
    """Return the product's own port on the simulated table."""
    return DynamoDedupeTable(DynamoClient(table, host), "dedupe")  # type: ignore[arg-type] # the part of it that is used


def in_any_order(rng: random.Random) -> ClaimMap:
    """Return a `map` that runs its calls in an order of chance, as requests in flight arrive."""

    def map_claims(call: Callable[[A], B], wanted: Iterable[A], /) -> Iterable[B]:
        given = list(wanted)
        found: dict[int, B] = {}
        for number in rng.sample(range(len(given)), len(given)):
            found[number] = call(given[number])
        return [found[number] for number in range(len(given))]

    return map_claims


def _short(item: Item) -> str:
    return str((item.get("owner") or item.get("position") or {}).get("S", ""))[-20:]


def _error(status: int, code: str, shown: Mapping[str, Any] | None = None) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": {"HTTPStatusCode": status}, **(shown or {})},  # type: ignore[typeddict-item] # what our code reads of it
        "simulated",
    )
