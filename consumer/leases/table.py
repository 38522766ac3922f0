"""The lease table on DynamoDB: the only module of the consumer that reads or writes lease rows."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import ClientError

from consumer.leases import rows
from consumer.leases.hand_over import HandOver
from consumer.settings.settings import LoadedSettings
from minutebook.aws.clients import DYNAMODB, ask, client_config, error_code, make_dynamodb_client
from minutebook.clock import Clock
from minutebook.errors import TableRefused, TableUnavailable
from minutebook.kcl_tables import COORDINATOR, LEASES, REPORTS, kcl_tables
from minutebook.retry import Backoff

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import GetItemOutputTypeDef

T = TypeVar("T")

FAILOVER_MS: Final = 10_000
"""KCL's default of failoverTimeMillis."""
_NO_TABLE: Final = "ResourceNotFoundException"
_CONDITION: Final = "ConditionalCheckFailedException"
_POLL_SECONDS: Final = 0.5
_LEADER: Final = "Leader"
_VERSION: Final = "recordVersionNumber"
_REPORT: Final = {"S": "WORKER_METRIC_STATS"}


def lease_table_of(
    loaded: LoadedSettings, clock: Clock, rng: random.Random, *, budget_seconds: float = 60, read_timeout: float = 30
) -> "DynamoDBLeaseTable":
    """Return the lease table that KCL uses with these settings. `read_timeout`: seconds for one response."""
    settings = loaded.settings
    tables = kcl_tables(settings.application_name, loaded.kcl)
    return DynamoDBLeaseTable(
        make_dynamodb_client(
            settings.region, settings.dynamodb_endpoint, settings.access, client_config(read_timeout=read_timeout)
        ),
        tables[LEASES],
        tables[COORDINATOR],
        clock,
        rng,
        budget_seconds=budget_seconds,
        reports=tables[REPORTS],
    )


def failover_seconds(loaded: LoadedSettings) -> float:
    """Return the time after which KCL regards a lease as lost."""
    return int(loaded.kcl.get("failoverTimeMillis", FAILOVER_MS)) / 1000


