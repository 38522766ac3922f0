"""Try the DynamoDB actions that KCL needs, one by one, with requests that change nothing.

    reads                         of an unused key, of one row, of an owner that does not exist
    PutItem, UpdateItem,          of an unused key, on the condition that it exists: DynamoDB checks the permission
      DeleteItem                  first, then the condition, which fails
    CreateTable, UpdateTable      cannot be tried without effect; KCL needs them once, for tables that are missing
                                  and for the index of its lease table

The table need not exist: DynamoDB checks the permission before it (Amazon DynamoDB Developer Guide).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from consumer.preflight.check import Check
from consumer.settings.settings import LoadedSettings
from minutebook.aws.clients import error_code, is_retryable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_NAME: Final = "table actions"
_DENIED: Final = "AccessDeniedException"
_INDEX: Final = "LeaseOwnerToLeaseKeyIndex"
_GRANT: Final = "grant the task's role the DynamoDB actions of `minutebook docs operations permissions`: {}"


def tables_of(loaded: LoadedSettings) -> dict[str, str]:
    """Return the name and the key attribute of each of KCL's tables, the lease table first."""
    name = loaded.settings.application_name
    return {
        loaded.kcl.get("tableName", name): "leaseKey",
        loaded.kcl.get("coordinatorStateTableName", f"{name}-CoordinatorState"): "key",
        loaded.kcl.get("workerMetricsTableName", f"{name}-WorkerMetricStats"): "wid",
    }


def check_actions(client: "DynamoDBClient", keys: Mapping[str, str], nobody: str) -> list[Check]:
    """Try every action on the tables that `tables_of` returned. `nobody` is a key that no row has."""
    denied: list[str] = []
    missing: list[str] = []
    for number, (table, key) in enumerate(keys.items()):
        for action, request in _requests(client, table, key, nobody, is_lease_table=number == 0).items():
            try:
                request()
            except ClientError as exc:
                code = error_code(exc)
                if code == _DENIED:
                    denied.append(f"{action} on {table}")
                elif code == "ResourceNotFoundException" and action == "DescribeTable":
                    missing.append(table)
                elif is_retryable(exc):
                    return [Check.unknown(_NAME, f"{action} on {table}: {exc}", next_step="run it again later")]
            except BotoCoreError as exc:
                return [Check.unknown(_NAME, f"{action} on {table}: {exc}", next_step="look at dynamoDBEndpoint")]
    if denied:
        actions = ", ".join(sorted({f"dynamodb:{text.split()[0]}" for text in denied}))
        return [
            Check.failed(_NAME, f"not allowed: {', '.join(denied)}", next_step=_GRANT.format(actions), exit_code=2)
        ]
    tried = Check.ok(_NAME, "KCL may read and write its tables")
    if not missing:
        return [tried]
    untried = (
        f"CreateTable and UpdateTable cannot be tried without making a table; {', '.join(missing)}: not there yet"
    )
    return [
        tried,
        Check.unknown(
            _NAME, untried, next_step="see that the role has dynamodb:CreateTable and dynamodb:UpdateTable on them"
        ),
    ]


def _requests(
    client: "DynamoDBClient", table: str, key: str, nobody: str, *, is_lease_table: bool
) -> dict[str, Callable[[], object]]:
    row: dict[str, Any] = {key: {"S": nobody}}
    never = {"ConditionExpression": "attribute_exists(#key)", "ExpressionAttributeNames": {"#key": key}}
    requests: dict[str, Callable[[], object]] = {
        "DescribeTable": lambda: client.describe_table(TableName=table),
        "GetItem": lambda: client.get_item(TableName=table, Key=row),
        "Scan": lambda: client.scan(TableName=table, Limit=1),
        "PutItem": lambda: client.put_item(TableName=table, Item=row, **never),  # type: ignore[arg-type]
        "UpdateItem": lambda: client.update_item(TableName=table, Key=row, **never),  # type: ignore[arg-type]
        "DeleteItem": lambda: client.delete_item(TableName=table, Key=row, **never),  # type: ignore[arg-type]
    }
    if is_lease_table:
        requests["Query"] = lambda: client.query(
            TableName=table,
            IndexName=_INDEX,
            KeyConditionExpression="leaseOwner = :nobody",
            ExpressionAttributeValues={":nobody": {"S": nobody}},
            Limit=1,
        )
    return requests
