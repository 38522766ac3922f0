"""The DynamoDB side of the lease table port: the only module that sends requests about leases."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, CredentialRetrievalError, HTTPClientError

from archive.clock import Clock
from archive.errors import TableRefused, TableUnavailable
from archive.retry import Backoff
from archive.store.s3 import aws_session
from consumer.leases.rows import Lease, LeaseRows, lease_item, parse_lease, parse_rows, put_condition
from consumer.settings.settings import LoadedSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

_PASSING_CODES: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ResourceInUseException",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TransactionConflictException",
    }
)
_NO_TABLE: Final = "ResourceNotFoundException"
_CONDITION: Final = "ConditionalCheckFailedException"
_SERVER_ERROR: Final = 500
_POLL_SECONDS: Final = 0.5
_LEADER: Final = "Leader"


def make_dynamodb_client(region: str, endpoint: str | None) -> "DynamoDBClient":
    """Return a client without retries of its own: the budget is ours."""
    config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, connect_timeout=5, read_timeout=30)
    return aws_session().client("dynamodb", region_name=region, endpoint_url=endpoint, config=config)


def lease_table_of(
    loaded: LoadedSettings, clock: Clock, rng: random.Random, *, budget_seconds: float = 60
) -> "DynamoDBLeaseTable":
    """Return the lease table that KCL uses with this file."""
    settings = loaded.settings
    return DynamoDBLeaseTable(
        make_dynamodb_client(settings.region, settings.dynamodb_endpoint),
        loaded.kcl.get("tableName", settings.application_name),
        loaded.kcl.get("coordinatorStateTableName", f"{settings.application_name}-CoordinatorState"),
        clock,
        rng,
        budget_seconds=budget_seconds,
    )


class DynamoDBLeaseTable:
    """One application's leases; implements `consumer.leases.rows.LeaseTable`.

    Applications born on KCL 3.0 to 3.4 have a table `coordinator` beside the leases; where it exists, that layout
    is kept. Where it does not, the leases carry the mark of KCL 3.5, which the older versions ignore.
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
    ) -> None:
        self.name = name
        self._client = client
        self._coordinator = coordinator
        self._clock = clock
        self._rng = rng
        self._budget_seconds = budget_seconds
        self._single: bool | None = None

    def read(self) -> LeaseRows | None:
        """Scan consistently, page by page; see `LeaseTable`."""
        items: list[dict[str, Any]] = []
        request: dict[str, Any] = {"TableName": self.name, "ConsistentRead": True}
        while True:
            page = self._ask(lambda: self._client.scan(**request), f"Scan of {self.name}", may_be_absent=True)
            if page is None:
                return None
            items += page["Items"]
            if not page.get("LastEvaluatedKey"):
                return parse_rows(items)
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def create(self) -> None:
        """Make the table with its primary key alone: KCL adds its index when it starts."""
        if self._status(self.name) is None:
            self._ask(self._create, f"CreateTable {self.name}")
        backoff = Backoff(self._clock, self._rng, budget_seconds=300, first_seconds=_POLL_SECONDS, ceiling_seconds=5)
        while self._status(self.name) not in {"ACTIVE", "UPDATING"}:
            if not backoff.wait():
                raise TableUnavailable(
                    f"{self.name} did not become active in 5 minutes",
                    next_step="run the command again: it goes on where it stopped",
                )

    def put(self, lease: Lease, seen: Lease | None) -> bool:
        """Write one row under `put_condition`; see `LeaseTable`.

        A put whose answer was lost and that is sent again meets its own row: that is success.
        """
        condition, values = put_condition(seen)
        request: dict[str, Any] = {
            "TableName": self.name,
            "Item": lease_item(lease, single_table=self._is_single()),
            "ConditionExpression": condition,
        }
        if values:
            request["ExpressionAttributeValues"] = values
        try:
            self._ask(lambda: self._client.put_item(**request), f"PutItem {lease.shard_id} in {self.name}")
        except TableRefused as exc:
            if _code(exc.__cause__) != _CONDITION:
                raise
            return self._get(lease.shard_id) == lease
        return True

    def release_leader(self, owner: str | None = None) -> bool:
        """Delete the leader's row, in whichever table it lives; see `LeaseTable`."""
        table, key = (self.name, "leaseKey") if self._is_single() else (self._coordinator, "key")
        request: dict[str, Any] = {"TableName": table, "Key": {key: {"S": _LEADER}}, "ReturnValues": "ALL_OLD"}
        if owner is not None:
            request |= {
                "ConditionExpression": "ownerName = :owner",
                "ExpressionAttributeValues": {":owner": {"S": owner}},
            }
        try:
            answer = self._ask(
                lambda: self._client.delete_item(**request), f"DeleteItem {_LEADER} in {table}", may_be_absent=True
            )
        except TableRefused as exc:
            if _code(exc.__cause__) != _CONDITION:
                raise
            return False
        return bool(answer and answer.get("Attributes"))

    def _is_single(self) -> bool:
        if self._single is None:
            self._single = self._status(self._coordinator) is None
        return self._single

    def _get(self, shard_id: str) -> Lease | None:
        answer = self._ask(
            lambda: self._client.get_item(
                TableName=self.name, Key={"leaseKey": {"S": shard_id}}, ConsistentRead=True
            ),
            f"GetItem {shard_id} in {self.name}",
        )
        return parse_lease(answer["Item"]) if answer and "Item" in answer else None

    def _create(self) -> object:
        return self._client.create_table(
            TableName=self.name,
            AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def _status(self, table: str) -> str | None:
        answer = self._ask(
            lambda: self._client.describe_table(TableName=table), f"DescribeTable {table}", may_be_absent=True
        )
        return str(answer["Table"]["TableStatus"]) if answer else None

    def _ask(self, request: Callable[[], T], what: str, *, may_be_absent: bool = False) -> T | None:
        """Send until the outcome is known; None when the table may be absent and is."""
        backoff = Backoff(self._clock, self._rng, budget_seconds=self._budget_seconds)
        while True:
            try:
                return request()
            except (ClientError, BotoCoreError) as exc:
                if may_be_absent and _code(exc) == _NO_TABLE:
                    return None
                if not _passing(exc):
                    raise TableRefused(
                        f"{what}: {exc}",
                        next_step="look at dynamoDBEndpoint, regionName and the permissions in docs/operations.md",
                    ) from exc
                if not backoff.wait():
                    raise TableUnavailable(
                        f"{what} kept failing: {exc}", next_step="look at the health of DynamoDB, then run again"
                    ) from exc


def _passing(error: ClientError | BotoCoreError) -> bool:
    if isinstance(error, ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return _code(error) in _PASSING_CODES or status >= _SERVER_ERROR
    return isinstance(error, HTTPClientError | CredentialRetrievalError)


def _code(error: BaseException | None) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