class DynamoDBLeaseTable:
    """One application's leases; implements `consumer.leases.rows.LeaseTable`.

    Applications begun with KCL 3.0 to 3.4 have a second table, `coordinator`; if it exists, that layout is kept.
    Otherwise the leases have the `entityType` of KCL 3.5, which older versions ignore.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        name: str,
        coordinator: str,
        clock: Clock,
        rng: random.Random,
        *,
        budget_seconds: float = 60,
        reports: str | None = None,
    ) -> None:
        self.name = name
        self._reports = reports or f"{coordinator.removesuffix('-CoordinatorState')}-WorkerMetricStats"
        self._client = client
        self._coordinator = coordinator
        self._clock = clock
        self._rng = rng
        self._budget_seconds = budget_seconds
        self._single: bool | None = None

    def read(self) -> rows.LeaseRows | None:
        """Scan the table with consistent reads; see `LeaseTable`."""
        items = self._scan(self.name)
        return None if items is None else rows.parse_rows(items)

    def create(self, *, protected: bool = False) -> None:
        """Create the table with KCL's index, because adding an index to an existing table takes minutes.

        `protected`: with deletion protection.
        """
        if self._status(self.name) is None:
            self._ask(lambda: self._create(protected=protected), f"CreateTable {self.name}")
        backoff = Backoff(self._clock, self._rng, budget_seconds=300, first_seconds=_POLL_SECONDS, ceiling_seconds=5)
        while self._status(self.name) not in {"ACTIVE", "UPDATING"}:
            if not backoff.wait():
                raise TableUnavailable(
                    f"{self.name} did not become active in 5 minutes",
                    next_step="run the command again: it goes on where it stopped",
                )

    def put(self, lease: rows.Lease, seen: rows.Lease | None) -> bool:
        """Write one row under `put_condition`; see `LeaseTable`.

        A repeated put whose first answer was lost finds its own row: that counts as success.
        """
        condition, values = rows.put_condition(seen)
        request: dict[str, Any] = {
            "TableName": self.name,
            "Item": rows.lease_item(lease, single_table=self._is_single()),
            "ConditionExpression": condition,
        }
        if values:
            request["ExpressionAttributeValues"] = values
        try:
            self._ask(lambda: self._client.put_item(**request), f"PutItem {lease.shard_id} in {self.name}")
        except TableRefused as exc:
            if error_code(exc.__cause__) != _CONDITION:
                raise
            return self._get(lease.shard_id) == lease
        return True

    def hand_over(self, hand_over: HandOver) -> bool:
        """Change a lease's owner by `hand_over_request`; return False if the row has changed since it was read.

        Sent once: a repetition could not tell its own success from a change by others, and nothing depends on it.
        """
        request = rows.hand_over_request(hand_over.lease, hand_over.next_owner)
        what = f"UpdateItem {hand_over.lease.shard_id} in {self.name}"
        try:
            self._ask(lambda: self._client.update_item(TableName=self.name, **request), what, budget_seconds=0)
        except TableRefused as exc:
            if error_code(exc.__cause__) != _CONDITION:
                raise
            return False
        return True

    def reports(self) -> dict[str, int]:
        """Return the time of each worker's last report; see `HandedTable`."""
        table, key = self._report_rows()
        return {
            row[key]["S"]: int(row["lut"]["N"])
            for row in self._scan(table) or []
            if "lut" in row and row.get("entityType", _REPORT) == _REPORT
        }

    def withdraw(self, worker_id: str) -> None:
        """Delete a worker's report; see `HandedTable`."""
        table, key = self._report_rows()
        self._ask(
            lambda: self._client.delete_item(
                TableName=table,
                Key={key: {"S": worker_id}},
                ConditionExpression="attribute_not_exists(leaseCounter)",  # a worker may have the name of a shard
            ),
            f"DeleteItem {worker_id} in {table}",
            may_be_absent=True,
        )

    def leader(self) -> rows.LeaderLock | None:
        """Return the leader's lock, from the table that holds it; None if no worker has it."""
        answer = self._get_leader(*self._leader_row())
        row = answer.get("Item", {}) if answer else {}
        if "ownerName" not in row:
            return None
        return rows.LeaderLock(row["ownerName"].get("S", ""), row.get(_VERSION, {}).get("S", ""))

    def release_leader(self, owner: str | None = None, version: str | None = None) -> bool:
        """Delete the leader's row, from the table that holds it; see `LeaseTable`.

        its owner             we read       our delete
        ----------            --------      ----------
        writes version a      a
        is dead               a             version = a holds: deleted, a living worker may lead
        writes version b      a             version = a fails: it lives, and keeps its lock
        """
        table, key = self._leader_row()
        request: dict[str, Any] = {"TableName": table, "Key": {key: {"S": _LEADER}}, "ReturnValues": "ALL_OLD"}
        wanted = {"ownerName": owner, _VERSION: version}
        values = {name: {"S": value} for name, value in wanted.items() if value is not None}
        if values:
            request |= {
                "ConditionExpression": " AND ".join(f"{name} = :{name}" for name in values),
                "ExpressionAttributeValues": {f":{name}": value for name, value in values.items()},
            }
        try:
            answer = self._ask(
                lambda: self._client.delete_item(**request), f"DeleteItem {_LEADER} in {table}", may_be_absent=True
            )
        except TableRefused as exc:
            if error_code(exc.__cause__) != _CONDITION:
                raise
            return False
        return bool(answer and answer.get("Attributes"))

    def _report_rows(self) -> tuple[str, str]:
        """Return the table of the workers' reports, and the name of its key, in KCL's current or older layout."""
        return (self.name, "leaseKey") if self._is_single() else (self._reports, "wid")

    def _scan(self, table: str) -> list[dict[str, Any]] | None:
        items: list[dict[str, Any]] = []
        request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
        while True:
            page = self._ask(lambda: self._client.scan(**request), f"Scan of {table}", may_be_absent=True)
            if page is None:
                return None
            items += page["Items"]
            if not page.get("LastEvaluatedKey"):
                return items
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _leader_row(self) -> tuple[str, str]:
        """Return the leader's table, and the name of its key.

        KCL 3.5 can move the row of an older application to the leases (`migrateAllEntitiesToLeaseTable`); the row
        that it leaves in the other table is no lock any more.
        """
        is_here = self._is_single() or "Item" in (self._get_leader(self.name, "leaseKey") or {})
        return (self.name, "leaseKey") if is_here else (self._coordinator, "key")

    def _get_leader(self, table: str, key: str) -> "GetItemOutputTypeDef | None":
        return self._ask(
            lambda: self._client.get_item(TableName=table, Key={key: {"S": _LEADER}}, ConsistentRead=True),
            f"GetItem {_LEADER} in {table}",
            may_be_absent=True,
        )

    def _is_single(self) -> bool:
        """Return whether there is only one table. That may change: KCL 3.1 creates its second at its first start."""
        if self._single is not False:
            self._single = self._status(self._coordinator) is None
        return self._single

    def _get(self, shard_id: str) -> rows.Lease | None:
        answer = self._ask(
            lambda: self._client.get_item(
                TableName=self.name, Key={"leaseKey": {"S": shard_id}}, ConsistentRead=True
            ),
            f"GetItem {shard_id} in {self.name}",
        )
        return rows.parse_lease(answer["Item"]) if answer and "Item" in answer else None

    def _create(self, *, protected: bool) -> object:
        try:
            return self._client.create_table(**rows.create_request(self.name, protected=protected))
        except ClientError as exc:
            if error_code(exc) != "ResourceInUseException":  # another process created it in the meantime
                raise
            return None

    def _status(self, table: str) -> str | None:
        answer = self._ask(
            lambda: self._client.describe_table(TableName=table), f"DescribeTable {table}", may_be_absent=True
        )
        return str(answer["Table"]["TableStatus"]) if answer else None

    def _ask(
        self,
        request: Callable[[], T],
        what: str,
        *,
        may_be_absent: bool = False,
        budget_seconds: float | None = None,
    ) -> T | None:
        """Repeat a request until its outcome is known; None if the table is absent and may be."""

        def attempt() -> T | None:
            try:
                return request()
            except ClientError as exc:
                if may_be_absent and error_code(exc) == _NO_TABLE:
                    return None
                raise

        budget = self._budget_seconds if budget_seconds is None else budget_seconds
        backoff = Backoff(self._clock, self._rng, budget_seconds=budget)
        return ask(attempt, what, backoff, DYNAMODB)
