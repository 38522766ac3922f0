"""Clients of AWS: how they are made, which errors are retryable, and requests with retries.

botocore's retries are off unless a caller enables them. Our code makes each attempt itself: it never mistakes a 412
after a retry for a lost race, and every request is counted.
"""

import difflib
import functools
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from minutebook import errors
from minutebook.aws.access import Access
from minutebook.aws.answers import CheckedParsers, check_document
from minutebook.aws.checksums import register_checksums
from minutebook.aws.credentials import CREDENTIALS_STEP, comes_from_credentials, guard_credentials
from minutebook.aws.redirects import register_redirects
from minutebook.aws.roles import role_session
from minutebook.clock import SystemClock
from minutebook.retry import LOOK_AT_STORE, Backoff

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.model import OperationModel
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

# By error code, not by HTTP status alone ("Error responses", S3 API reference; "Common errors", Kinesis and DynamoDB
# API references). None of these codes says whether the request was applied.
_RETRYABLE_CODES: Final = frozenset(
    {
        "400",  # a HEAD has no body to name its code: an expired token looks like this
        "BadDigest",
        "BandwidthLimitExceeded",
        "ConditionalRequestConflict",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteBody",
        "IDPCommunicationError",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InvalidSignatureException",  # DynamoDB and Kinesis: the signature expired before the request was sent
        "KMSThrottlingException",
        "LimitExceededException",
        "OperationAborted",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestExpired",
        "RequestLimitExceeded",
        "RequestTimeTooSkewed",
        "RequestTimeout",
        "RequestTimeoutException",
        "ResourceInUseException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
        "TransactionConflictException",
        "XAmzContentChecksumMismatch",
        "XAmzContentSHA256Mismatch",
    }
)
_RETRYABLE_STATUS: Final = frozenset({307, 408, 409, 425, 429})
_RETRYABLE_ERRORS: Final = (
    exceptions.ConnectionError,
    exceptions.HTTPClientError,
    exceptions.IncompleteReadError,
    exceptions.ResponseStreamingError,
    ResponseParserError,
    exceptions.FlexibleChecksumError,  # damaged on the way; if it is damaged in S3, retries exhaust the budget
    exceptions.CredentialRetrievalError,
    ValueError,  # botocore raises it for a date that was cut off
)
_SESSION_LOCK: Final = threading.Lock()  # a session makes clients for one thread at a time (boto3's guide)
_SERVER_ERROR: Final = 500
_shared: dict[tuple[object, ...], Any] | None = None
_SHARED_CONNECTIONS: Final = 64
ANSWER_SECONDS: Final = 60.0
"""How long an answer, or the next part of one, may take."""


def share_clients() -> None:
    """From now on, let equal arguments give one client in this process, for all of its threads.

    Forty streams would make 450, each in 5 ms of CPU time and with a megabyte of its own; and none is ever closed.
    """
    global _shared  # noqa: PLW0603 - as the session, one for the process
    with _SESSION_LOCK:
        _shared = {} if _shared is None else _shared


@functools.cache
def aws_session() -> "Session":
    """Return the process's boto3 session: a second one would parse another 10 MB of botocore's data."""
    import boto3  # noqa: PLC0415 - costs 20 MB, so only processes that talk to AWS import it
    import botocore.session  # noqa: PLC0415 - as above

    core: Any = botocore.session.get_session()
    core.register_component("response_parser_factory", CheckedParsers())
    core.lazy_register_component(
        "credential_provider",
        lambda: guard_credentials(core._create_credential_resolver(), is_retryable),  # noqa: SLF001 - there is no other way
    )
    return boto3.session.Session(botocore_session=core)


@functools.cache
def check_region(region: str, resolve: Callable[[str, int], object] = socket.getaddrinfo) -> None:
    """Raise SettingsError if botocore does not know the region and the name of its endpoint does not resolve.

    botocore alone would reject regions that are younger than itself; DNS alone would reject all during an outage.
    """
    session = aws_session()
    known = {
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("kinesis", partition)
    }
    if region in known:
        return
    address = f"kinesis.{region}.amazonaws.com"
    try:
        resolve(address, 443)
    except OSError as exc:
        close = difflib.get_close_matches(region, sorted(known), n=3)
        raise errors.SettingsError(
            f"there is no AWS region {region}: {address} is not known"
            + (f"; did you mean {' or '.join(close)}?" if close else ""),
            next_step="correct regionName (or MINUTEBOOK_REGION_NAME, streamArn, AWS_REGION)",
        ) from exc


