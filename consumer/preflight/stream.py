"""Pre-flight checks of the stream, of the archive under the prefix, and of the lease table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from consumer.archived.application import check_unbegun, propose_start
from consumer.preflight.check import Check
from consumer.preflight.probe import PATIENCE_SECONDS, Probe
from consumer.settings.settings import LoadedSettings
from minutebook.aws.clients import client_config, error_code, is_retryable, make_dynamodb_client
from minutebook.compression import Compression
from minutebook.errors import StreamRefused
from minutebook.format.aggregate import MAGIC
from minutebook.format.payload import PayloadPath
from minutebook.kcl_tables import COORDINATOR, LEASES, REPORTS, kcl_tables
from minutebook.owner import check_stream as check_same_stream
from minutebook.owner import read_application

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ACTIONS: Final = "table actions"
_DEDUPE: Final = "dedupe table"
_NOT_KCLS: Final = "not KCL's, mostly by its key: name another one, or correct applicationName"
_EXPECTED: Final = frozenset({"ConditionalCheckFailedException", "ResourceNotFoundException"})
"""Answers of a table that is KCL's, or is not there yet."""
_GRANT: Final = "grant the task's role the DynamoDB actions of `minutebook docs operations permissions`: {}"


def describe_stream(probe: Probe) -> Check:
    """Describe the stream and list its shards; raises StreamRefused or StreamUnavailable."""
    settings = probe.settings
    try:
        identity = probe.stream.describe()
        shards = sum(not shard.closed for shard in probe.stream.shards())
    except StreamRefused as exc:
        code = error_code(exc.__cause__)
        if code == "ResourceNotFoundException":
            return Check.failed(
                "stream",
                f"there is no stream {settings.stream_name} in {settings.region}",
                next_step="create it, or correct streamName and regionName",
                exit_code=exc.exit_code,
            )
        if _is_of_role(exc.__cause__):
            return Check.failed(
                "stream",
                f"the role {settings.access.stream_role_arn} cannot be assumed: {exc.__cause__}",
                next_step="allow sts:AssumeRole on it to this process, and this process (and the external id) in the "
                "role's trust policy",
                exit_code=exc.exit_code,
            )
        if code == "ResourceInUseException":
            return Check.failed(
                "stream",
                f"the stream {settings.stream_name} is not active",
                next_step="wait until it is",
                exit_code=exc.exit_code,
            )
        raise
    if (arn := probe.loaded.kcl.get("streamArn", identity.arn)) != identity.arn:
        return Check.failed(
            "stream",
            f"streamArn is {arn}, and this process asks {identity.arn}: KCL would read another account's stream",
            next_step="correct streamArn, or name the role to read it with: minutebook.streamRoleArn",
            exit_code=2,
        )
    propose_start(settings.start, identity, settings.max_segment_age_seconds, probe.clock.now_ms())
    hours, role = identity.retention_ms // 3_600_000, settings.access.stream_role_arn
    asked_as = f", asked as {role}" if role else ""
    return Check.ok("stream", f"{settings.stream_name}: {shards} open shards, retention {hours} h{asked_as}")


def _is_of_role(error: BaseException | None) -> bool:
    return isinstance(error, ClientError) and error.operation_name == "AssumeRole"


def check_reading(probe: Probe) -> Check:
    """Read one record of one shard, as KCL will; raises DeliveryDoubt if its stamp is impossible."""
    name, kinesis = probe.settings.stream_name, probe.kinesis
    shard = next(iter(probe.stream.shards())).shard_id
    try:
        iterator = kinesis.get_shard_iterator(StreamName=name, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
        answer = kinesis.get_records(ShardIterator=iterator["ShardIterator"], Limit=1)
    except ClientError as exc:
        if is_retryable(exc):
            return Check.unknown(
                "stream", f"reading {shard} is throttled", next_step="too many readers share the shard"
            )
        return Check.failed(
            "stream",
            f"{shard} cannot be read: {exc}",
            next_step="grant the Kinesis actions of `minutebook docs operations permissions`",
            exit_code=2,
        )
    except BotoCoreError as exc:
        return Check.failed(
            "stream",
            f"{shard} cannot be read: {exc}",
            next_step="look at kinesisEndpoint and the network",
            exit_code=5,
        )
    for record in answer["Records"]:
        arrival_ms = int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)
        probe.stream.describe().check_arrival(f"the oldest record of {shard}", arrival_ms)
        if (unread := unread_id(probe.settings.event_id, record["Data"])) is not None:
            return Check.warn(
                "stream",
                f"{shard} can be read, but its oldest record has no event id at {probe.settings.event_id}: {unread}",
                next_step="correct minutebook.eventId, or let producers send JSON: ids are read from payloads as "
                "they come, before any step of `decode`; a record without one is never dropped as a duplicate",
            )
    return Check.ok("stream", f"{shard} can be read")