def _client(service: str, region: str, endpoint: str | None, access: Access, config: Config) -> Any:  # noqa: ANN401 - boto3's types
    try:
        return _checked_client(service, region, endpoint, access, config)
    except (BotoCoreError, ValueError) as exc:  # of a name, a profile, or one of AWS's own variables and files
        raise errors.SettingsError(
            f"no client of {service} can be made: {exc}",
            next_step="correct the endpoint or the region, or the variable AWS_* or the file that the error is about",
        ) from exc


def _checked_client(service: str, region: str, endpoint: str | None, access: Access, config: Config) -> Any:  # noqa: ANN401 - same
    if endpoint is None:
        check_region(region)
    config = config.merge(
        Config(use_fips_endpoint=access.use_fips or None, use_dualstack_endpoint=access.use_dualstack or None)
    )
    session = aws_session()
    if service == "kinesis" and access.stream_role_arn is not None:
        session = role_session(session, access.stream_role_arn, access, region)
    with _SESSION_LOCK:
        if _shared is None:
            return _make_client(session, service, region, endpoint, access, config)
        key = service, region, endpoint, access, repr(sorted(vars(config).items()))
        if key not in _shared:
            wide = config.merge(Config(max_pool_connections=_SHARED_CONNECTIONS))
            _shared[key] = _make_client(session, service, region, endpoint, access, wide)
        return _shared[key]


def _make_client(
    session: "Session", service: str, region: str, endpoint: str | None, access: Access, config: Config
) -> Any:  # noqa: ANN401 - boto3's types
    try:
        client = session.client(service, region_name=region, endpoint_url=endpoint, config=config)  # type: ignore[call-overload]
    except BotoCoreError as exc:
        if not comes_from_credentials(exc):
            raise
        raise _SERVICES[service].failure(exc, f"no client of {service}") from exc
    if service != "s3":  # minutebook.store checks the answers of S3
        client.meta.events.register("after-call", check_document)
        return client
    register_checksums(client)
    register_redirects(client, SystemClock())
    if access.changes_s3_requests:
        client.meta.events.register("provide-client-params.s3", functools.partial(_add_parameters, access))
    return client


def _add_parameters(access: Access, params: dict[str, Any], model: "OperationModel", **_: object) -> dict[str, Any]:
    """Return a request's parameters with those of the account's rules."""
    added: dict[str, Any] = {}
    if model.name == "PutObject":
        added = access.put_parameters(len(params.get("Body", b"")))
    elif model.name == "CreateMultipartUpload":
        added = access.put_parameters(None)
    known = model.input_shape.members if model.input_shape is not None else {}
    if access.expected_bucket_owner is not None and "ExpectedBucketOwner" in known:
        added["ExpectedBucketOwner"] = access.expected_bucket_owner
    return {**params, **added}


def client_config(
    *,
    attempts: int = 1,
    read_timeout: float = ANSWER_SECONDS,
    connections: int = 16,
    validate: bool = True,
    path_style: bool = False,
    checksums: str | None = None,
) -> Config:
    """Return the botocore settings of a client. Times are seconds; `path_style` and `checksums` matter to S3 alone.

    `checksums` is botocore's `request_checksum_calculation`; None leaves it to the environment.
    """
    return Config(
        retries={"total_max_attempts": attempts, "mode": "standard"},
        connect_timeout=5,
        read_timeout=read_timeout,
        max_pool_connections=connections,
        parameter_validation=validate,
        s3={"addressing_style": "path" if path_style else "auto"},
        request_checksum_calculation=checksums,  # type: ignore[arg-type]  # the stubs list the two values
    )


def make_s3_client(
    region: str,
    endpoint: str | None,
    access: Access,
    *,
    read_timeout: float = ANSWER_SECONDS,
    checksums: str | None = None,
) -> "S3Client":
    """Return a client for AWS, or for `endpoint` (with path-style addresses, which local servers need).

    `read_timeout` is how many seconds an answer, or the next part of one, may take; `checksums` as in
    `client_config`.
    """
    config = client_config(read_timeout=read_timeout, path_style=endpoint is not None, checksums=checksums)
    client: S3Client = _client("s3", region, endpoint, access, config)
    return client