def unread_id(path: str | None, payload: bytes) -> str | None:
    """Return what a payload is that holds no event id at a path; None if it holds one, or none is wanted.

    The records within an aggregate of the KPL are not looked at.
    """
    if path is None or payload.startswith(MAGIC) or PayloadPath(path).text(payload) is not None:
        return None
    kinds = (compression.value for compression in Compression if payload.startswith(compression.magic))
    return f"it is {next(kinds, 'no JSON with a text or an integer there')}"


def check_owner(probe: Probe) -> Check:
    """Check that the prefix is empty or holds this stream's archive; raises SafetyRefusal or FormatError."""
    settings = probe.settings
    record = read_application(probe.store, settings.prefix)
    if record is None:
        check_unbegun(probe.store, settings.prefix)
        return Check.ok("prefix", "free: this application will begin the archive")
    check_same_stream(record, probe.stream.describe(), settings.prefix)
    if record.application != settings.application_name:
        return Check.warn(
            "prefix",
            f"begun by the application {record.application}, not {settings.application_name}",
            next_step=f"correct applicationName: both archive each record once, but compact, vacuum, expire and "
            f"restore take properties of {record.application} alone",
        )
    if settings.compression not in {None, record.compression}:
        return Check.warn(
            "prefix",
            f"holds an archive of {record.compression}: minutebook.compression={settings.compression} is not used",
            next_step="remove the line, or use a new prefix",
        )
    return Check.ok("prefix", "holds the archive of this stream")


def check_table(probe: Probe) -> Check:
    """Describe the lease table; a missing one is ok, KCL creates it."""
    table = next(iter(tables_of(probe.loaded)))
    client = _dynamodb(probe)
    try:
        status = client.describe_table(TableName=table)["Table"].get("TableStatus", "unknown")
    except ClientError as exc:
        if error_code(exc) == "ResourceNotFoundException":
            return Check.ok("table", f"{table} does not exist yet: KCL creates it")
        exit_code = 5 if is_retryable(exc) else 2
        return Check.failed(
            "table",
            f"{table}: {exc}",
            next_step="grant the DynamoDB actions of `minutebook docs operations permissions`",
            exit_code=exit_code,
        )
    except BotoCoreError as exc:
        return Check.failed(
            "table", f"{table}: {exc}", next_step="look at dynamoDBEndpoint and the network", exit_code=5
        )
    return Check.ok("table", f"{table} is {status}")


def check_lease_actions(probe: Probe) -> list[Check]:
    """Try the DynamoDB actions that KCL needs."""
    return check_actions(_dynamodb(probe), tables_of(probe.loaded), f"minutebook-doctor-{probe.new_id()}")


def _dynamodb(probe: Probe) -> "DynamoDBClient":
    config = client_config(attempts=3, read_timeout=PATIENCE_SECONDS)
    return make_dynamodb_client(
        probe.settings.region, probe.settings.dynamodb_endpoint, probe.settings.access, config
    )


def tables_of(loaded: LoadedSettings) -> dict[str, str]:
    """Return the name and the key attribute of each of KCL's tables, the lease table first."""
    tables = kcl_tables(loaded.settings.application_name, loaded.kcl)
    return {tables[LEASES]: "leaseKey", tables[COORDINATOR]: "key", tables[REPORTS]: "wid"}


def check_dedupe_table(probe: Probe) -> list[Check]:
    """Try what producer deduplication asks of its table; nothing where it is off."""
    name = probe.settings.dedupe_table_name
    return (
        [] if name is None else [check_dedupe_actions(_dynamodb(probe), name, f"minutebook-doctor-{probe.new_id()}")]
    )


def check_dedupe_actions(client: "DynamoDBClient", table: str, nobody: str) -> Check:
    """Try each action on the dedupe table by requests that change nothing; `nobody` is a key that no row has."""
    row: dict[str, Any] = {"id": {"S": nobody}}
    never = "attribute_exists(id)"
    requests: dict[str, Callable[[], object]] = {
        "DescribeTable": lambda: client.describe_table(TableName=table),
        "DescribeTimeToLive": lambda: client.describe_time_to_live(TableName=table),
        "GetItem": lambda: client.get_item(TableName=table, Key=row),
        "PutItem": lambda: client.put_item(TableName=table, Item=row, ConditionExpression=never),
    }
    trial = _try(table, requests, "not of claims, mostly by its key: name another one (minutebook.dedupeTable)")
    if isinstance(trial, Check):
        return replace(trial, name=_DEDUPE)
    if trial.denied:
        return _not_allowed(_DEDUPE, trial.denied)
    if trial.is_missing:
        return Check.ok(_DEDUPE, f"{table} does not exist yet: the first processor creates it")
    return Check.ok(_DEDUPE, f"{table} can be read and written")


class _Trial(NamedTuple):
    """The actions that are not allowed, each with its table, and whether the table is missing."""

    denied: list[str]
    is_missing: bool


def _try(table: str, requests: Mapping[str, Callable[[], object]], otherwise: str) -> _Trial | Check:
    """Send the request of each action; where an answer is none that it gives, a check says that it is `otherwise`."""
    denied: list[str] = []
    is_missing = False
    for action, request in requests.items():
        try:
            request()
        except ClientError as exc:
            code = error_code(exc)
            if code == "AccessDeniedException":
                denied.append(f"{action} on {table}")
            elif code == "ResourceNotFoundException" and action == "DescribeTable":
                is_missing = True
            elif code not in _EXPECTED and (action != "Query" or is_retryable(exc)):  # the index may be missing
                return _unexpected(f"{action} on {table}: {exc}", exc, otherwise)
        except BotoCoreError as exc:
            return Check.unknown(_ACTIONS, f"{action} on {table}: {exc}", next_step="look at dynamoDBEndpoint")
    return _Trial(denied, is_missing)


def _unexpected(sentence: str, error: ClientError, otherwise: str) -> Check:
    if is_retryable(error):
        return Check.unknown(_ACTIONS, sentence, next_step="run it again later")
    return Check.failed(_ACTIONS, sentence, next_step=f"the table is {otherwise}", exit_code=2)


def _not_allowed(name: str, denied: list[str]) -> Check:
    actions = ", ".join(sorted({f"dynamodb:{text.split()[0]}" for text in denied}))
    return Check.failed(name, f"not allowed: {', '.join(denied)}", next_step=_GRANT.format(actions), exit_code=2)


def check_actions(client: "DynamoDBClient", keys: Mapping[str, str], nobody: str) -> list[Check]:
    """Try every action that KCL needs on the tables that `tables_of` returned, by requests that change nothing.

    `nobody` is a key that no row has: writes are conditional on its existence, and DynamoDB checks the permission
    before condition and table (Amazon DynamoDB Developer Guide). CreateTable and UpdateTable cannot be tried; KCL
    needs them once, for tables that are missing and for the index of its lease table.
    """
    denied: list[str] = []
    missing: list[str] = []
    for number, (table, key) in enumerate(keys.items()):
        trial = _try(table, _requests(client, table, key, nobody, is_lease_table=number == 0), _NOT_KCLS)
        if isinstance(trial, Check):
            return [trial]
        denied += trial.denied
        missing += [table] if trial.is_missing else []
    if denied:
        return [_not_allowed(_ACTIONS, denied)]
    tried = Check.ok(_ACTIONS, "KCL may read and write its tables")
    if not missing:
        return [tried]
    untried = (
        f"CreateTable and UpdateTable cannot be tried without making a table; {', '.join(missing)}: not there yet"
    )
    return [
        tried,
        Check.unknown(
            _ACTIONS, untried, next_step="see that the role has dynamodb:CreateTable and dynamodb:UpdateTable on them"
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
            IndexName="LeaseOwnerToLeaseKeyIndex",
            KeyConditionExpression="leaseOwner = :nobody",
            ExpressionAttributeValues={":nobody": {"S": nobody}},
            Limit=1,
        )
    return requests