def make_kinesis_client(
    region: str, endpoint: str | None, access: Access, config: Config | None = None
) -> "KinesisClient":
    """Return a client for AWS, or for `endpoint`, with the stream's role if `access` names one."""
    client: KinesisClient = _client("kinesis", region, endpoint, access, config or client_config())
    return client


def make_dynamodb_client(
    region: str, endpoint: str | None, access: Access, config: Config | None = None
) -> "DynamoDBClient":
    """Return a client for AWS, or for `endpoint`."""
    settings = config or client_config(read_timeout=30)
    client: DynamoDBClient = _client("dynamodb", region, endpoint, access, settings)
    return client


class GlueClient(Protocol):
    """What is asked of Glue."""

    def get_schema_version(self, *, SchemaVersionId: str) -> Mapping[str, Any]:  # noqa: N803 - boto3's name
        """Return the version of a schema; raises ClientError."""


def make_glue_client(region: str, endpoint: str | None, access: Access) -> GlueClient:
    """Return a client for AWS, or for `endpoint`."""
    client: GlueClient = _client("glue", region, endpoint, access, client_config(read_timeout=30))
    return client


def error_code(error: BaseException | None) -> str:
    """Return the service's error code; empty if no service answered."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error answer; 0 if no service answered."""
    metadata = error.response.get("ResponseMetadata", {}) if isinstance(error, ClientError) else {}
    return int(metadata.get("HTTPStatusCode", 0))


def is_retryable_code(code: str) -> bool:
    """Return whether a request that failed with this code may succeed when sent again."""
    return code in _RETRYABLE_CODES or code.startswith("KMS.Throttling")


def is_retryable(error: Exception) -> bool:
    """Return whether the request may succeed when sent again; its outcome is then unknown."""
    if not isinstance(error, ClientError):
        return isinstance(error, _RETRYABLE_ERRORS)
    code, status = error_code(error), http_status(error)
    return (
        is_retryable_code(code)
        or status in _RETRYABLE_STATUS
        or (status >= _SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED)
    )


class Service(NamedTuple):
    """The errors of our tree for a service's failures, and their next steps."""

    refused: type[errors.MinutebookError]
    refused_step: str
    unavailable: type[errors.MinutebookError]
    unavailable_step: str

    def failure(self, error: Exception, what: str) -> errors.MinutebookError:
        """Return the error for a failure that is not tried again; `what` names the request."""
        kind, step = self.refused, self.refused_step
        if is_retryable(error):
            kind, step = self.unavailable, self.unavailable_step
        return kind(f"{what}: {error}", next_step=CREDENTIALS_STEP if comes_from_credentials(error) else step)


KINESIS: Final = Service(
    errors.StreamRefused,
    "look at streamName, regionName and the permissions: minutebook docs operations permissions",
    errors.StreamUnavailable,
    "look at the health of Kinesis and at the read limits of the shard",
)
DYNAMODB: Final = Service(
    errors.TableRefused,
    "look at dynamoDBEndpoint, regionName and the permissions: minutebook docs operations permissions",
    errors.TableUnavailable,
    "look at the health of DynamoDB, then run again",
)

GLUE: Final = Service(
    errors.RegistryRefused,
    "look at regionName and at glue:GetSchemaVersion in the policy: minutebook docs operations permissions",
    errors.RegistryUnavailable,
    "look at the health of Glue and at minutebook.glueEndpoint, then run again",
)
S3: Final = Service(
    errors.StoreRefused, "look at credentials, region and endpoint", errors.StoreUnavailable, LOOK_AT_STORE
)
_SERVICES: Final = {"kinesis": KINESIS, "dynamodb": DYNAMODB, "s3": S3, "glue": GLUE}


def ask(request: Callable[[], T], what: str, backoff: Backoff, service: Service) -> T:
    """Send a request that is safe to repeat until it is answered; `what` names it in errors.

    Raises `service.refused` for an error that is not retryable, `service.unavailable` once the budget is spent.
    """
    while True:
        try:
            return request()
        except (ClientError, BotoCoreError) as exc:
            if not is_retryable(exc):
                raise service.failure(exc, what) from exc
            if not backoff.wait():
                raise service.failure(exc, f"{what} kept failing") from exc
